# SPDX-License-Identifier: MIT
"""Blocks of GGML: small integers with a scale for each block or part of it, and how they are made into float32 by operations of tensors.

Every function takes blocks (n, bytes of a block) of uint8 and gives (n, elements of a block). The products are exact in float32, so the values are
those of GGML bit for bit."""
from __future__ import annotations

import functools
from typing import Any, Callable, NamedTuple

from ..dtype import DType, dtypes
from ..tensor import Tensor


class Numbers(NamedTuple):
  """Blocks as numbers of at most 8 bits: an element is (q - zero) * scale * part_scale + least * part_least."""
  q: Tensor     # uint8, (n, parts of a block, elements of a part)
  bits: int     # of a number
  zero: int
  scale: Tensor                     # float16, (n, 1)
  part_scale: Tensor | None = None  # uint8 or int8, (n, parts)
  least: Tensor | None = None       # float16, (n, 1)
  part_least: Tensor | None = None  # uint8, (n, parts)

  def floats(self) -> Tensor:
    """The elements as float32, (n, elements of a block)."""
    x = _signed(self.q, self.zero).float() * _product(self.scale, self.part_scale).unsqueeze(-1)
    return (x if self.least is None else x + _product(self.least, self.part_least).unsqueeze(-1)).flatten(-2)


def _product(block: Tensor, part: Tensor | None) -> Tensor: return block.float() if part is None else part.float() * block.float()


class BlockType(NamedTuple):
  """A type of quantised elements: its name, how many elements a block has and how many bytes, and what makes float32 of blocks."""
  name: str
  elements: int
  nbytes: int
  floats: Callable[[Tensor], Tensor]
  numbers: Callable[[Tensor], Numbers] | None = None  # of types whose elements are numbers with scales


def _of_numbers(name: str, elements: int, nbytes: int, numbers: Callable[[Tensor], Numbers]) -> BlockType:
  return BlockType(name, elements, nbytes, lambda b: numbers(b).floats(), numbers)


def _f16(b: Tensor, at: int) -> Tensor:
  """The 16-bit float at a byte of each block, as (n, 1)."""
  return b[:, at:at + 2].bitcast(dtypes.float16)
def _half(b: Tensor, at: int) -> Tensor: return _f16(b, at).float()


def _bits(b: Tensor, per: int) -> Tensor:
  """Bytes (..., k) as numbers of `per` bits, the lowest first, in a new axis before the last one: (..., 8 / per, k)."""
  shifts = Tensor.arange(0, 8, per, dtype=dtypes.uint8)
  return (b.unsqueeze(-2) >> shifts.reshape(-1, 1)) & (1 << per) - 1


def _nibbles(q: Tensor) -> Tensor:
  """The low halves of bytes, then the high halves, along the last axis: (..., k) to (..., 2 k)."""
  return _bits(q, 4).flatten(-2)


def _signed(q: Tensor, zero: int) -> Tensor: return q.cast(dtypes.int32) - zero if zero else q


def _q4_0(b: Tensor) -> Numbers: return Numbers(_nibbles(b[:, 2:]).unsqueeze(1), 4, 8, _f16(b, 0))
def _q4_1(b: Tensor) -> Numbers: return Numbers(_nibbles(b[:, 4:]).unsqueeze(1), 4, 0, _f16(b, 0), least=_f16(b, 2))
def _fifth(b: Tensor, at: int) -> Tensor:
  """32 numbers of 5 bits, as (n, 1, 32): the fifth bits in 4 bytes, then the halves of 16 bytes."""
  high = _bits(b[:, at:at + 4], 1).transpose(-1, -2).flatten(-2)  # bit i of byte k is that of element 8 k + i
  return (_nibbles(b[:, at + 4:at + 20]) | high << 4).unsqueeze(1)
def _q5_0(b: Tensor) -> Numbers: return Numbers(_fifth(b, 2), 5, 16, _f16(b, 0))
def _q5_1(b: Tensor) -> Numbers: return Numbers(_fifth(b, 4), 5, 0, _f16(b, 0), least=_f16(b, 2))
def _q8_0(b: Tensor) -> Numbers: return Numbers((b[:, 2:] ^ 128).unsqueeze(1), 8, 128, _f16(b, 0))


def _q2_k(b: Tensor) -> Tensor:
  q = _bits(b[:, 16:80].reshape(-1, 2, 32), 2).reshape(-1, 16, 16).float()
  scale, least = (b[:, :16] & 15).float() * _half(b, 80), (b[:, :16] >> 4).float() * _half(b, 82)
  return (q * scale.unsqueeze(-1) - least.unsqueeze(-1)).flatten(-2)


