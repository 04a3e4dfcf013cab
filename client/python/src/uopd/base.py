# SPDX-License-Identifier: MIT
"""What the parts of Tensor share: the handle of the client library, wrapping, and arguments."""
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from . import _core
from .convert import handle_of, is_numpy
from .dtype import BY_CORE, DType
from .errors import WrongArgument
from .variable import is_size

if TYPE_CHECKING:
  from .tensor import Tensor

_new = object.__new__
_tensor_class: Any = None


def set_tensor_class(cls: type) -> None:
  global _tensor_class
  _tensor_class = cls


def tensor_class() -> Any:
  """Tensor, for modules that tensor.py is made of."""
  return _tensor_class


def wrap(handle: _core.Handle) -> Tensor:
  """The tensor of a handle."""
  t = _new(_tensor_class)
  t._h = handle
  return t


def wrap2(pair: tuple[_core.Handle, _core.Handle]) -> tuple[Tensor, Tensor]: return wrap(pair[0]), wrap(pair[1])


def arg(x: Any) -> Any:
  """An operand for the client library: a handle or a number."""
  if isinstance(x, Base): return x._h
  if isinstance(x, (int, float)): return x
  if is_numpy(x) and x.ndim == 0: return x.item()
  if hasattr(x, "handle"): return x.handle()  # a Size
  if isinstance(x, (list, tuple)) or is_numpy(x) or hasattr(x, "__dlpack__"): return handle_of(x, None)
  raise TypeError(f"{type(x).__name__} is no operand of a tensor")


def handle(x: Any) -> _core.Handle:
  """The same, for operands that must be tensors."""
  x = arg(x)
  return x if isinstance(x, _core.Handle) else handle_of(x, None)


def maybe(x: Any) -> _core.Handle | None: return None if x is None else handle(x)


def sizes(first: Any, rest: tuple[Any, ...]) -> list[Any]:
  """Sizes that are given as one sequence or as separate arguments."""
  if not isinstance(first, (list, tuple)): return [first, *rest]
  if rest: raise WrongArgument(f"numbers after {first}: they come as one sequence or as separate arguments")
  return list(first)


def all_of(first: Base, rest: tuple[Any, ...]) -> list[_core.Handle]:
  """The handles of a method's self and further tensors, which may also come as one list."""
  if isinstance(first, (list, tuple)):
    if rest or not first: raise WrongArgument("tensors come as one list or as separate arguments")
    first, rest = first[0], tuple(first[1:])
  return [handle(first), *(handle(x) for x in rest)]


def reshaped(h: _core.Handle, shape: Any) -> _core.Handle:
  """A handle with another shape, whose sizes may be made of variables."""
  return _core.reshape_to(h, [arg(d) for d in shape]) if any(map(is_size, shape)) else _core.reshape(h, list(shape))


def expanded(h: _core.Handle, shape: Any) -> _core.Handle:
  """The same for expand."""
  return _core.expand_to(h, [arg(d) for d in shape]) if any(map(is_size, shape)) else _core.expand(h, list(shape))


class Base:
  """The handle, and the properties that need nothing else."""
  __slots__ = ("_h", "_gradient", "__weakref__")
  _h: _core.Handle
  _gradient: weakref.ref[Tensor]

  @property
  def shape(self) -> tuple[Any, ...]:
    """The sizes of the axes: numbers, and sizes made of variables."""
    return self._h.shape
  @property
  def ndim(self) -> int:
    """The number of axes."""
    return len(self._h.max_shape)
  @property
  def dtype(self) -> DType:
    """The element type."""
    return BY_CORE[self._h.dtype]

  def _axes(self, axis: Any) -> list[int]:
    """Axes of a reduction. None: all of them, which the client library writes as none; a tensor of rank 0 has none."""
    if axis is None: return []
    axes = list(axis) if isinstance(axis, (list, tuple)) else [axis]
    return [self._axis(a) for a in axes]
  def _in_range(self, axes: list[int]) -> list[int]:
    """The same axes, as they are: the client library counts those below 0 from the end."""
    rank = max(self.ndim, 1)
    for axis in axes:
      if not -rank <= axis < rank: raise IndexError(f"axis {axis} is out of range for {self.ndim} axes")
    return axes
  def _axis(self, axis: int, more: int = 0) -> int:
    """An axis, counted from the front if there is one. `more`: axes that the result has beyond those of self. Without axes 0 and -1 are allowed:
    the client library says what they mean."""
    rank = self.ndim + more
    if not -max(rank, 1) <= axis < max(rank, 1): raise IndexError(f"axis {axis} is out of range for {rank} axes")
    return axis + rank if axis < 0 else axis
