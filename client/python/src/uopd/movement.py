# SPDX-License-Identifier: MIT
"""Tensor's methods that move elements."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _core
from .base import Base, all_of, arg, expanded, reshaped, sizes, wrap
from .dtype import dtypes
from .errors import WrongArgument
from .variable import Size

if TYPE_CHECKING:
  from .tensor import Tensor

_PAD_MODES = {"constant": 0, "reflect": 1, "replicate": 2, "circular": 3}


def _symbolic(values: Any) -> bool: return any(isinstance(v, Size) for v in values)


def narrowed(h: _core.Handle, axis: int, begin: Any, end: Any) -> _core.Handle:
  """begin:end along an axis, where both may be made of bound variables."""
  return _core.narrow(h, axis, arg(begin), arg(end - begin))


def _axis_of_all(first: Any, dim: int, more: int) -> int:
  """An axis of the first of several tensors, which may come as a list."""
  while isinstance(first, (list, tuple)) and first: first = first[0]
  if isinstance(first, Base) and not first.ndim + more: raise IndexError("tensors without axes are not joined: stack them")
  return first._axis(dim, more) if isinstance(first, Base) else dim


class Movement(Base):
  __slots__ = ()

  def reshape(self, shape: Any, *args: Any) -> Tensor:
    """Another shape with the same elements. One size may be -1; None keeps a size.

    >>> Tensor.arange(6).reshape(2, -1).shape
    (2, 3)
    """
    new = [self.shape[i] if d is None else d for i, d in enumerate(sizes(shape, args))]
    return wrap(reshaped(self._h, new))
  def view(self, shape: Any, *args: Any) -> Tensor:
    """The same as reshape."""
    return self.reshape(shape, *args)
  def expand(self, shape: Any, *args: Any) -> Tensor:
    """Repeats axes of size 1. -1 or None keeps a size."""
    new = [-1 if d is None else d for d in sizes(shape, args)]
    return wrap(expanded(self._h, new))
  def permute(self, order: Any, *args: Any) -> Tensor:
    """The axes in another order.

    >>> Tensor.zeros(2, 3, 4).permute(2, 0, 1).shape
    (4, 2, 3)
    """
    return wrap(_core.permute(self._h, self._in_range(sizes(order, args))))
  def transpose(self, dim0: int = 1, dim1: int = 0) -> Tensor:
    """Two axes exchanged."""
    return wrap(_core.transpose(self._h, *self._in_range([dim0, dim1])))
  @property
  def T(self) -> Tensor:
    """The axes 0 and 1 exchanged."""
    return self.transpose()
  def moveaxis(self, source: Any, destination: Any) -> Tensor:
    """Axes moved to other places; the others keep their order."""
    return wrap(_core.moveaxis(self._h, sizes(source, ()), sizes(destination, ())))
  def rearrange(self, formula: str, **sizes: int) -> Tensor:
    """Divides, exchanges and joins axes by a formula, as einops does. Sizes that do not follow from the shape are given by name.

    >>> Tensor.zeros(2, 12, 3).rearrange("b (h w) c -> b c h w", h=4).shape
    (2, 3, 4, 3)
    """
    return wrap(_core.rearrange(self._h, formula.replace("…", "..."), list(sizes.items())))
  def flip(self, axis: Any, *args: Any) -> Tensor:
    """The elements along these axes in reverse order."""
    return wrap(_core.flip(self._h, self._in_range(sizes(axis, args))))
  def shrink(self, arg: Any) -> Tensor:
    """For each axis (begin, end), or None for all of it. Both may be made of bound variables."""
    ranges = [(0, d) if a is None else tuple(a) for a, d in zip(arg, self.shape, strict=True)]
    if not _symbolic(v for r in ranges for v in r) and not self._h.is_symbolic: return wrap(_core.shrink(self._h, [r[0] for r in ranges], [r[1] for r in ranges]))
    h = self._h
    for i, (a, (begin, end)) in enumerate(zip(arg, ranges)):
      if a is not None: h = narrowed(h, i, begin, end)
    return wrap(h)
  def shrink_to(self, shape: Any, *args: Any) -> Tensor:
    """The first elements of each axis, as many as the shape says; None: all."""
    return self.shrink([None if d is None else (0, d) for d in sizes(shape, args)])
  def pad(self, padding: Any, mode: str = "constant", value: float = 0.0) -> Tensor:
    """Elements before and after each axis: ((before, after), ...) for all axes, None for none, or flat from the last
    axis on, as PyTorch has it. Negative numbers cut off. Modes: constant, reflect, replicate, circular. A value that is no integer
    makes floats of integers.

    >>> Tensor([1, 2, 3]).pad((1, 2)).tolist()
    [0, 1, 2, 3, 0, 0]
    """
    if mode not in _PAD_MODES: raise NotImplementedError(f"no pad mode {mode!r}")
    if all(isinstance(p, (int, Size)) for p in padding):
      if len(padding) % 2: raise WrongArgument("flat padding has two numbers for each axis")
      pairs = [(0, 0)] * (self.ndim - len(padding) // 2) + list(zip(padding[-2::-2], padding[::-2], strict=True))
    else: pairs = [(0, 0) if p is None else p for p in padding]
    if len(pairs) != self.ndim: raise WrongArgument(f"padding for {len(pairs)} axes of a tensor with {self.ndim}")
    h = self._h
    if not float(value).is_integer() and not dtypes.is_float(self.dtype): h = _core.cast(h, dtypes.default_float.core)
    if _symbolic(v for p in pairs for v in p) or self._h.is_symbolic and mode == "constant":
      if mode != "constant": raise NotImplementedError(f"pad mode {mode!r} with sizes that are made of variables")
      return wrap(_core.pad_to(h, [arg(p[0]) for p in pairs], [arg(p[1]) for p in pairs], float(value)))
    return wrap(_core.pad(h, [p[0] for p in pairs], [p[1] for p in pairs], _PAD_MODES[mode], float(value)))
  def pad_to(self, shape: Any, *args: Any, value: float = 0) -> Tensor:
    """Elements after each axis, so that the result has this shape; None keeps a size."""
    return self.pad([(0, 0 if n is None else n - d) for n, d in zip(sizes(shape, args), self.shape, strict=True)], value=value)
  def squeeze(self, dim: int | None = None) -> Tensor:
    """Without an axis of size 1, or without all such axes. An axis of another size stays."""
    if dim is None: return self.reshape([d for d in self.shape if d != 1])
    dim = self._axis(dim)
    return wrap(_core.squeeze(self._h, dim)) if self.ndim and self.shape[dim] == 1 else wrap(_core.snapshot(self._h))
  def unsqueeze(self, dim: int) -> Tensor:
    """With a new axis of size 1."""
    return wrap(_core.unsqueeze(self._h, self._axis(dim, 1)))
  def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The axes from one to another, both included, as one axis."""
    return wrap(_core.flatten(self._h, self._axis(start_dim), self._axis(end_dim))) if self.ndim else self.reshape(1)
  def unflatten(self, dim: int, sizes: Any) -> Tensor:
    """One axis as several ones. One size may be -1."""
    dim, parts = self._axis(dim), list(sizes)
    if _symbolic(parts) or isinstance(self.shape[dim], Size): return self.reshape([*self.shape[:dim], *parts, *self.shape[dim + 1:]])
    return wrap(_core.unflatten(self._h, dim, parts))
  def split(self, sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces along an axis: of one size, of which the last may be shorter, or of the sizes of a list."""
    dim = self._axis(dim)
    if self.ndim and isinstance(self.shape[dim], Size): raise AssertionError(f"axis {dim} of shape {self.shape} cannot be split: its size is made of variables")
    if not isinstance(sizes, int) and _symbolic(sizes):
      if sum(sizes) != self.shape[dim]: raise WrongArgument(f"pieces of the sizes {sizes} of an axis of size {self.shape[dim]}")
      ends = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
      return tuple(wrap(narrowed(self._h, dim, begin, end)) for begin, end in zip(ends, ends[1:]))
    if isinstance(sizes, int): sizes = [min(sizes, self.shape[dim] - i) for i in range(0, max(1, self.shape[dim]), max(1, sizes))]
    return tuple(wrap(h) for h in _core.split(self._h, dim, list(sizes)))
  def chunk(self, chunks: int, dim: int = 0) -> list[Tensor]:
    """At most so many pieces of equal size along an axis; the last one may be shorter."""
    if self.ndim and isinstance(self.shape[self._axis(dim)], Size):
      raise AssertionError(f"axis {dim} of shape {self.shape} cannot be split: its size is made of variables")
    return [wrap(h) for h in _core.chunk(self._h, self._axis(dim), chunks)]
  def cat(self: Any, *args: Any, dim: int = 0) -> Tensor:
    """Tensors one after the other along an axis. Also Tensor.cat(a, b).

    >>> Tensor([[1], [2]]).cat(Tensor([[3], [4]]), dim=1).tolist()
    [[1, 3], [2, 4]]
    """
    return wrap(_core.cat(all_of(self, args), _axis_of_all(self, dim, 0)))
  def stack(self: Any, *args: Any, dim: int = 0) -> Tensor:
    """Tensors of one shape along a new axis."""
    return wrap(_core.stack(all_of(self, args), _axis_of_all(self, dim, 1)))
  def repeat(self, repeats: Any, *args: Any) -> Tensor:
    """The whole tensor several times along each axis. Counts beyond the axes make new leading ones."""
    times = sizes(repeats, args)
    if len(times) < self.ndim: raise WrongArgument(f"{len(times)} counts for a tensor with {self.ndim} axes")
    if _symbolic(times):
      shape = [1] * (len(times) - self.ndim) + list(self.shape)
      apart = expanded(reshaped(self._h, [d for s in shape for d in (1, s)]), [d for n, s in zip(times, shape) for d in (n, s)])
      return wrap(reshaped(apart, [n * s for n, s in zip(times, shape)]))
    return wrap(_core.tile(self._h, times))
  def repeat_interleave(self, repeats: Any, dim: int | None = None) -> Tensor:
    """Each element several times. Without an axis the tensor is flattened first."""
    if isinstance(repeats, Size):
      t, axis = (self.flatten(), 0) if dim is None or not self.ndim else (self, self._axis(dim))
      apart = expanded(_core.unsqueeze(t._h, axis + 1), [*t.shape[:axis + 1], repeats, *t.shape[axis + 1:]])
      return wrap(reshaped(apart, [*t.shape[:axis], t.shape[axis] * repeats, *t.shape[axis + 1:]]))
    return wrap(_core.repeat_interleave(self._h, repeats, None if dim is None else self._axis(dim)))
  def roll(self, shifts: Any, dims: Any = None) -> Tensor:
    """Elements moved along axes; what leaves at one end comes in at the other."""
    return wrap(_core.roll(self._h, [arg(s) for s in sizes(shifts, ())], [] if dims is None else [self._axis(d) for d in sizes(dims, ())]))
  def tril(self, diagonal: Any = 0) -> Tensor:
    """0 above a diagonal of the last two axes."""
    return wrap(_core.tril(self._h, arg(diagonal)))
  def triu(self, diagonal: Any = 0) -> Tensor:
    """0 below a diagonal of the last two axes."""
    return wrap(_core.triu(self._h, arg(diagonal)))
  def diag(self) -> Tensor:
    """A vector as the diagonal of a matrix; of a matrix its diagonal."""
    return wrap(_core.diag(self._h))
  def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A diagonal of two axes, as a new last axis."""
    return wrap(_core.diagonal(self._h, offset, self._axis(dim1), self._axis(dim2)))
  def diag_embed(self, offset: int = 0) -> Tensor:
    """The last axis as diagonals of matrices."""
    return wrap(_core.diag_embed(self._h, offset))
  def unfold(self, dim: int, size: int, step: int) -> Tensor:
    """Windows along an axis, in a new last axis.

    >>> Tensor.arange(6).unfold(0, 3, 2).tolist()
    [[0, 1, 2], [2, 3, 4]]
    """
    return wrap(_core.unfold(self._h, self._axis(dim), size, step))
  def meshgrid(self: Any, *args: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """The coordinates of all points of a grid, one tensor for each vector."""
    if indexing not in ("ij", "xy"): raise WrongArgument(f"indexing is 'ij' or 'xy', not {indexing!r}")
    return tuple(wrap(h) for h in _core.meshgrid(all_of(self, args), indexing == "xy"))