def _q3_k(b: Tensor) -> Tensor:
  low = _bits(b[:, 32:96].reshape(-1, 2, 32), 2)                              # (n, half, 4, 32)
  high = _bits(b[:, :32], 1).reshape(-1, 2, 4, 32)                            # bit 4 half + i
  q = _signed(low | high << 2, 4).reshape(-1, 16, 16).float()
  scale = _nibbles(b[:, 96:104]) | _bits(b[:, 104:108], 2).flatten(-2) << 4   # 16 numbers of 6 bits
  return (q * (_signed(scale, 32).float() * _half(b, 108)).unsqueeze(-1)).flatten(-2)


def _numbers_k(b: Tensor, q: Tensor, bits: int) -> Numbers:
  """Numbers whose 8 scales and 8 minima of 6 bits lie in 12 bytes, behind the floats of the block."""
  first, second, third = b[:, 4:8], b[:, 8:12], b[:, 12:16]
  scale = (first & 63).cat(third & 15 | first >> 6 << 4, dim=-1)
  least = (second & 63).cat(third >> 4 | second >> 6 << 4, dim=-1)
  return Numbers(q, bits, 0, _f16(b, 0), scale, -_f16(b, 2), least)


def _q4_k(b: Tensor) -> Numbers: return _numbers_k(b, _bits(b[:, 16:144].reshape(-1, 4, 32), 4).reshape(-1, 8, 32), 4)
def _q5_k(b: Tensor) -> Numbers:
  return _numbers_k(b, _bits(b[:, 48:176].reshape(-1, 4, 32), 4).reshape(-1, 8, 32) | _bits(b[:, 16:48], 1) << 4, 5)


def _q6_k(b: Tensor) -> Numbers:
  low = _bits(b[:, :128].reshape(-1, 2, 64), 4).reshape(-1, 2, 4, 32)  # the low halves of 64 bytes, then the high ones
  high = _bits(b[:, 128:192].reshape(-1, 2, 32), 2)
  return Numbers((low | high << 4).reshape(-1, 16, 16), 6, 32, _f16(b, 208), b[:, 192:208].bitcast(dtypes.int8))


def _q8_k(b: Tensor) -> Tensor: return b[:, 4:260].bitcast(dtypes.int8).float() * b[:, :4].bitcast(dtypes.float32)


_IQ4 = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]
_FP4 = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12]  # twice the values of an E2M1 float


def _q1_0(b: Tensor) -> Tensor:
  bits = _bits(b[:, 2:], 1).transpose(-1, -2).flatten(-2)
  return (bits.float() * 2 - 1) * _half(b, 0)


# Blocks whose elements are chosen from books of 4 or 8 magnitudes; the signs of 8 elements are bits.
@functools.cache
def _book(name: str) -> Any:
  """The magnitudes, (entries, elements). They are in the package gguf."""
  try: from gguf import quants
  except ImportError: raise ValueError(f"the book of {name} comes with the package gguf: pip install gguf") from None
  kind = getattr(quants, name)
  kind.init_grid()
  return kind.grid.reshape(kind.grid_shape)


def _chosen(q: Tensor, name: str) -> Tensor:
  """The magnitudes of (n, k) numbers of entries, as (n, elements)."""
  return Tensor(_book(name))[q.cast(dtypes.int32)].flatten(-2)
def _signs(bits: Tensor) -> Tensor:
  """-1 where a bit of bytes (n, k) is set, else 1, as (n, 8 k)."""
  return 1 - 2 * _bits(bits, 1).transpose(-1, -2).flatten(-2).float()
def _signs_of_7(words: Tensor) -> Tensor:
  """The signs of four times 8 elements in 28 bits of (n, k) words: the eighth makes their number even. As (n, 32 k)."""
  low = (words.unsqueeze(-1) >> Tensor([0, 7, 14, 21], dtype=dtypes.uint32)) & 127
  odd = low ^ low >> 4
  odd = (odd ^ odd >> 2 ^ odd >> 1 ^ odd >> 3) & 1
  return _signs((low | odd << 7).cast(dtypes.uint8).flatten(-2))
def _each(scale: Tensor, count: int) -> Tensor:
  """Every scale of (n, k) for `count` elements, as (n, count k)."""
  return scale.unsqueeze(-1).expand(*scale.shape, count).flatten(-2)
def _nibble_scales(b: Tensor) -> Tensor:
  """The low and the high half of each byte, next to each other."""
  return _bits(b, 4).transpose(-1, -2).flatten(-2).float()


def _iq2_xxs(b: Tensor) -> Tensor:
  parts = b[:, 2:].reshape(-1, 8, 8)
  words = parts[:, :, 4:].bitcast(dtypes.uint32).flatten(-2)
  scale = ((words >> 28).float() + 0.5) * _half(b, 0) * 0.25
  return _chosen(parts[:, :, :4].flatten(-2), "IQ2_XXS") * _signs_of_7(words) * _each(scale, 32)
