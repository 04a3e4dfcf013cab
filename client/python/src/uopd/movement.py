# SPDX-License-Identifier: MIT
"""Tensor's methods that move elements, and indexing."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _core
from .base import Base, arg, handle, sizes, wrap
from .convert import is_numpy
from .dtype import dtypes
from .variable import Variable

if TYPE_CHECKING:
  from .tensor import Tensor

_PAD_MODES = {"constant": 0, "reflect": 1, "replicate": 2, "circular": 3}


def _all(first: Base, rest: tuple[Any, ...]) -> list[_core.Handle]: return [first._h, *(handle(x) for x in rest)]


class Movement(Base):
  __slots__ = ()

  def reshape(self, shape: Any, *args: Any) -> Tensor:
    """Another shape with the same elements. One size may be -1; None keeps a size.

    >>> Tensor.arange(6).reshape(2, -1).shape
    (2, 3)
    """
    new = [self.shape[i] if d is None else d for i, d in enumerate(sizes(shape, args))]
    return wrap(_core.reshape(self._h, new))
  def view(self, shape: Any, *args: Any) -> Tensor: return self.reshape(shape, *args)
  def expand(self, shape: Any, *args: Any) -> Tensor:
    """Repeats axes of size 1. -1 or None keeps a size."""
    return wrap(_core.expand(self._h, [-1 if d is None else d for d in sizes(shape, args)]))
  def permute(self, order: Any, *args: Any) -> Tensor: return wrap(_core.permute(self._h, sizes(order, args)))
  def transpose(self, dim0: int = 1, dim1: int = 0) -> Tensor: return wrap(_core.transpose(self._h, dim0, dim1))
  @property
  def T(self) -> Tensor:
    """The axes 0 and 1 exchanged."""
    return self.transpose()
  def flip(self, axis: Any, *args: Any) -> Tensor: return wrap(_core.flip(self._h, sizes(axis, args)))
  def shrink(self, arg: Any) -> Tensor:
    """For each axis (begin, end), or None for all of it. Both may contain a bound Variable."""
    ranges = [(0, d) if a is None else tuple(a) for a, d in zip(arg, self.shape, strict=True)]
    if not any(isinstance(v, Variable) for r in ranges for v in r):
      return wrap(_core.shrink(self._h, [r[0] for r in ranges], [r[1] for r in ranges]))
    h = self._h
    for i, (a, (begin, end)) in enumerate(zip(arg, ranges)):
      if a is not None: h = _narrow(h, i, begin, end)
    return wrap(h)
  def shrink_to(self, shape: Any, *args: Any) -> Tensor:
    return self.shrink([None if d is None else (0, d) for d in sizes(shape, args)])
  def pad(self, padding: Any, mode: str = "constant", value: float = 0.0) -> Tensor:
    """Elements before and after each axis: ((before, after), ...) for all axes, None for none, or flat from the last
    axis on, as PyTorch has it. Negative numbers cut off."""
    if mode not in _PAD_MODES: raise NotImplementedError(f"no pad mode {mode!r}")
    if all(isinstance(p, int) for p in padding):
      if len(padding) % 2: raise ValueError("flat padding has two numbers for each axis")
      pairs = [(0, 0)] * (self.ndim - len(padding) // 2) + list(zip(padding[-2::-2], padding[::-2], strict=True))
    else:
      pairs = [(0, 0) if p is None else p for p in padding]
      if len(pairs) != self.ndim: raise ValueError(f"padding for {len(pairs)} axes of a tensor with {self.ndim}")
    return wrap(_core.pad(self._h, [p[0] for p in pairs], [p[1] for p in pairs], _PAD_MODES[mode], float(value)))
  def pad_to(self, shape: Any, *args: Any, value: float = 0) -> Tensor:
    return self.pad([(0, 0 if n is None else n - d) for n, d in zip(sizes(shape, args), self.shape, strict=True)], value=value)
  def squeeze(self, dim: int | None = None) -> Tensor:
    """Without an axis of size 1, or without all such axes. An axis of another size stays."""
    if dim is None: return self.reshape([d for d in self.shape if d != 1])
    dim = self._axis(dim)
    return wrap(_core.squeeze(self._h, dim)) if self.ndim and self.shape[dim] == 1 else wrap(self._h)
  def unsqueeze(self, dim: int) -> Tensor: return wrap(_core.unsqueeze(self._h, dim))
  def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    return wrap(_core.flatten(self._h, start_dim, end_dim)) if self.ndim else self.reshape(1)
  def unflatten(self, dim: int, sizes: Any) -> Tensor: return wrap(_core.unflatten(self._h, dim, list(sizes)))
  def split(self, sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    dim = self._axis(dim)
    if isinstance(sizes, int): sizes = [min(sizes, self.shape[dim] - i) for i in range(0, max(1, self.shape[dim]), max(1, sizes))]
    return tuple(wrap(h) for h in _core.split(self._h, dim, list(sizes)))
  def chunk(self, chunks: int, dim: int = 0) -> list[Tensor]: return [wrap(h) for h in _core.chunk(self._h, self._axis(dim), chunks)]
  def cat(self: Any, *args: Any, dim: int = 0) -> Tensor:
    """Tensors one after the other along an axis. Also Tensor.cat(a, b)."""
    return wrap(_core.cat(_all(self, args), dim))
  def stack(self: Any, *args: Any, dim: int = 0) -> Tensor: return wrap(_core.stack(_all(self, args), dim))
  def repeat(self, repeats: Any, *args: Any) -> Tensor: return wrap(_core.tile(self._h, sizes(repeats, args)))
  def repeat_interleave(self, repeats: int, dim: int | None = None) -> Tensor:
    return wrap(_core.repeat_interleave(self._h, repeats, dim))
  def roll(self, shifts: Any, dims: Any = None) -> Tensor:
    return wrap(_core.roll(self._h, sizes(shifts, ()), [] if dims is None else sizes(dims, ())))
  def tril(self, diagonal: int = 0) -> Tensor: return wrap(_core.tril(self._h, diagonal))
  def triu(self, diagonal: int = 0) -> Tensor: return wrap(_core.triu(self._h, diagonal))
  def diag(self) -> Tensor: return wrap(_core.diag(self._h))
  def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    return wrap(_core.diagonal(self._h, offset, dim1, dim2))
  def unfold(self, dim: int, size: int, step: int) -> Tensor: return wrap(_core.unfold(self._h, dim, size, step))
  def meshgrid(self: Any, *args: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    if indexing not in ("ij", "xy"): raise ValueError(f"indexing is 'ij' or 'xy', not {indexing!r}")
    return tuple(wrap(h) for h in _core.meshgrid(_all(self, args), indexing == "xy"))

  def gather(self, dim: int, index: Any) -> Tensor: return wrap(_core.gather(self._h, dim, handle(index)))
  def scatter(self, dim: int, index: Any, src: Any, reduce: str | None = None) -> Tensor:
    if reduce is None: return wrap(_core.scatter(self._h, dim, handle(index), arg(src)))
    if reduce not in ("add", "multiply"): raise ValueError(f"reduce is 'add' or 'multiply', not {reduce!r}")
    index, src = handle(index), arg(src)
    if not isinstance(src, _core.Handle): src = _core.expand(_core.full_like(index, float(src), self._h.dtype), list(index.shape))
    return wrap(_core.scatter_reduce(self._h, dim, index, src, 0 if reduce == "add" else 1, True))
  def scatter_reduce(self, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True) -> Tensor:
    mode = ["sum", "prod", "mean", "amax", "amin"].index(reduce)
    return wrap(_core.scatter_reduce(self._h, dim, handle(index), handle(src), mode, include_self))
  def masked_select(self, mask: Any, size: int | None = None, fill_value: float = 0) -> Tensor:
    """Elements where the mask is true. Without a size the mask is counted first, which waits."""
    mask = handle(mask)
    if size is None: size = int(wrap(_core.expand(mask, list(self.shape))).sum().item())
    return wrap(_core.masked_select(self._h, mask, size, float(fill_value)))
  def nonzero(self, size: int | None = None, fill_value: int = 0) -> Tensor:
    """The positions of elements other than 0. Without a size they are counted first, which waits."""
    if size is None: size = int(self.ne(0).sum().item())
    return wrap(_core.nonzero(self._h, size, fill_value))

  def __getitem__(self, indices: Any) -> Tensor:
    """Integers, slices, None, ..., lists and tensors of integers, as in NumPy; a mask of bools selects as masked_select.

    >>> x = Tensor.arange(12).reshape(3, 4)
    >>> x[1:, ::-2].tolist()
    [[7, 5], [11, 9]]
    >>> x[[2, 0], 1].tolist()
    [9, 1]
    """
    if isinstance(indices, Base) and indices.dtype is dtypes.bool: return self.masked_select(indices)
    items = indices if isinstance(indices, tuple) else (indices,)
    if any(isinstance(i, Variable) or isinstance(i, slice) and (isinstance(i.start, Variable) or isinstance(i.stop, Variable)) for i in items):
      return wrap(_symbolic(self._h, items))
    self._check_integers(items)
    return wrap(_core.index(self._h, tuple(_item(i) for i in items)))
  def __setitem__(self, indices: Any, value: Any) -> None:
    items = indices if isinstance(indices, tuple) else (indices,)
    self._check_integers(items)
    _core.assign_index(self._h, tuple(_item(i) for i in items), arg(value))
  def _check_integers(self, items: tuple[Any, ...]) -> None:
    """IndexError for integers out of range and too many items: `for x in tensor` of other code ends with it."""
    used = sum(i is not None and i is not Ellipsis for i in items)
    if used > self.ndim: raise IndexError(f"{used} indices for a tensor with {self.ndim} axes")
    axis = 0
    for i in items:
      if i is Ellipsis: axis += self.ndim - used
      elif i is not None:
        if isinstance(i, int) and not -self.shape[axis] <= i < self.shape[axis]:
          raise IndexError(f"index {i} is out of range for axis {axis} of size {self.shape[axis]}")
        axis += 1
  def __len__(self) -> int:
    if not self.ndim: raise TypeError("a tensor without axes has no len()")
    return self.shape[0]
  def __iter__(self) -> Any:
    if not self.ndim: raise TypeError("a tensor without axes cannot be iterated")
    return (self[i] for i in range(self.shape[0]))


def _item(i: Any) -> Any:
  if i is None or i is Ellipsis or isinstance(i, int) and not isinstance(i, bool): return i
  if isinstance(i, slice):
    return tuple(None if v is None else v.__index__() for v in (i.start, i.stop, i.step))
  if is_numpy(i) and i.ndim == 0 and i.dtype.kind in "iu": return int(i)
  if isinstance(i, (Base, list, tuple)) or is_numpy(i):
    if isinstance(i, (list, tuple)) and not i: raise IndexError("an empty list is no index")
    return handle(i)
  raise IndexError(f"{type(i).__name__} is no index")


def _narrow(h: _core.Handle, axis: int, begin: Any, end: Any) -> _core.Handle:
  """begin:end along an axis, where both may be bound variables."""
  begin = 0 if begin is None else begin
  end = h.shape[axis] if end is None else end
  b, e = arg(begin), arg(end)
  length = e if b == 0 and not isinstance(b, _core.Handle) else _core.sub(e, b) if isinstance(e, _core.Handle) or isinstance(b, _core.Handle) else e - b
  return _core.narrow(h, axis, b, length)


def _symbolic(h: _core.Handle, items: tuple[Any, ...]) -> _core.Handle:
  axis = 0
  for i in items:
    if isinstance(i, Variable):
      h = _core.squeeze(_core.narrow(h, axis, i.handle(), 1), axis)
      continue
    if isinstance(i, slice) and i.step in (None, 1):
      if i.start is not None or i.stop is not None: h = _narrow(h, axis, i.start, i.stop)
    elif isinstance(i, int):
      h = _core.index(h, (*[(None, None, None)] * axis, i))
      continue
    else: raise IndexError("beside variables only integers and slices of step 1 are indices")
    axis += 1
  return h
