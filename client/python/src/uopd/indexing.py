# SPDX-License-Identifier: MIT
"""x[...] and x[...] = v, and methods that select by tensors of positions."""
from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from . import _core
from .base import Base, arg, expanded, handle, wrap
from .convert import handle_of, is_numpy
from .dtype import BY_CORE, dtypes
from .errors import InvalidArgument, InvalidIndex, WrongArgument
from .variable import Size

if TYPE_CHECKING:
  from .tensor import Tensor

_REDUCE = {"sum": 0, "prod": 1, "mean": 2, "amax": 3, "amin": 4}
_SCATTER = {"add": 0, "multiply": 1}


def _choice(name: str, value: Any, choices: dict[str, int]) -> int:
  if value not in choices: raise WrongArgument(f"{name} is one of {', '.join(choices)}, not {value!r}")
  return choices[value]


class Indexing(Base):
  __slots__ = ()

  def gather(self, dim: int, index: Any) -> Tensor:
    """The elements of an axis at the positions of the index, as torch.gather.

    >>> Tensor([[1, 2], [3, 4]]).gather(1, Tensor([[1], [0]])).tolist()
    [[2], [3]]
    """
    return wrap(_core.gather(self._h, self._axis(dim), handle(index)))
  def take(self, index: Any) -> Tensor:
    """Elements of the flattened tensor."""
    return wrap(_core.take(self._h, handle(index)))
  def scatter(self, dim: int, index: Any, src: Any, reduce: str | None = None) -> Tensor:
    """self with elements of src at the positions of the index along an axis: they replace, are added ("add") or multiplied
    ("multiply").

    >>> Tensor.zeros(4).scatter(0, Tensor([1, 3]), 2.0).tolist()
    [0.0, 2.0, 0.0, 2.0]
    """
    self._same_dtype(src)
    if reduce is None: return wrap(_core.scatter(self._h, self._axis(dim), handle(index), arg(src)))
    mode = _choice("reduce", reduce, _SCATTER)
    index, src = handle(index), arg(src)
    if not isinstance(src, _core.Handle): src = _core.full_like(index, float(src), self._h.dtype)
    return wrap(_core.scatter_reduce(self._h, self._axis(dim), index, src, mode, True))
  def scatter_reduce(self, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True) -> Tensor:
    """As scatter; all elements for one position are combined: sum, prod, mean, amax or amin."""
    self._same_dtype(src)
    return wrap(_core.scatter_reduce(self._h, self._axis(dim), handle(index), handle(src), _choice("reduce", reduce, _REDUCE), include_self))
  def _same_dtype(self, src: Any) -> None:
    if isinstance(src, Base) and src.dtype is not self.dtype: raise WrongArgument(f"elements of {src.dtype.name} for a tensor of {self.dtype.name}")
  def index_put(self, indices: tuple[Any, ...], values: Any, accumulate: bool = False) -> Tensor:
    """A new tensor with self[indices] = values, or += values with accumulate."""
    items = self._items(indices)
    return wrap(_core.index_put(self._h, tuple(_item(i) for i in items), arg(values), accumulate))
  def masked_select(self, mask: Any, size: int | None = None, fill_value: float = 0) -> Tensor:
    """Elements where the mask is true. Without a size the mask is counted first, which waits.

    >>> x = Tensor([1, 2, 3, 4])
    >>> x.masked_select(x > 2, size=3, fill_value=-1).tolist()
    [3, 4, -1]
    """
    mask = handle(mask)
    if size is None: size = int(wrap(expanded(mask, self.shape)).sum().item())
    return wrap(_core.masked_select(self._h, mask, size, float(fill_value)))
  def nonzero(self, size: int | None = None, fill_value: int = 0) -> Tensor:
    """The positions of elements other than 0, one row for each. Without a size they are counted first, which waits."""
    if size is None: size = int(wrap(_core.count_nonzero(self._h, [], False)).item())
    return wrap(_core.nonzero(self._h, size, int(fill_value)))

  def __getitem__(self, indices: Any) -> Tensor:
    """Integers, slices, None, ..., lists and tensors of integers, as in NumPy. Masks of bools are counted first, which waits.

    >>> x = Tensor.arange(12).reshape(3, 4)
    >>> x[1:, ::-2].tolist()
    [[7, 5], [11, 9]]
    >>> x[[2, 0], 1].tolist()
    [9, 1]
    """
    items = self._items(indices)
    if _is_symbolic(items) or self._h.is_symbolic: return wrap(_symbolic(self._h, items))
    try: return wrap(_core.index(self._h, tuple(_item(i) for i in items)))
    except InvalidArgument as e: raise InvalidIndex(*e.args) from None
  def __setitem__(self, indices: Any, value: Any) -> None:
    """x[...] = v: all that x[...] reads, and masks. The value broadcasts. At a mask it has the shape of x[mask], or one that
    broadcasts to it; values for each true element are counted first, which waits.

    >>> x = Tensor([1, 2, 3, 4])
    >>> x[x > 2] *= 10
    >>> x.tolist()
    [1, 2, 30, 40]
    """
    mask = _mask(indices)
    if mask is None and not self.ndim and isinstance(indices, Base) and indices.dtype is dtypes.bool and not indices.ndim: mask = indices._h
    if mask is not None:
      _core.assign_changed(self._h, _masked(self._h, mask, handle(value)), _spread(mask, self._h))
      return
    items = self._items(indices)
    if _is_symbolic(items) or self._h.is_symbolic: return _assign_symbolic(self._h, items, value)
    try: _core.assign_index(self._h, tuple(_item(i) for i in items), arg(value))
    except InvalidArgument as e: raise InvalidIndex(*e.args) from None

  def __delitem__(self, indices: Any) -> None: raise TypeError("elements of a tensor cannot be deleted")

  def _items(self, indices: Any) -> tuple[Any, ...]:
    """One entry for each index. Masks become the positions where they are true. IndexError for integers out of range and too
    many items: `for x in tensor` of other code ends with it."""
    # A list of other things than integers is as a tuple, unless it is a mask. NumPy's integers are integers.
    if isinstance(indices, list) and any(is_numpy(i) for i in indices): indices = [operator.index(i) if is_numpy(i) and i.ndim == 0 and i.dtype.kind in "iu" else i for i in indices]
    if isinstance(indices, list) and not all(isinstance(i, int) for i in indices) and _mask(indices) is None: indices = tuple(indices)
    items: list[Any] = []
    for i in indices if isinstance(indices, tuple) else (indices,):
      mask = _mask(i)
      if mask is None: items.append(i)
      else:
        axes, at = len(mask.shape), sum(j is not None and j is not Ellipsis for j in items)
        if all(j is not Ellipsis for j in items) and tuple(mask.shape) != self.shape[at:at + axes]:
          raise IndexError(f"a mask of shape {tuple(mask.shape)} for the axes from {at} on of shape {self.shape}")
        positions = wrap(mask).nonzero()
        items += [positions[:, k] for k in range(axes)]
    if sum(i is Ellipsis for i in items) > 1: raise IndexError("a single ellipsis stands for all axes that are not named")
    used = sum(i is not None and i is not Ellipsis for i in items)
    if used > self.ndim: raise IndexError(f"too many indices: {used} for a tensor with {self.ndim} axes")
    axis = 0
    for i in items:
      if i is Ellipsis: axis += self.ndim - used
      elif i is not None:
        if isinstance(i, int) and isinstance(self.shape[axis], int) and not -self.shape[axis] <= i < self.shape[axis]:
          raise IndexError(f"index {i} is out of bounds for axis {axis} of size {self.shape[axis]}")
        axis += 1
    return tuple(items)
  def __len__(self) -> int:
    if not self.ndim: raise TypeError("a tensor without axes has no len()")
    if not isinstance(self.shape[0], int): raise TypeError(f"the length {self.shape[0]!r} is no number: use shape[0]")
    return self.shape[0]
  def __iter__(self) -> Any:
    if not self.ndim: raise TypeError("a tensor without axes cannot be iterated")
    return (self[i] for i in range(self.shape[0]))


