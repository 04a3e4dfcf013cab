# SPDX-License-Identifier: MIT
"""Tensor's reductions, sorting, products, convolutions, pooling and losses."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _core
from .base import Base, handle, maybe, wrap, wrap2
from .dtype import DTypeLike, dtypes, to_dtype

if TYPE_CHECKING:
  from .tensor import Tensor

_REDUCTION = {"none": 0, "mean": 1, "sum": 2}


def _list(x: Any, n: int) -> list[int]: return list(x) if isinstance(x, (list, tuple)) else [x] * n


class Reductions(Base):
  __slots__ = ()

  def sum(self, axis: Any = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    """The sum over axes; over all of them without an axis.

    >>> Tensor([[1, 2], [3, 4]]).sum(axis=1).tolist()
    [3, 7]
    """
    h = self._h if dtype is None else _core.cast(self._h, to_dtype(dtype).core)
    return wrap(_core.sum(h, self._axes(axis), keepdim))
  def prod(self, axis: Any = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    h = self._h if dtype is None else _core.cast(self._h, to_dtype(dtype).core)
    return wrap(_core.prod(h, self._axes(axis), keepdim))
  def mean(self, axis: Any = None, keepdim: bool = False) -> Tensor: return wrap(_core.mean(self._h, self._axes(axis), keepdim))
  def max(self, axis: Any = None, keepdim: bool = False) -> Tensor: return wrap(_core.max(self._h, self._axes(axis), keepdim))
  def min(self, axis: Any = None, keepdim: bool = False) -> Tensor: return wrap(_core.min(self._h, self._axes(axis), keepdim))
  def any(self, axis: Any = None, keepdim: bool = False) -> Tensor: return wrap(_core.any(self._h, self._axes(axis), keepdim))
  def all(self, axis: Any = None, keepdim: bool = False) -> Tensor: return wrap(_core.all(self._h, self._axes(axis), keepdim))
  def var(self, axis: Any = None, keepdim: bool = False, correction: int = 1) -> Tensor:
    return wrap(_core.var(self._h, self._axes(axis), keepdim, correction))
  def std(self, axis: Any = None, keepdim: bool = False, correction: int = 1) -> Tensor:
    return wrap(_core.std(self._h, self._axes(axis), keepdim, correction))
  def var_mean(self, axis: Any = None, keepdim: bool = False, correction: int = 1) -> tuple[Tensor, Tensor]:
    return wrap2(_core.var_mean(self._h, self._axes(axis), keepdim, correction))
  def std_mean(self, axis: Any = None, keepdim: bool = False, correction: int = 1) -> tuple[Tensor, Tensor]:
    return self.std(axis, keepdim, correction), self.mean(axis, keepdim)
  def logsumexp(self, axis: Any = None, keepdim: bool = False) -> Tensor:
    return wrap(_core.logsumexp(self._h, self._axes(axis), keepdim))
  def _arg(self, f: Any, axis: int | None, keepdim: bool) -> Tensor:
    if axis is not None: return wrap(f(self._h, self._axis(axis), keepdim))
    t = wrap(f(_core.reshape(self._h, [-1]), 0, False))
    return t.reshape([1] * self.ndim) if keepdim else t
  def argmax(self, axis: int | None = None, keepdim: bool = False) -> Tensor: return self._arg(_core.argmax, axis, keepdim)
  def argmin(self, axis: int | None = None, keepdim: bool = False) -> Tensor: return self._arg(_core.argmin, axis, keepdim)
  def cumsum(self, axis: int = 0) -> Tensor: return wrap(_core.cumsum(self._h, axis))
  def cumprod(self, axis: int) -> Tensor: return wrap(_core.cumprod(self._h, axis))
  def cummax(self, axis: int = 0) -> tuple[Tensor, Tensor]: return wrap2(_core.cummax(self._h, axis))
  def cummin(self, axis: int = 0) -> tuple[Tensor, Tensor]: return wrap2(_core.cummin(self._h, axis))
  def logcumsumexp(self, axis: int = 0) -> Tensor: return wrap(_core.logcumsumexp(self._h, axis))
  def sort(self, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]: return wrap2(_core.sort(self._h, dim, descending))
  def argsort(self, dim: int = -1, descending: bool = False) -> Tensor: return self.sort(dim, descending)[1]
  def topk(self, k: int, dim: int = -1, largest: bool = True, sorted_: bool = True) -> tuple[Tensor, Tensor]:
    return wrap2(_core.topk(self._h, k, dim, largest))
  def softmax(self, axis: int = -1, dtype: DTypeLike | None = None) -> Tensor:
    return wrap(_core.softmax(self._h if dtype is None else _core.cast(self._h, to_dtype(dtype).core), axis))
  def log_softmax(self, axis: int = -1, dtype: DTypeLike | None = None) -> Tensor:
    return wrap(_core.log_softmax(self._h if dtype is None else _core.cast(self._h, to_dtype(dtype).core), axis))
  def normalize(self, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor: return wrap(_core.normalize(self._h, p, dim, eps))
  def qr(self) -> tuple[Tensor, Tensor]: return wrap2(_core.qr(self._h))
  def svd(self, full_matrices: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    u, s, v = _core.svd(self._h, full_matrices)
    return wrap(u), wrap(s), wrap(v)

  def dot(self, w: Any, dtype: DTypeLike | None = None) -> Tensor:
    """The matrix product, as numpy.matmul."""
    return self.matmul(w, dtype=dtype)
  def matmul(self, x: Any, reverse: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    a, b = self._h, handle(x)
    t = wrap(_core.matmul(b, a) if reverse else _core.matmul(a, b))
    return t if dtype is None else t.cast(dtype)
  def __matmul__(self, x: Any) -> Tensor: return self.matmul(x)
  def __rmatmul__(self, x: Any) -> Tensor: return self.matmul(x, True)
  @staticmethod
  def einsum(formula: str, *operands: Any, dtype: DTypeLike | None = None) -> Tensor:
    """Einstein's sum convention, as numpy.einsum."""
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)): operands = tuple(operands[0])
    t = wrap(_core.einsum(formula, [handle(x) for x in operands]))
    return t if dtype is None else t.cast(dtype)
  def linear(self, weight: Any, bias: Any = None, dtype: DTypeLike | None = None) -> Tensor:
    """self @ weight + bias; a weight with one axis multiplies elementwise."""
    weight = wrap(handle(weight))
    t: Any = self * weight if weight.ndim == 1 else self.dot(weight)
    if bias is not None: t = t + bias
    return t if dtype is None else t.cast(dtype)
  def sequential(self, ll: Any) -> Tensor:
    t: Any = self
    for f in ll: t = f(t)
    return t
  def conv2d(self, weight: Any, bias: Any = None, groups: int = 1, stride: Any = 1, dilation: Any = 1, padding: Any = 0) -> Tensor:
    """Convolution over as many axes as the weight has after its first two. Padding: one number, one for each axis, or
    (left, right, top, bottom, ...) from the last axis on."""
    w = handle(weight)
    n = len(w.shape) - 2
    x: Any = self
    if isinstance(padding, (list, tuple)) and len(padding) == 2 * n and n > 0 and not (n == 1 and len(padding) == 1):
      x, padding = self.pad(padding), 0  # type: ignore[attr-defined]
    return wrap(_core.conv(x._h, w, maybe(bias), _list(stride, n), _list(padding, n), _list(dilation, n), groups))
  def _pool(self, kernel: Any, stride: Any, dilation: Any, padding: Any) -> tuple[list[int], ...]:
    n = len(kernel) if isinstance(kernel, (list, tuple)) else 2
    return _list(kernel, n), _list(kernel if stride is None else stride, n), _list(padding, n), _list(dilation, n)
  def max_pool2d(self, kernel_size: Any = (2, 2), stride: Any = None, dilation: Any = 1, padding: Any = 0, ceil_mode: bool = False,
                 return_indices: bool = False) -> Any:
    if ceil_mode: raise NotImplementedError("ceil_mode")
    arguments = self._pool(kernel_size, stride, dilation, padding)
    return wrap2(_core.max_pool_indices(self._h, *arguments)) if return_indices else wrap(_core.max_pool(self._h, *arguments))
  def avg_pool2d(self, kernel_size: Any = (2, 2), stride: Any = None, dilation: Any = 1, padding: Any = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True) -> Tensor:
    if ceil_mode: raise NotImplementedError("ceil_mode")
    return wrap(_core.avg_pool(self._h, *self._pool(kernel_size, stride, dilation, padding), count_include_pad))
  def interpolate(self, size: Any, mode: str = "linear", align_corners: bool = False) -> Tensor:
    modes = {"nearest": 0, "nearest-exact": 1, "linear": 2, "cubic": 3, "area": 4}
    return wrap(_core.interpolate(self._h, list(size), modes[mode], align_corners))
  def layernorm(self, axis: Any = -1, eps: float = 1e-5) -> Tensor:
    axes = sorted(self._axes(axis))
    if axes != list(range(self.ndim - len(axes), self.ndim)): raise NotImplementedError("layernorm of axes that are not the last ones")
    return wrap(_core.layernorm(self._h, None, None, len(axes), eps))
  def batchnorm(self, weight: Any, bias: Any, mean: Any, invstd: Any, axis: int = 1) -> Tensor:
    """(self - mean) * invstd * weight + bias, where all have one element for each position along the axis."""
    shape = [d if i == self._axis(axis) else 1 for i, d in enumerate(self.shape)]
    t: Any = self - wrap(handle(mean)).reshape(shape)
    t = t * wrap(handle(invstd)).reshape(shape)
    if weight is not None: t = t * weight.reshape(shape)
    return t if bias is None else t + bias.reshape(shape)
  def scaled_dot_product_attention(self, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
                                   is_causal: bool = False, enable_gqa: bool = False) -> Tensor:
    if dropout_p and type(self).training: raise NotImplementedError("dropout inside of attention")  # type: ignore[attr-defined]
    return wrap(_core.attention(self._h, handle(key), handle(value), maybe(attn_mask), is_causal))
  def dropout(self, p: float = 0.5) -> Tensor:
    """While Tensor.training: zeroes elements with probability p and scales the others by 1 / (1 - p)."""
    if not 0 <= p <= 1: raise ValueError(f"p is {p}, not within 0 and 1")
    if not type(self).training or p == 0: return wrap(self._h)  # type: ignore[attr-defined]
    return self * 0 if p == 1 else wrap(_core.dropout(self._h, p))
  def one_hot(self, num_classes: int) -> Tensor: return wrap(_core.one_hot(self._h, num_classes, dtypes.default_int.core))

  def binary_crossentropy(self, Y: Any, reduction: str = "mean") -> Tensor:
    return wrap(_core.binary_crossentropy(self._h, handle(Y), _REDUCTION[reduction]))
  def binary_crossentropy_logits(self, Y: Any, reduction: str = "mean", pos_weight: Any = None) -> Tensor:
    return wrap(_core.binary_crossentropy_logits(self._h, handle(Y), _REDUCTION[reduction], maybe(pos_weight)))
  def cross_entropy(self, Y: Any, reduction: str = "mean", label_smoothing: float = 0.0) -> Tensor:
    return wrap(_core.cross_entropy(self._h, handle(Y), _REDUCTION[reduction], label_smoothing, None))
  def nll_loss(self, Y: Any, weight: Any = None, ignore_index: int | None = None, reduction: str = "mean") -> Tensor:
    return wrap(_core.nll_loss(self._h, handle(Y), maybe(weight), ignore_index, _REDUCTION[reduction]))
  def sparse_categorical_crossentropy(self, Y: Any, ignore_index: int = -1, label_smoothing: float = 0.0, reduction: str = "mean") -> Tensor:
    """The cross entropy of logits, whose classes are the last axis, and integer labels."""
    classes = self.shape[-1]
    h, y = _core.reshape(self._h, [-1, classes]), handle(Y)
    t = wrap(_core.cross_entropy(h, _core.reshape(y, [-1]), _REDUCTION[reduction], label_smoothing, ignore_index))
    return t.reshape(y.shape) if reduction == "none" else t
