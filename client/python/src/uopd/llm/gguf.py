# SPDX-License-Identifier: MIT
"""GGUF files, versions 2 and 3: values by name, and tensors, of which quantised ones are made into float32 on the daemon when they are used."""
from __future__ import annotations

import math
import os
import pathlib
import re
import struct
from typing import Any

from ..deferred import later
from ..dtype import dtypes
from ..archives import beginning_of
from ..tensor import Tensor
from .ggml import BLOCKS, PLAIN

MOST_HEADER = 100_000_000  # bytes before the data
MOST_DEPTH = 8             # of arrays of arrays
_STRING, _ARRAY, _BOOL = 8, 9, 7
_CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}


def _known() -> str: return ", ".join([f"{d.name} ({n})" for n, d in PLAIN.items()] + [f"{b.name} ({n})" for n, b in BLOCKS.items()])


def _bytes_of(n: int, kind: int) -> int:
  """The bytes of n elements of a type of GGML, in whole blocks."""
  if kind in PLAIN: return n * PLAIN[kind].itemsize
  if kind not in BLOCKS: raise ValueError(f"GGML type {kind} is not known here: {_known()}")
  return -(-n // BLOCKS[kind].elements) * BLOCKS[kind].nbytes


def ggml_data_to_tensor(t: Tensor, n: int, ggml_type: int) -> Tensor:
  """n elements of a type of GGML, which is given by its number, in the bytes of t: of the dtype of plain types, float32 of quantised ones.

  Plain: float32, float16, bfloat16, float64, int8 to int64. Quantised: Q1_0, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, Q8_K, IQ4_NL, IQ4_XS, MXFP4, and with the
  package gguf, which has their books, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S. ValueError for others.
  """
  size = _bytes_of(n, ggml_type)
  if t.ndim != 1 or t.shape[0] < size: raise ValueError(f"{n} elements of GGML type {ggml_type} take {size} bytes; given was {t!r}")
  if ggml_type in PLAIN: return t[:size].bitcast(PLAIN[ggml_type])
  if n == 0: return Tensor.empty(0, dtype=dtypes.float32)
  block = BLOCKS[ggml_type]
  return block.floats(t[:size].reshape(-1, block.nbytes)).flatten()[:n]


class _Header:
  """What comes before the data. Each read is checked against what is left."""
  def __init__(self, t: Tensor) -> None:
    self._file, self.size = beginning_of(t), t.shape[0]
  def at(self) -> int: return self._file.tell()
  def left(self) -> int: return min(self.size, MOST_HEADER) - self.at()
  def take(self, n: int) -> bytes:
    if n > self.left():
      raise ValueError(f"the GGUF file ends within its header, at byte {self.size}" if self.size <= MOST_HEADER
                       else f"the header of the GGUF file has more than {MOST_HEADER} bytes")
    return self._file.read(n)
  def number(self, code: str) -> Any: return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]
  def text(self) -> str: return str(self.take(self.number("Q")), "utf-8", "surrogateescape")
  def value(self, kind: int, depth: int = 0) -> Any:
    if kind == _STRING: return self.text()
    if kind == _ARRAY: return self._array(depth + 1)
    if kind not in _CODES: raise ValueError(f"the GGUF file has a value of the unknown type {kind}")
    v = self.number(_CODES[kind])
    return bool(v) if kind == _BOOL else v
  def _array(self, depth: int) -> list[Any]:
    if depth > MOST_DEPTH: raise ValueError(f"the GGUF file has arrays in {depth} arrays")
    kind, n = self.number("I"), self.number("Q")
    least = struct.calcsize("<" + _CODES[kind]) if kind in _CODES else 8  # bytes of an element
    if n * least > self.left(): raise ValueError(f"the GGUF file has an array of {n} elements and ends before them")
    if kind not in _CODES: return [self.value(kind, depth) for _ in range(n)]
    values = list(struct.unpack(f"<{n}{_CODES[kind]}", self.take(n * least)))
    return [bool(v) for v in values] if kind == _BOOL else values


