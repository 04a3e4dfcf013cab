# SPDX-License-Identifier: MIT
"""GGUF files, versions 2 and 3: values by name, and tensors, of which quantised ones are made into float32 on the daemon when they are used."""
from __future__ import annotations

import math
import os
import pathlib
import re
from typing import Any, NamedTuple

from .. import _core
from ..archives import beginning_of
from ..deferred import later
from ..disk import constants_of
from ..dtype import dtypes
from ..tensor import Tensor
from .ggml import BLOCKS, PLAIN

FIRST_READ = 1 << 18  # bytes


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


class Stored(NamedTuple):
  """A tensor of a file: its bytes, in blocks if its type of GGML is a quantised one."""
  shape: tuple[int, ...]
  kind: int     # number of the type of GGML
  data: Tensor  # uint8; of a path, not read yet

  def tensor(self) -> Tensor:
    """The elements. Quantised ones are lazy: neither read nor computed before they are used."""
    n = math.prod(self.shape)
    if n == 0: return Tensor.empty(*self.shape, dtype=PLAIN.get(self.kind, dtypes.float32))
    if self.kind in PLAIN: return self.data.bitcast(PLAIN[self.kind]).reshape(self.shape)
    return later(self.shape, dtypes.float32, lambda: ggml_data_to_tensor(self.data, n, self.kind).reshape(self.shape))


def on_daemon(stored: dict[str, Stored], device: Any = None) -> dict[str, Stored]:
  """The same with bytes that are in the daemon's memory, which are read and not assigned. What the daemon does not have yet is sent now (docs/protocol.md,
  "Constants by content")."""
  sent = {name: s for name, s in stored.items() if math.prod(s.shape)}
  data = constants_of([s.data for s in sent.values()], device)
  return stored | {name: s._replace(data=there) for (name, s), there in zip(sent.items(), data)}


def _parse(t: Tensor) -> tuple[dict[str, Any], dict[str, Stored]]:
  """The values and the tensors of one file, of which no more is read than a little more than its header."""
  if t.ndim != 1 or t.dtype is not dtypes.uint8: raise ValueError(f"a file as a tensor has uint8 and one axis; this is {t!r}")
  file, start, step = beginning_of(t), bytearray(), FIRST_READ
  while True:
    start += file.read(step)
    header = _core.gguf_parse(start, t.shape[0])
    if header is not None: break
    step = len(start)  # nothing in front of the header says how long it is
  values, tensors = header
  return values, {name: Stored(shape, kind, t[begin:end]) for name, shape, kind, begin, end in tensors}


def _parts(path: pathlib.Path, values: dict[str, Any]) -> list[pathlib.Path]:
  """The files of a model in several ones, of which the first is given."""
  count = values.get("split.count", 1)
  if not isinstance(count, int) or count <= 1: return []
  if count > 99999: raise ValueError(f"the GGUF file says that it is one of {count}")
  if values.get("split.no", 0) != 0: raise ValueError(f"{path} is not the first of {count} files, from which all are loaded")
  m = re.fullmatch(r"(.*)-00001-of-\d{5}\.gguf", str(path))
  if m is None: raise ValueError(f"{path} is the first of {count} files; its name ends with -00001-of-{count:05d}.gguf")
  return [pathlib.Path(f"{m[1]}-{i:05d}-of-{count:05d}.gguf") for i in range(2, count + 1)]


def stored_in(fn: Tensor | str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Stored]]:
  """The values of a GGUF file by name, and its tensors as they are in the file; see gguf_load."""
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


def gguf_load(fn: Tensor | str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
  """The values of a GGUF file by name, and its tensors by name: of a path, or of a uint8 tensor with the file. Of a path, tensors are read when they are
  used; a model in several files is loaded from the first one. Quantised tensors become float32 on the daemon, in the kernels that use them.

  A file that breaks a rule of the format is a ValueError.
  """
  values, stored = stored_in(fn)
  return values, {name: s.tensor() for name, s in stored.items()}
