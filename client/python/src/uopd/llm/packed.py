# SPDX-License-Identifier: MIT
"""Quantised matrices in the order in which a CPU multiplies by them, and products with them by sums of integers.

Sixteen rows lie side by side, so that one vector has a word of each row: four numbers of 8 bits, which follow each other along the row. An instruction adds
up the products of the four numbers with four bytes of the other operand. That operand is rounded to 16 bits, relative to the largest of 32 neighbours, and
is multiplied as two bytes. The sums of integers are exact. So a product differs from an exact one by at most 1/65024 of the largest element of each 32, times
the sum of the magnitudes of the weights there, and by what float32 loses in the sum over the blocks.
"""
from __future__ import annotations

import functools
import itertools
from typing import Any, Iterable, NamedTuple, Sequence

from ..dtype import dtypes
from ..tensor import Tensor
from .ggml import BLOCKS, Numbers
from .gguf import Stored, on_daemon

ROWS = 16    # rows side by side
BLOCK = 32   # elements of a row for which the other operand has one scale
_TOP = 127 * 256            # the largest integer of 16 bits whose high byte, rounded to nearest, is at most 127
_LEAST = 2.0 ** -120        # a smaller scale counts as 0: its inverse would not be finite
_ROUND, _ROUND_BITS = 3.0 * 2 ** 22, 0x4B400000  # a float32 has no fractions here: the sum of it and x is rounded to nearest, and the low bits are the integer


def _steps(n: int, step: int, axis: int) -> Tensor:
  """0, step, 2 step, ... along an axis that is counted from the end: numbers of bits to shift by."""
  return (Tensor.arange(n, dtype=dtypes.uint32) * step).reshape(n, *[1] * (-1 - axis))