def _parse(t: Tensor) -> tuple[dict[str, Any], dict[str, Tensor]]:
  """The values and the tensors of one file."""
  if t.ndim != 1 or t.dtype is not dtypes.uint8: raise ValueError(f"a file as a tensor has uint8 and one axis; this is {t!r}")
  header = _Header(t)
  magic, version = header.take(4), header.number("I")
  if magic != b"GGUF": raise ValueError(f"a GGUF file begins with GGUF, not with {magic!r}")
  if version not in (2, 3):
    raise ValueError(f"the GGUF file has version {version}; 2 and 3 are known" + (": its numbers are big-endian" if version >> 24 in (2, 3) else ""))
  n_tensors, n_values = header.number("Q"), header.number("Q")
  values: dict[str, Any] = {}
  if n_values * 13 > header.left() or n_tensors * 24 > header.left(): raise ValueError(f"the GGUF file says it has {n_values} values and {n_tensors} tensors, and ends before them")
  for _ in range(n_values):
    name = header.text()
    if name in values: raise ValueError(f"the GGUF file has `{name}` twice")
    values[name] = header.value(header.number("I"))
  infos: dict[str, tuple[tuple[int, ...], int, int]] = {}
  for _ in range(n_tensors):
    name, rank = header.text(), header.number("I")
    if name in infos: raise ValueError(f"the GGUF file has the tensor `{name}` twice")
    if rank > 8: raise ValueError(f"tensor `{name}` has {rank} axes")
    dims = tuple(header.number("Q") for _ in range(rank))
    if max(dims, default=0) >= 1 << 48 or math.prod(dims) >= 1 << 48: raise ValueError(f"tensor `{name}` has the sizes {dims}")
    infos[name] = dims[::-1], header.number("I"), header.number("Q")
  alignment = values.get("general.alignment", 32)
  if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20 or alignment & alignment - 1: raise ValueError(f"general.alignment is {alignment!r}")
  start = -(-header.at() // alignment) * alignment
  return values, {name: _tensor(t, name, shape, kind, start + offset, offset % alignment) for name, (shape, kind, offset) in infos.items()}


def _tensor(t: Tensor, name: str, shape: tuple[int, ...], kind: int, begin: int, off: int) -> Tensor:
  """One tensor. Quantised ones are lazy: neither read nor computed before they are used."""
  n = math.prod(shape)
  try: nbytes = _bytes_of(n, kind)
  except ValueError as e: raise ValueError(f"tensor `{name}`: {e}") from None
  if off: raise ValueError(f"tensor `{name}` begins {off} bytes beyond the alignment")
  if kind in BLOCKS and (not shape or shape[-1] % BLOCKS[kind].elements): raise ValueError(f"the rows of tensor `{name}`, {shape}, are no whole blocks of {BLOCKS[kind].name}")
  if begin + nbytes > t.shape[0]: raise ValueError(f"tensor `{name}` goes to byte {begin + nbytes} of a file of {t.shape[0]}")
  if n == 0: return Tensor.empty(*shape, dtype=PLAIN.get(kind, dtypes.float32))
  part = t[begin:begin + nbytes]
  if kind in PLAIN: return part.bitcast(PLAIN[kind]).reshape(shape)
  return later(shape, dtypes.float32, lambda: ggml_data_to_tensor(part, n, kind).reshape(shape))


def _parts(path: pathlib.Path, values: dict[str, Any]) -> list[pathlib.Path]:
  """The files of a model in several ones, of which the first is given."""
  count = values.get("split.count", 1)
  if not isinstance(count, int) or count <= 1: return []
  if count > 99999: raise ValueError(f"the GGUF file says that it is one of {count}")
  if values.get("split.no", 0) != 0: raise ValueError(f"{path} is not the first of {count} files, from which all are loaded")
  m = re.fullmatch(r"(.*)-00001-of-\d{5}\.gguf", str(path))
  if m is None: raise ValueError(f"{path} is the first of {count} files; its name ends with -00001-of-{count:05d}.gguf")
  return [pathlib.Path(f"{m[1]}-{i:05d}-of-{count:05d}.gguf") for i in range(2, count + 1)]


def gguf_load(fn: Tensor | str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
  """The values of a GGUF file by name, and its tensors by name: of a path, or of a uint8 tensor with the file. Of a path, tensors are read when they are
  used; a model in several files is loaded from the first one. Quantised tensors become float32 on the daemon, in the kernels that use them.

  A file that breaks a rule of the format is a ValueError.
  """
  values, tensors = _parse(fn if isinstance(fn, Tensor) else Tensor(pathlib.Path(fn)))
  if isinstance(fn, Tensor):
    if isinstance(values.get("split.count"), int) and values["split.count"] > 1: raise ValueError("a model in several files is loaded from the path of the first one")
    return values, tensors
  for part in _parts(pathlib.Path(fn), values):
    more = _parse(Tensor(part))[1]
    both = more.keys() & tensors.keys()
    if both: raise ValueError(f"{part} has the tensor `{min(both)}` once more")
    tensors |= more
  return values, tensors
