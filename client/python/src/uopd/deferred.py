# SPDX-License-Identifier: MIT
"""Tensors whose contents are somewhere else until they are used: in files, or to be computed from what is in files."""
from __future__ import annotations

from typing import Any, Callable, NamedTuple

from . import _core
from .base import Base
from .dtype import DType
from .tensor import Tensor

# The place of the handle in every tensor. While the handle is not there yet, what knows how to make it is in its place.
_place = vars(Base)["_h"]


def held(t: Tensor) -> Any:
  """What a tensor of this module holds in place of its handle."""
  return _place.__get__(t)


def hold(t: Tensor, what: Any, cls: type) -> None:
  """Makes a tensor one of this class, which holds `what` in place of its handle."""
  _place.__set__(t, what)
  t.__class__ = cls


class Outside(Tensor):
  """A tensor without a handle. What it holds has `shape` and `dtype`. Subclasses say how the handle is made."""
  __slots__ = ()

  @property
  def _h(self) -> _core.Handle: raise NotImplementedError
  @_h.setter
  def _h(self, handle: _core.Handle) -> None: hold(self, handle, Tensor)

  @property
  def shape(self) -> tuple[int, ...]:
    """The sizes of the axes."""
    shape: tuple[int, ...] = held(self).shape
    return shape
  @property
  def ndim(self) -> int:
    """The number of axes."""
    return len(self.shape)
  @property
  def dtype(self) -> DType:
    """The element type."""
    dtype: DType = held(self).dtype
    return dtype


class Later(NamedTuple):
  """A tensor that is made when it is first used."""
  shape: tuple[int, ...]
  dtype: DType
  make: Callable[[], Tensor]


class LaterTensor(Outside):
  """A tensor that is made at its first use, and is an ordinary one from then on."""
  __slots__ = ()

  @property
  def _h(self) -> _core.Handle:
    what = held(self)
    if isinstance(what, _core.Handle): return what  # another thread was faster
    made = what.make()
    if (made.shape, made.dtype) != (what.shape, what.dtype): raise RuntimeError(f"{made!r} was to be {what.dtype.name} {what.shape}")
    handle = made._h
    hold(self, handle, Tensor)
    return handle
  @_h.setter
  def _h(self, handle: _core.Handle) -> None: hold(self, handle, Tensor)


def later(shape: tuple[int, ...], dtype: DType, make: Callable[[], Tensor]) -> Tensor:
  """A tensor of this shape and dtype, for which make() is called when it is first used."""
  t = object.__new__(LaterTensor)
  _place.__set__(t, Later(shape, dtype, make))
  return t
