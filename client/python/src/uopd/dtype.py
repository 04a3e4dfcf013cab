# SPDX-License-Identifier: MIT
"""Element types: `dtypes.float32` and so on, with tinygrad's names."""
from __future__ import annotations

import builtins
from typing import Any

from . import _core

# Bits of the exponent and of the mantissa.
_FLOATS = {"fp8e4m3": (4, 3), "fp8e5m2": (5, 2), "float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52)}


class DType:
  """One element type. `core` is its number in the client library, `numpy_name` is None if NumPy has no such type.

  >>> from uopd import dtypes
  >>> dtypes.int8.min, dtypes.int8.max, dtypes.int8.itemsize
  (-128, 127, 1)
  """
  __slots__ = ("name", "itemsize", "core", "numpy_name")
  name: str
  itemsize: int
  core: int
  numpy_name: str | None

  def __init__(self, name: str, itemsize: int, core: int, numpy_name: str | None) -> None:
    for key, value in zip(self.__slots__, (name, itemsize, core, numpy_name)): object.__setattr__(self, key, value)
  def __setattr__(self, name: str, value: Any) -> None: raise AttributeError(f"{self!r} does not change")

  @property
  def bitsize(self) -> int:
    """The number of bits of an element that count."""
    return 1 if self.name == "bool" else 8 * self.itemsize
  @property
  def min(self) -> Any:
    """The smallest value."""
    if self.name in _FLOATS: return -float("inf")
    return False if self.name == "bool" else 0 if self.name.startswith("u") else -2**(self.bitsize - 1)
  @property
  def max(self) -> Any:
    """The largest value."""
    if self.name in _FLOATS: return float("inf")
    return True if self.name == "bool" else 2**self.bitsize - 1 + self.min
  def const(self, val: Any) -> Any:
    """A number as a Python number of the kind of this type."""
    return float(val) if self.name in _FLOATS else bool(val) if self.name == "bool" else int(val)

  def __repr__(self) -> str: return f"dtypes.{self.name}"
  def __reduce__(self) -> tuple[Any, ...]: return (getattr, (dtypes, self.name))


def _make(name: str, core: str, itemsize: int, numpy_name: str | None) -> DType:
  return DType(name, itemsize, _core.DTYPES[core], numpy_name)


class dtypes:
  """The element types, and questions about them. `dtypes.default_float` and `dtypes.default_int` can be set."""
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

  fp8s = fp8_ocp = (fp8e4m3, fp8e5m2)
  floats = (fp8e4m3, fp8e5m2, float16, bfloat16, float32, float64)
  int8s, int16s, int32s, int64s = (uint8, int8), (uint16, int16), (uint32, int32), (uint64, int64)
  uints = (uint8, uint16, uint32, uint64)
  sints = (int8, int16, int32, int64)
  ints = uints + sints
  all = floats + ints + (bool,)

  @staticmethod
  def is_float(x: DType) -> builtins.bool:
    """True for floats of any width."""
    return x in dtypes.floats
  @staticmethod
  def is_int(x: DType) -> builtins.bool:
    """True for integers, but not for bool."""
    return x in dtypes.ints
  @staticmethod
  def is_unsigned(x: DType) -> builtins.bool:
    """True for integers without sign."""
    return x in dtypes.uints
  @staticmethod
  def is_bool(x: DType) -> builtins.bool:
    """True for bool."""
    return x is dtypes.bool
  @staticmethod
  def finfo(dtype: DType) -> tuple[builtins.int, builtins.int]:
    """The bits of the exponent and of the mantissa.

    >>> dtypes.finfo(dtypes.half)
    (5, 10)
    """
    if dtype.name not in _FLOATS: raise ValueError(f"{dtype!r} is no float")
    return _FLOATS[dtype.name]
  @staticmethod
  def from_py(x: Any) -> DType:
    """The type that a number, or nested lists of numbers, get. Integers among floats become floats.

    >>> dtypes.from_py([1, [2.5]])
    dtypes.float32
    """
    whole = bools = True  # no number is anything else than an integer or a bool; all are bools
    stack, found = [x], False
    while stack and whole:
      v = stack.pop()
      if isinstance(v, (list, tuple)): stack.extend(v)
      else: found, bools, whole = True, bools and isinstance(v, bool), isinstance(v, int)
    if not found or not whole: return dtypes.default_float
    return dtypes.bool if bools else dtypes.default_int


def same_kind(x: DType, to: DType) -> bool:
  """Whether x may be converted when it is assigned in place, as NumPy's "same_kind": to any float, from integers to integers, but
  not from signed ones to unsigned ones."""
  def order(d: DType) -> int: return 3 if dtypes.is_float(d) else 2 if d in dtypes.sints else 1 if d in dtypes.uints else 0
  return order(x) <= order(to)


DTypeLike = str | DType
BY_CORE = {d.core: d for d in dtypes.all}
_BY_NAME = {k: v for k, v in vars(dtypes).items() if isinstance(v, DType) and not k.startswith("default_")}


class NoDtype(ValueError, AttributeError):
  """There is no dtype of a name: what is given is wrong, and `dtypes` has no such attribute."""


def to_dtype(x: DTypeLike) -> DType:
  """The type of a name or of a type.

  >>> to_dtype("half")
  dtypes.float16
  """
  if isinstance(x, DType): return x
  try:
    return _BY_NAME[str(x).lower()]
  except KeyError:
    raise NoDtype(f"no dtype {x!r}") from None


def from_numpy_name(name: str) -> DType:
  """The type that NumPy calls so."""
  found = _BY_NAME.get(name)
  if found is None or found.numpy_name != name: raise TypeError(f"no dtype for NumPy's {name}")
  return found