def _iq2_xs(b: Tensor) -> Tensor:
  q = b[:, 2:66].bitcast(dtypes.uint16).cast(dtypes.uint32)
  low = q >> 9
  odd = low ^ low >> 4
  odd = (odd ^ odd >> 2 ^ odd >> 1 ^ odd >> 3) & 1
  signs = _signs((low | odd << 7).cast(dtypes.uint8))
  return _chosen(q & 511, "IQ2_XS") * signs * _each((_nibble_scales(b[:, 66:74]) + 0.5) * _half(b, 0) * 0.25, 16)
def _iq2_s(b: Tensor) -> Tensor:
  high = _bits(b[:, 66:74], 2).transpose(-1, -2).flatten(-2).cast(dtypes.int32)
  return (_chosen(b[:, 2:34].cast(dtypes.int32) | high << 8, "IQ2_S") * _signs(b[:, 34:66])
          * _each((_nibble_scales(b[:, 74:82]) + 0.5) * _half(b, 0) * 0.25, 16))
def _iq3_xxs(b: Tensor) -> Tensor:
  words = b[:, 66:98].bitcast(dtypes.uint32)
  scale = ((words >> 28).float() + 0.5) * _half(b, 0) * 0.5
  return _chosen(b[:, 2:66], "IQ3_XXS") * _signs_of_7(words) * _each(scale, 32)
def _iq3_s(b: Tensor) -> Tensor:
  high = _bits(b[:, 66:74], 1).transpose(-1, -2).flatten(-2).cast(dtypes.int32)
  return _chosen(b[:, 2:66].cast(dtypes.int32) | high << 8, "IQ3_S") * _signs(b[:, 74:106]) * _each((_nibble_scales(b[:, 106:110]) * 2 + 1) * _half(b, 0), 32)


def _table(q: Tensor, values: list[int]) -> Tensor: return Tensor(values, dtype=dtypes.float32)[q.cast(dtypes.int32)]


def _mxfp4(b: Tensor) -> Tensor:
  e = b[:, :1].cast(dtypes.uint32)
  half = (e < 2).where((e + 1) * 0x200000, (e - 1) << 23).bitcast(dtypes.float32)  # 2^(e - 128), also below the normal numbers
  return _table(_nibbles(b[:, 1:]), _FP4) * half
def _iq4_nl(b: Tensor) -> Tensor: return _table(_nibbles(b[:, 2:]), _IQ4) * _half(b, 0)
def _iq4_xs(b: Tensor) -> Tensor:
  low = _bits(b[:, 4:8], 4).transpose(-1, -2).flatten(-2)
  high = _bits(b[:, 2:4], 2).transpose(-1, -2).flatten(-2)
  scale = (_signed(low | high << 4, 32).float() * _half(b, 0)).unsqueeze(-1)
  return (_table(_nibbles(b[:, 8:].reshape(-1, 8, 16)), _IQ4) * scale).flatten(-2)


PLAIN: dict[int, DType] = {0: dtypes.float32, 1: dtypes.float16, 24: dtypes.int8, 25: dtypes.int16, 26: dtypes.int32, 27: dtypes.int64, 28: dtypes.float64,
                           30: dtypes.bfloat16}
BLOCKS: dict[int, BlockType] = {
  2: _of_numbers("Q4_0", 32, 18, _q4_0), 3: _of_numbers("Q4_1", 32, 20, _q4_1), 6: _of_numbers("Q5_0", 32, 22, _q5_0), 7: _of_numbers("Q5_1", 32, 24, _q5_1),
  8: _of_numbers("Q8_0", 32, 34, _q8_0), 10: BlockType("Q2_K", 256, 84, _q2_k), 11: BlockType("Q3_K", 256, 110, _q3_k), 12: _of_numbers("Q4_K", 256, 144, _q4_k),
  13: _of_numbers("Q5_K", 256, 176, _q5_k), 14: _of_numbers("Q6_K", 256, 210, _q6_k), 15: BlockType("Q8_K", 256, 292, _q8_k),
  16: BlockType("IQ2_XXS", 256, 66, _iq2_xxs), 17: BlockType("IQ2_XS", 256, 74, _iq2_xs), 18: BlockType("IQ3_XXS", 256, 98, _iq3_xxs),
  21: BlockType("IQ3_S", 256, 110, _iq3_s), 22: BlockType("IQ2_S", 256, 82, _iq2_s), 41: BlockType("Q1_0", 128, 18, _q1_0),
  20: BlockType("IQ4_NL", 32, 18, _iq4_nl), 23: BlockType("IQ4_XS", 256, 136, _iq4_xs), 39: BlockType("MXFP4", 32, 17, _mxfp4),
}