def _mask(i: Any) -> _core.Handle | None:
  """The handle of a tensor, array or list of bools."""
  if isinstance(i, Base): return i._h if i.dtype is dtypes.bool and i.ndim else None
  if is_numpy(i): return handle(i) if i.dtype.kind == "b" and i.ndim else None
  x = i
  while isinstance(x, list) and x: x = x[0]
  return handle(i) if isinstance(x, bool) and isinstance(i, list) and dtypes.from_py(i) is dtypes.bool else None


def _masked(h: _core.Handle, mask: _core.Handle, value: _core.Handle) -> _core.Handle:
  """h with the value where the mask, of the leading axes, is true."""
  axes, shape = len(mask.shape), h.shape
  if tuple(mask.shape) != tuple(shape[:axes]): raise IndexError(f"a mask of shape {tuple(mask.shape)} for shape {tuple(shape)}")
  rest = shape[axes:]
  lead = len(value.shape) - len(rest)
  while lead > 1 and value.shape[0] == 1: value, lead = _core.squeeze(value, 0), lead - 1
  if lead > 1: raise IndexError(f"a value of shape {tuple(value.shape)} for elements at a mask of shape {tuple(rest)} each")
  if lead == 1 and value.shape[0] == 1: value, lead = _core.squeeze(value, 0), 0
  if lead == 1:
    count = int(wrap(_core.count_nonzero(mask, [], False)).item())
    if value.shape[0] != count: raise IndexError(f"a value of shape {tuple(value.shape)} for a mask that is true {count} times")
    return _core.masked_put(h, mask, expanded(value, (count, *rest)))
  return _core.where(_unsqueezed(mask, h), _core.cast(value, h.dtype), h)


def _spread(mask: _core.Handle, h: _core.Handle) -> _core.Handle:
  """The mask of the leading axes of h as one of its elements."""
  return expanded(_unsqueezed(mask, h), h.shape)


