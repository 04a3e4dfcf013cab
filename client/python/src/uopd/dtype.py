# SPDX-License-Identifier: MIT
"""Element types: `dtypes.float32` and so on, with tinygrad's names."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import _core


@dataclass(frozen=True)
class DType:
  """One element type. `core` is its number in the client library, `numpy_name` is None if NumPy has no such type."""
  name: str
  itemsize: int
  core: int
  numpy_name: str | None

  def __repr__(self) -> str: return f"dtypes.{self.name}"
  def __reduce__(self) -> tuple[Any, ...]: return (getattr, (dtypes, self.name))


def _make(name: str, core: str, itemsize: int, numpy_name: str | None) -> DType:
  return DType(name, itemsize, _core.DTYPES[core], numpy_name)


class dtypes:
  """The element types, and questions about them."""
  bool = _make("bool", "bool", 1, "bool")
  int8 = char = _make("int8", "i8", 1, "int8")
  uint8 = uchar = _make("uint8", "u8", 1, "uint8")
  int16 = short = _make("int16", "i16", 2, "int16")
  uint16 = ushort = _make("uint16", "u16", 2, "uint16")
  int32 = int = _make("int32", "i32", 4, "int32")
  uint32 = uint = _make("uint32", "u32", 4, "uint32")
  int64 = long = _make("int64", "i64", 8, "int64")
  uint64 = ulong = _make("uint64", "u64", 8, "uint64")
  fp8e4m3 = _make("fp8e4m3", "f8e4m3", 1, None)
  fp8e5m2 = _make("fp8e5m2", "f8e5m2", 1, None)
  float16 = half = _make("float16", "f16", 2, "float16")
  bfloat16 = _make("bfloat16", "bf16", 2, None)
  float32 = float = _make("float32", "f32", 4, "float32")
  float64 = double = _make("float64", "f64", 8, "float64")
  default_float = float32
  default_int = int32

  fp8s = (fp8e4m3, fp8e5m2)
  floats = (fp8e4m3, fp8e5m2, float16, bfloat16, float32, float64)
  uints = (uint8, uint16, uint32, uint64)
  sints = (int8, int16, int32, int64)
  ints = uints + sints
  all = floats + ints + (bool,)

  @staticmethod
  def is_float(x: DType) -> "bool": return x in dtypes.floats
  @staticmethod
  def is_int(x: DType) -> "bool": return x in dtypes.ints
  @staticmethod
  def is_unsigned(x: DType) -> "bool": return x in dtypes.uints
  @staticmethod
  def is_bool(x: DType) -> "bool": return x is dtypes.bool


DTypeLike = str | DType
BY_CORE = {d.core: d for d in dtypes.all}
_BY_NAME = {k: v for k, v in vars(dtypes).items() if isinstance(v, DType)}


def to_dtype(x: DTypeLike) -> DType:
  """The type of a name or of a type.

  >>> to_dtype("half")
  dtypes.float16
  """
  if isinstance(x, DType): return x
  try:
    return _BY_NAME[str(x).lower()]
  except KeyError:
    raise ValueError(f"no dtype {x!r}") from None


def from_numpy_name(name: str) -> DType:
  found = _BY_NAME.get(name)
  if found is None or found.numpy_name != name: raise TypeError(f"no dtype for NumPy's {name}")
  return found