class Factor:
  """The other operand of products, of (count, columns) float32. It is rounded once for all matrices that are multiplied by it."""
  def __init__(self, x: Tensor) -> None:
    self.x = x
    self._products: dict[Packed, Tensor] = {}

  @functools.cached_property
  def _blocks(self) -> Tensor: return self.x.reshape(self.x.shape[0], self.x.shape[1] // BLOCK, BLOCK)

  @functools.cached_property
  def scale(self) -> Tensor:
    """float32, (count, blocks): an element is (256 high + low) scale."""
    return (self._blocks.abs().max(-1) * (1 / _TOP)).contiguous()

  @functools.cached_property
  def bytes(self) -> tuple[Tensor, Tensor]:
    """The high and the low bytes, int8, (count, blocks, BLOCK). One kernel writes both."""
    inverse = (self.scale < _LEAST).where(0.0, 1 / self.scale).unsqueeze(-1)
    rounded = (self._blocks * inverse + _ROUND).bitcast(dtypes.int32) - _ROUND_BITS
    shift = (Tensor.arange(2, dtype=dtypes.int32) * 8).reshape(2, 1, 1, 1)
    both = (rounded.unsqueeze(0) + shift * 16 >> shift).cast(dtypes.int8).contiguous()  # the high byte is rounded: 128 is half of its unit
    return both[1], both[0]

  def times(self, matrix: Packed) -> Tensor:
    """The product with a matrix whose rows several callers share: it is computed once, into memory."""
    if matrix not in self._products: self._products[matrix] = matrix.product(self).contiguous()
    return self._products[matrix]

  def _parts(self, t: Tensor, parts: int) -> Tensor: return t.reshape(*t.shape[:2], parts, BLOCK // parts)

  def sums(self, parts: int) -> Tensor:
    """The sums of the elements in each part of the blocks, float32, (count, blocks, parts)."""
    return self._parts(self._blocks, parts).sum(-1).contiguous()

  def integers(self, parts: int) -> Tensor:
    """The same of the rounded elements, in units of the scale, int32."""
    high, low = (self._parts(t, parts).cast(dtypes.int32).sum(-1) for t in self.bytes)
    return ((high << 8) + low).contiguous()


class Scales(NamedTuple):
  """Floats of blocks, and integers that they are multiplied with. Rows lie side by side: (groups, blocks, rows)."""
  block: Tensor        # float16
  part: Tensor | None  # uint8 or int8: of parts of blocks

  def floats(self, blocks: int) -> Tensor:
    """float32, (groups, blocks of 32 elements, parts of these, or 1 if they have no scales of their own, rows)."""
    groups, of = self.block.shape[:2]
    if self.part is None: return self.block.float().unsqueeze(2).expand(groups, of, blocks // of, ROWS).reshape(groups, blocks, 1, ROWS)
    return (self.part.reshape(groups, of, -1, ROWS).float() * self.block.float().unsqueeze(2)).reshape(groups, blocks, -1, ROWS)


class Packed:
  """A matrix (rows, columns) of numbers with scales.

  Byte i of a word is element 16 half + 4 k + i of a block of 32. In memory the words of both halves share one, where numbers have 4 bits; the bits above
  lie in words of their own.
  """
  def __init__(self, shape: tuple[int, int], numbers: Numbers) -> None:
    """numbers: of the blocks of the matrix, row by row. REQUIRES: whole groups of rows, and whole blocks in each. The packed form is computed by the run that realises `tensors`."""
    self.shape, self._bits, self._zero = shape, numbers.bits, numbers.zero
    self._groups, self._blocks, self._parts = shape[0] // ROWS, shape[1] // BLOCK, BLOCK // numbers.q.shape[2]
    q = numbers.q.reshape(self._groups, ROWS, self._blocks, 2, 4, 4).permute(0, 2, 3, 4, 5, 1)  # (groups, blocks, half, k, i, rows)
    def words(of: Tensor) -> Tensor: return (of.cast(dtypes.uint32) << _steps(4, 8, -2)).sum(-2)
    self._high: Tensor | None = None
    if self._bits == 8: self._low = words(q).contiguous()
    else:
      self._low = (words(q & 15) << _steps(2, 4, -3)).sum(2).contiguous()
      if self._bits == 5: self._high = (words(q >> 4) << _steps(2, 4, -3) + _steps(4, 1, -2)).sum((2, 3)).contiguous()  # of all words of a block
      if self._bits == 6: self._high = (words(q >> 4) << _steps(4, 2, -2)).sum(3).contiguous()                          # of a half
    def sided(t: Tensor | None) -> Tensor | None: return None if t is None else t.reshape(self._groups, ROWS, -1).transpose(1, 2).contiguous()
    def scales(block: Tensor | None, part: Tensor | None) -> Scales | None:
      side = sided(block)
      return None if side is None else Scales(side, sided(part))
    self._scale, self._least = scales(numbers.scale, numbers.part_scale), scales(numbers.least, numbers.part_least)

  @property
  def tensors(self) -> list[Tensor]:
    """What the daemon keeps of the matrix."""
    return [t for t in (self._low, self._high, *(self._scale or ()), *(self._least or ())) if t is not None]

  def _words(self) -> Tensor:
    """uint32, (groups, blocks, half, k, rows)."""
    if self._bits == 8: return self._low
    low = self._low.unsqueeze(2) >> _steps(2, 4, -3) & 0x0F0F0F0F
    if self._high is None: return low
    if self._bits == 5: return low | (self._high.reshape(self._groups, self._blocks, 1, 1, ROWS) >> _steps(2, 4, -3) + _steps(4, 1, -2) & 0x01010101) << 4
    return low | (self._high.unsqueeze(3) >> _steps(4, 2, -2) & 0x03030303) << 4

  def _numbers(self) -> Tensor:
    """uint8, (groups, rows of a group, blocks, half, k, i)."""
    return (self._words().unsqueeze(-1) >> _steps(4, 8, -1)).cast(dtypes.uint8).permute(0, 4, 1, 2, 3, 5)

  def tensor(self) -> Tensor:
    """The elements, float32, (rows, columns)."""
    assert self._scale is not None
    q = self._numbers().reshape(self._groups, ROWS, self._blocks, self._parts, BLOCK // self._parts).cast(dtypes.int32) - self._zero
    def wide(scales: Scales) -> Tensor: return scales.floats(self._blocks).permute(0, 3, 1, 2).unsqueeze(-1)
    x = q.float() * wide(self._scale)
    if self._least is not None: x = x + wide(self._least)
    return x.reshape(self.shape)

  def product(self, x: Factor) -> Tensor:
    """Each row of x times the rows of the matrix, float32, (count, rows)."""
    assert self._scale is not None
    count = x.scale.shape[0]
    sums_of = (-1, -2) if self._parts == 2 else (-1, -2, -3)  # a half is a part, or both are one
    def wide(t: Tensor) -> Tensor: return t.reshape(count, 1, 1, self._blocks, -1)
    def scales(of: Scales) -> Tensor:
      floats = of.floats(self._blocks)
      if count != 1 and of.part is not None: floats = floats.contiguous()  # they are computed once for all rows of x
      return floats.permute(0, 3, 1, 2)
    def dot(part: Tensor) -> Tensor:
      terms = self._numbers().unsqueeze(0).cast(dtypes.int32) * part.reshape(count, 1, 1, self._blocks, 2, 4, 4).cast(dtypes.int32)
      return terms.sum(sums_of).reshape(count, self._groups, ROWS, self._blocks, self._parts)
    high, low = x.bytes
    sums = (dot(high) << 8) + dot(low)
    if self._zero: sums = sums - wide(x.integers(self._parts)) * self._zero
    y = sums.float() * wide(x.scale) * scales(self._scale)
    if self._least is not None: y = y + scales(self._least) * wide(x.sums(self._parts))
    return y.sum((-1, -2)).reshape(count, self.shape[0])


class Part:
  """Some rows of a matrix that is packed as a whole. All products of its parts with a Factor are one product."""
  def __init__(self, whole: Packed, begin: int, end: int) -> None:
    self._whole, self._begin, self._end = whole, begin, end
    self.shape = (end - begin, whole.shape[1])

  def tensor(self) -> Tensor:
    """The elements, float32, (rows, columns)."""
    return self._whole.tensor()[self._begin:self._end]

  def product(self, x: Factor) -> Tensor:
    """Each row of x times these rows, float32, (count, rows)."""
    return x.times(self._whole)[:, self._begin:self._end]


def _is_packed(s: Stored) -> bool:
  """Whether a tensor is a matrix of numbers with scales whose sizes allow the packed form, on a CPU."""
  block, shape = BLOCKS.get(s.kind), s.shape
  if block is None or block.numbers is None or len(shape) != 2 or 0 in shape: return False
  return shape[0] % ROWS == 0 and shape[1] % max(BLOCK, block.elements) == 0 and str(s.data.device).startswith("CPU")


def _packed(matrices: Sequence[Stored]) -> Packed:
  """The rows of matrices of one type and width, one matrix below the other."""
  block = BLOCKS[matrices[0].kind]
  assert block.numbers is not None
  data = [m.data.reshape(-1, block.nbytes) for m in matrices]
  packed = Packed((sum(m.shape[0] for m in matrices), matrices[0].shape[1]), block.numbers(data[0] if len(data) == 1 else data[0].cat(*data[1:])))
  Tensor.realize(*packed.tensors)
  return packed


def packed_of(stored: dict[str, Stored], device: Any = None, together: Iterable[Sequence[str]] = ()) -> dict[str, Tensor | Packed | Part]:
  """The tensors of a file in the daemon's memory, by name. Those that are matrices of numbers with scales are packed if their sizes allow it and the device is a CPU.

  together: names of matrices that are multiplied by the same Factor. Neighbours there of one type and width are packed as one matrix.
  """
  there = on_daemon(stored, device)
  out: dict[str, Tensor | Packed | Part] = {name: s.tensor() for name, s in there.items() if not _is_packed(s)}
  left = {name: s for name, s in there.items() if name not in out}
  for names in together:
    for _, alike in itertools.groupby((n for n in names if n in left), lambda n: (left[n].kind, left[n].shape[1])):
      group = list(alike)
      if len(group) == 1: continue
      whole, begin = _packed([left[n] for n in group]), 0
      for name in group:
        rows = left.pop(name).shape[0]
        out[name] = Part(whole, begin, begin + rows)
        begin += rows
  return out | {name: _packed([s]) for name, s in left.items()}