def _unsqueezed(mask: _core.Handle, h: _core.Handle) -> _core.Handle:
  """The mask with axes of size 1 for the axes of h that it does not have."""
  for axis in range(len(mask.shape), len(h.shape)): mask = _core.unsqueeze(mask, axis)
  return mask


def _item(i: Any) -> Any:
  if i is None or i is Ellipsis or isinstance(i, int) and not isinstance(i, bool): return i
  if isinstance(i, slice):
    if any(isinstance(v, Base) for v in (i.start, i.stop, i.step)): raise TypeError("a slice has no tensors as limits: read them by item()")
    return tuple(None if v is None else operator.index(v) for v in (i.start, i.stop, i.step))
  if is_numpy(i) and i.ndim == 0 and i.dtype.kind in "iu": return int(i)
  if isinstance(i, (Base, list, tuple)) or is_numpy(i):
    if isinstance(i, (list, tuple)) and not i: return handle_of([], dtypes.default_int)
    h = handle(i)
    if not dtypes.is_int(BY_CORE[h.dtype]): raise IndexError(f"an index of {BY_CORE[h.dtype].name}")
    return h
  raise IndexError(f"{type(i).__name__} is no index")


def _is_symbolic(items: tuple[Any, ...]) -> bool:
  return any(isinstance(i, Size) or isinstance(i, Base) and i._h.is_symbolic or isinstance(i, slice) and (isinstance(i.start, Size) or isinstance(i.stop, Size)) for i in items)


def _spelled(items: tuple[Any, ...], rank: int) -> list[Any]:
  """One item for each axis and for each new one, without `...`."""
  out = list(items)
  if not any(i is Ellipsis for i in out): out.append(Ellipsis)
  at = next(k for k, i in enumerate(out) if i is Ellipsis)
  out[at:at + 1] = [slice(None)] * (rank + 1 - sum(i is not None for i in out))
  return out


def _symbolic(h: _core.Handle, items: tuple[Any, ...]) -> _core.Handle:
  """h[items], where variables are among the sizes or the items."""
  part, tensors = _part(h, items)
  if not tensors: return part
  joined, positions, place = _joined(part, tensors)
  h = _core.index_select(joined, 0, positions)
  axes = range(len(positions.shape))
  return _core.moveaxis(h, list(axes), [place + i for i in axes]) if place else h


def _joined(part: _core.Handle, tensors: list[tuple[int, _core.Handle]]) -> tuple[_core.Handle, _core.Handle, int]:
  """Joins the axes that tensors of positions select from. Returns a view of the part whose first axis stands for them, the positions in that
  axis, and the axis of the result where the axes of the positions begin."""
  axes = [axis for axis, _ in tensors]
  joined, positions = _core.join_axes(part, axes, [positions for _, positions in tensors])
  return joined, positions, axes[0] if axes[-1] - axes[0] == len(axes) - 1 else 0


def _part(h: _core.Handle, items: tuple[Any, ...]) -> tuple[_core.Handle, list[tuple[int, _core.Handle]]]:
  """The view that the items but tensors of positions make of h, and the axes and the positions of those that are left."""
  axis, tensors = 0, []
  for i in _spelled(items, len(h.max_shape)):
    if i is None: h = _core.unsqueeze(h, axis)
    elif isinstance(i, Size):
      h = _core.squeeze(_core.narrow(h, axis, arg(h.shape[axis] + i if i.vmax < 0 else i), 1), axis)
      continue
    elif isinstance(i, int):
      h = _core.select(h, axis, i)
      continue
    elif not isinstance(i, slice): tensors.append((axis, _item(i)))
    elif i.step in (None, 1): h = _core.slice(h, axis, *([] if v is None else [arg(v)] for v in (i.start, i.stop)))
    elif i == slice(None, None, -1): h = _core.flip(h, [axis])
    elif isinstance(h.shape[axis], int) and not isinstance(i.start, Size) and not isinstance(i.stop, Size):
      h = _core.slice_by(h, axis, *_item(i))
    else: raise IndexError(f"a step of {i.step} along an axis whose size is made of variables")
    axis += 1
  return h, tensors


def _assign_symbolic(h: _core.Handle, items: tuple[Any, ...], value: Any) -> None:
  """h[:, begin:end, ...] = value, where variables are among the indices."""
  part, tensors = _part(h, items)
  if len(tensors) == 1:
    _core.assign_selected(part, *tensors[0], arg(value))
    return
  if tensors:
    joined, positions, place = _joined(part, tensors)
    count = len(positions.shape)
    value = arg(value)
    if isinstance(value, _core.Handle) and place and len(value.shape) > len(joined.shape) - 1 - place:
      # The value has the axes of the result, in which those of the positions are further back.
      shape = [*joined.shape[1:place + 1], *positions.shape, *joined.shape[place + 1:]]
      value = _core.moveaxis(expanded(value, shape), [place + i for i in range(count)], list(range(count)))
    _core.assign_selected(joined, 0, positions, value)
    return
  if not isinstance(value, (int, float)): value = expanded(_core.cast(handle(value), h.dtype), part.shape)
  _core.assign(part, value)
