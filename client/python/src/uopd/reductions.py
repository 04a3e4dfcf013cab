# SPDX-License-Identifier: MIT
"""Tensor's reductions, running reductions, and sorting."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _core
from .base import Base, handle, maybe, wrap, wrap2
from .dtype import DTypeLike, to_dtype
from .errors import WrongArgument
from .variable import Size

if TYPE_CHECKING:
  from .tensor import Tensor


class Reductions(Base):
  __slots__ = ()

  def _cast(self, dtype: DTypeLike | None) -> _core.Handle:
    return self._h if dtype is None else _core.cast(self._h, to_dtype(dtype).core)

  def _reduce(self, f: Any, h: _core.Handle, axis: Any, keepdim: bool, *more: Any) -> Any:
    """A reduction over axes. No axes at all, as (), are not all axes: each element is the only one of its own."""
    if isinstance(axis, (list, tuple)) and not axis: return f(_core.unsqueeze(h, 0), [0], False, *more)
    return f(h, self._axes(axis), keepdim, *more)
  def sum(self, axis: Any = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    """The sum over axes; over all of them without an axis.

    >>> Tensor([[1, 2], [3, 4]]).sum(axis=1).tolist()
    [3, 7]
    """
    return wrap(self._reduce(_core.sum, self._cast(dtype), axis, keepdim))
  def prod(self, axis: Any = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    """The product over axes."""
    return wrap(self._reduce(_core.prod, self._cast(dtype), axis, keepdim))
  def mean(self, axis: Any = None, keepdim: bool = False) -> Tensor:
    """The mean over axes."""
    return wrap(self._reduce(_core.mean, self._h, axis, keepdim))
  def max(self, axis: Any = None, keepdim: bool = False) -> Tensor:
    """The largest element over axes. NaN if there is one. Elements that tie share the gradient."""
    return wrap(self._reduce(_core.max, self._h, axis, keepdim))
  def min(self, axis: Any = None, keepdim: bool = False) -> Tensor:
    """The smallest element over axes."""
    return wrap(self._reduce(_core.min, self._h, axis, keepdim))
  def any(self, axis: Any = None, keepdim: bool = False) -> Tensor:
    """True if one element over the axes is not 0."""
    return wrap(self._reduce(_core.any, self._h, axis, keepdim))
  def all(self, axis: Any = None, keepdim: bool = False) -> Tensor:
    """True if no element over the axes is 0."""
    return wrap(self._reduce(_core.all, self._h, axis, keepdim))
  def count_nonzero(self, axis: Any = None, keepdim: bool = False) -> Tensor:
    """The number of elements over the axes that are not 0."""
    return wrap(self._reduce(_core.count_nonzero, self._h, axis, keepdim))
  def var(self, axis: Any = None, keepdim: bool = False, correction: int = 1) -> Tensor:
    """The variance over axes: the squared distances from the mean are divided by the count less the correction."""
    return wrap(self._reduce(_core.var, self._h, axis, keepdim, correction))
  def std(self, axis: Any = None, keepdim: bool = False, correction: int = 1) -> Tensor:
    """The standard deviation over axes: the root of var."""
    return wrap(self._reduce(_core.std, self._h, axis, keepdim, correction))
  def var_mean(self, axis: Any = None, keepdim: bool = False, correction: int = 1) -> tuple[Tensor, Tensor]:
    """var and mean."""
    return wrap2(self._reduce(_core.var_mean, self._h, axis, keepdim, correction))
  def std_mean(self, axis: Any = None, keepdim: bool = False, correction: int = 1) -> tuple[Tensor, Tensor]:
    """std and mean."""
    return self.std(axis, keepdim, correction), self.mean(axis, keepdim)
  def logsumexp(self, axis: Any = None, keepdim: bool = False) -> Tensor:
    """log of the sum of exp over axes, without overflow."""
    return wrap(self._reduce(_core.logsumexp, self._h, axis, keepdim))
  def quantile(self, q: float, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The value below which a share q of the elements lies; between two elements in proportion.

    >>> Tensor([4.0, 1.0, 3.0, 2.0]).quantile(0.5).item()
    2.5
    """
    return self._along(lambda h, axis, keep: _core.quantile(h, q, axis, keep), dim, keepdim)
  def median(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """quantile(0.5): the mean of the two middle elements for an even number, as numpy.median."""
    return self.quantile(0.5, dim, keepdim)
  def _along(self, f: Any, axis: int | None, keepdim: bool) -> Tensor:
    """f along one axis, or of the flattened tensor."""
    if axis is not None: return wrap(f(self._h, self._axis(axis), keepdim))
    h = f(_core.reshape(self._h, [-1]), 0, False)
    return wrap(_core.reshape(h, [1] * self.ndim) if keepdim else h)
  def argmax(self, axis: int | None = None, keepdim: bool = False) -> Tensor:
    """The position of the largest element, of equal ones the first; without an axis in the flattened tensor."""
    return self._along(_core.argmax, axis, keepdim)
  def argmin(self, axis: int | None = None, keepdim: bool = False) -> Tensor:
    """The position of the smallest element, of equal ones the first."""
    return self._along(_core.argmin, axis, keepdim)
  def bincount(self, minlength: int, weights: Any = None) -> Tensor:
    """How often each of the numbers 0 to minlength - 1 occurs, or the sum of the weights at its places. Others do not count.

    >>> Tensor([1, 3, 1]).bincount(4).tolist()
    [0, 2, 0, 1]
    """
    return wrap(_core.bincount(self._h, minlength, maybe(weights)))
  def searchsorted(self, values: Any, right: bool = False) -> Tensor:
    """Where values would be inserted into this sorted vector.

    >>> Tensor([1, 3, 5]).searchsorted(Tensor([0, 3, 9])).tolist()
    [0, 1, 3]
    """
    return wrap(_core.searchsorted(self._h, handle(values), right))

  def cumsum(self, axis: int = 0) -> Tensor:
    """Running sums along an axis.

    >>> Tensor([1, 2, 3]).cumsum().tolist()
    [1, 3, 6]
    """
    return wrap(_core.cumsum(self._h, self._axis(axis)))
  def cumprod(self, axis: int) -> Tensor:
    """Running products along an axis."""
    return wrap(_core.cumprod(self._h, self._axis(axis)))
  def cummax(self, axis: int = 0) -> tuple[Tensor, Tensor]:
    """The largest element so far, and its position; of equal ones the first."""
    return wrap2(_core.cummax(self._h, self._axis(axis)))
  def cummin(self, axis: int = 0) -> tuple[Tensor, Tensor]:
    """The smallest element so far, and its position; of equal ones the first."""
    return wrap2(_core.cummin(self._h, self._axis(axis)))
  def logcumsumexp(self, axis: int = 0) -> Tensor:
    """logsumexp of all elements so far."""
    return wrap(_core.logcumsumexp(self._h, self._axis(axis)))
  def sort(self, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """The sorted elements, and where each one was. Equal ones keep their order; NaN is larger than all others.

    >>> values, where = Tensor([3, 1, 2]).sort()
    >>> values.tolist(), where.tolist()
    ([1, 2, 3], [1, 2, 0])
    """
    return wrap2(_core.sort(self._h, self._axis(dim), descending))
  def argsort(self, dim: int = -1, descending: bool = False) -> Tensor:
    """The positions of the elements in sorted order."""
    return self.sort(dim, descending)[1]
  def topk(self, k: Any, dim: int = -1, largest: bool = True, sorted_: bool = True) -> tuple[Tensor, Tensor]:
    """The k largest or smallest elements in order, and where each one was."""
    axis = self._axis(dim)
    if isinstance(k, Size):  # the first of as many as there can be
      size = self.shape[axis]
      many = wrap2(_core.sort(self._h, axis, largest))
      if isinstance(size, int) and k.vmin > size: raise WrongArgument(f"the {k!r} largest of {size} elements")
      return many[0].shrink([(0, k) if i == axis else None for i in range(self.ndim)]), many[1].shrink([(0, k) if i == axis else None for i in range(self.ndim)])
    return wrap2(_core.topk(self._h, k, axis, largest))
  def softmax(self, axis: int = -1, dtype: DTypeLike | None = None) -> Tensor:
    """exp along an axis, divided by its sum."""
    return wrap(_core.softmax(self._cast(dtype), self._axis(axis)))
  def softmin(self, axis: int = -1, dtype: DTypeLike | None = None) -> Tensor:
    """softmax of -self."""
    return wrap(_core.softmax(_core.neg(self._cast(dtype)), self._axis(axis)))
  def log_softmax(self, axis: int = -1, dtype: DTypeLike | None = None) -> Tensor:
    """log of softmax, without loss of small values."""
    return wrap(_core.log_softmax(self._cast(dtype), self._axis(axis)))
