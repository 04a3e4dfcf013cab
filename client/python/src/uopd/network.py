# SPDX-License-Identifier: MIT
"""Tensor's building blocks of networks: convolution, pooling, resizing, normalisation, attention, dropout."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from . import _core
from .base import Base, arg, handle, maybe, reshaped, tensor_class, wrap
from .convert import as_terms
from .dtype import DTypeLike, dtypes, to_dtype
from .errors import WrongArgument
from .runtime import client
from .variable import Size

if TYPE_CHECKING:
  from .tensor import Tensor

_INTERPOLATE = {"nearest": 0, "nearest-exact": 1, "linear": 2, "cubic": 3, "area": 4}


def _each(x: Any, n: int) -> list[int]:
  """One number for each of n axes."""
  out = list(x) if isinstance(x, (list, tuple)) else [x] * n
  if len(out) != n: raise WrongArgument(f"{x} has not one number for each of {n} axes")
  return out


def _numbers(sizes: Any) -> list[int]:
  """The sizes of an image that is made."""
  for n in sizes:
    if isinstance(n, Size): raise WrongArgument(f"an image of the size {n!r}: sizes of images are made of numbers, those of their sources may be made of variables")
  return list(sizes)


def _around(padding: Any, n: int) -> tuple[list[int], list[int]]:
  """Padding before and after each of n axes. It comes as one number, one for each axis, or (left, right, top, bottom, ...) from
  the last axis on."""
  if isinstance(padding, (list, tuple)) and len(padding) == 2 * n and n > 0: return list(padding[-2::-2]), list(padding[::-2])
  each = _each(padding, n)
  return each, each


class Network(Base):
  __slots__ = ()

  def sequential(self, ll: Any) -> Tensor:
    """The functions of a list, one after the other."""
    t: Any = self
    for f in ll: t = f(t)
    return t
  def conv2d(self, weight: Any, bias: Any = None, groups: int = 1, stride: Any = 1, dilation: Any = 1, padding: Any = 0,
             dtype: DTypeLike | None = None) -> Tensor:
    """Convolution over as many axes as the weight (out, in / groups, kernel...) has after its first two. Padding: one number,
    one for each axis, or (left, right, top, bottom, ...) from the last axis on.

    >>> Tensor.ones(1, 1, 3, 3).conv2d(Tensor.ones(1, 1, 2, 2)).tolist()
    [[[[4.0, 4.0], [4.0, 4.0]]]]
    """
    w, n = handle(weight), len(handle(weight).shape) - 2
    before, after = _around(padding, n)
    h = self._h
    if before != after: h, before = _core.pad(h, [0, 0, *before], [0, 0, *after], 0, 0.0), [0] * n
    to, b = None if dtype is None else to_dtype(dtype), maybe(bias)
    t = wrap(_core.conv(as_terms(h, to), as_terms(w, to), b if b is None else as_terms(b, to), _each(stride, n), before, _each(dilation, n), groups))
    return t if to is None else t.cast(to)
  def conv_transpose2d(self, weight: Any, bias: Any = None, groups: int = 1, stride: Any = 1, dilation: Any = 1, padding: Any = 0,
                       output_padding: Any = 0) -> Tensor:
    """The transpose of conv2d, over as many axes as the weight (in, out / groups, kernel...) has after its first two.

    >>> Tensor.ones(1, 1, 2, 2).conv_transpose2d(Tensor.ones(1, 1, 2, 2), stride=2).shape
    (1, 1, 4, 4)
    """
    w, n = handle(weight), len(handle(weight).shape) - 2
    before, after = _around(padding, n)
    extra = _each(output_padding, n)
    # Padding cuts the result: what is cut off more at one end is cut off afterwards.
    both = [min(a, b) for a, b in zip(before, after)]
    t = wrap(_core.conv_transpose(self._h, w, None if before != after else maybe(bias), _each(stride, n), both, extra, _each(dilation, n), groups))
    if before == after: return t
    t = t.shrink([None, None, *((b - m, d - (a - m)) for b, a, m, d in zip(before, after, both, t.shape[2:]))])
    return t if bias is None else t + wrap(handle(bias)).reshape(1, -1, *[1] * n)

  def _planes(self, n: int) -> tuple[_core.Handle, tuple[int, ...]]:
    """self as (count, channels, spatial...) with n spatial axes, and the sizes of the axes before them."""
    if self.ndim < n: raise WrongArgument(f"{n} spatial axes of a tensor of shape {self.shape}")
    if self.ndim == n + 2: return self._h, self.shape[:2]
    lead, spatial = self.shape[:self.ndim - n], self.shape[self.ndim - n:]
    return reshaped(self._h, [1, math.prod(lead), *spatial]), lead
  def max_pool2d(self, kernel_size: Any = (2, 2), stride: Any = None, dilation: Any = 1, padding: Any = 0, ceil_mode: bool = False,
                 return_indices: bool = False) -> Any:
    """The largest element of each window over the last axes, as many as kernel_size has; with their positions in the flattened
    axes if return_indices.

    >>> Tensor([[[[1, 5], [7, 2]]]]).max_pool2d().tolist()
    [[[[7]]]]
    """
    k, s, p, d = self._pool(kernel_size, stride, padding, dilation)
    h, lead = self._planes(len(k))
    if not return_indices: return _unplanes(_core.max_pool(h, k, s, p, d, ceil_mode), lead)
    return tuple(_unplanes(x, lead) for x in _core.max_pool_indices(h, k, s, p, d, ceil_mode))
  def avg_pool2d(self, kernel_size: Any = (2, 2), stride: Any = None, dilation: Any = 1, padding: Any = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True) -> Tensor:
    """The mean of each window over the last axes."""
    k, s, p, d = self._pool(kernel_size, stride, padding, dilation)
    h, lead = self._planes(len(k))
    return _unplanes(_core.avg_pool(h, k, s, p, d, ceil_mode, count_include_pad), lead)
  @staticmethod
  def _pool(kernel: Any, stride: Any, padding: Any, dilation: Any) -> tuple[list[int], ...]:
    k = _each(kernel, len(kernel) if isinstance(kernel, (list, tuple)) else 2)
    before, after = _around(padding, len(k))
    return k, _each(k if stride is None else stride, len(k)), before + after, _each(dilation, len(k))
  def max_unpool2d(self, indices: Any, kernel_size: Any = (2, 2), stride: Any = None, dilation: Any = 1, padding: Any = 0,
                   output_size: Any = None) -> Tensor:
    """Puts what max_pool2d(return_indices=True) gave back to its place; 0 elsewhere. output_size: the shape of the result, if
    several shapes are pooled to that of self."""
    k, s, p, d = self._pool(kernel_size, stride, padding, dilation)
    n = len(k)
    h, lead = self._planes(n)
    if output_size is None:
      output_size = [(i - 1) * s[a] - p[a] - p[n + a] + d[a] * (k[a] - 1) + 1 for a, i in enumerate(self.shape[self.ndim - n:])]
    i = reshaped(handle(indices), h.shape)
    return _unplanes(_core.max_unpool(h, i, list(output_size)[-n:]), lead)
  def adaptive_max_pool2d(self, output_size: Any) -> Tensor:
    """max_pool2d with windows of such sizes that the result has this size."""
    size = _numbers(_each(output_size, len(output_size) if isinstance(output_size, (list, tuple)) else 2))
    h, lead = self._planes(len(size))
    return _unplanes(_core.adaptive_max_pool(h, size), lead)
  def adaptive_avg_pool2d(self, output_size: Any) -> Tensor:
    """avg_pool2d with windows of such sizes that the result has this size."""
    size = _numbers(_each(output_size, len(output_size) if isinstance(output_size, (list, tuple)) else 2))
    h, lead = self._planes(len(size))
    return _unplanes(_core.adaptive_avg_pool(h, size), lead)
  def interpolate(self, size: Any, mode: str = "linear", align_corners: bool = False) -> Tensor:
    """Other sizes of the last axes. Modes: nearest, nearest-exact, linear, cubic, area.

    >>> Tensor([[[1.0, 3.0]]]).interpolate((4,)).tolist()
    [[[1.0, 1.5, 2.5, 3.0]]]
    """
    size = _numbers(size)
    if mode not in _INTERPOLATE: raise WrongArgument(f"mode is one of {', '.join(_INTERPOLATE)}, not {mode!r}")
    h, lead = self._planes(len(size))
    return _unplanes(_core.interpolate(h, list(size), _INTERPOLATE[mode], align_corners), lead)
  def pixel_shuffle(self, upscale_factor: int) -> Tensor:
    """(n, c r r, h, w) as (n, c, h r, w r)."""
    return wrap(_core.pixel_shuffle(self._h, upscale_factor))
  def pixel_unshuffle(self, downscale_factor: int) -> Tensor:
    """The inverse of pixel_shuffle."""
    return wrap(_core.pixel_unshuffle(self._h, downscale_factor))

  def layernorm(self, axis: Any = -1, eps: float = 1e-5) -> Tensor:
    """(self - mean) / sqrt(variance + eps), both over the axes."""
    axes = sorted(self._axes(axis))
    last = list(range(self.ndim - len(axes), self.ndim))
    moved = axes != last
    h = _core.moveaxis(self._h, axes, last) if moved else self._h
    h = _core.layernorm(h, None, None, len(axes), eps)
    return wrap(_core.moveaxis(h, last, axes) if moved else h)
  def batchnorm(self, weight: Any, bias: Any, mean: Any, invstd: Any, axis: Any = 1) -> Tensor:
    """(self - mean) * invstd * weight + bias, where all have one element for each position along the axes, or as many axes as self."""
    axes = self._axes(axis)
    shape = [d if i in axes else 1 for i, d in enumerate(self.shape)]
    def fitted(x: Any) -> Tensor:
      h = handle(x)
      return wrap(h if len(h.shape) == self.ndim else _core.reshape(h, shape))
    t: Any = self - fitted(mean)
    if weight is not None: t = t * fitted(weight)
    t = t * fitted(invstd)
    return t if bias is None else t + fitted(bias)
  def scaled_dot_product_attention(self, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
                                   is_causal: bool = False, enable_gqa: bool = False) -> Tensor:
    """softmax(self @ key.T / sqrt(width) + mask) @ value. A bool mask is true where a query sees a key; with is_causal query i
    sees the keys up to i. With fewer heads of key and value (axis -3) neighbouring heads of self share them. While
    Tensor.training: dropout of the softmax.

    >>> q, k = Tensor.randn(2, 4, 3, 8), Tensor.randn(2, 4, 5, 8)
    >>> q.scaled_dot_product_attention(k, k).shape
    (2, 4, 3, 8)
    """
    p = dropout_p if type(self).training else 0.0  # type: ignore[attr-defined]
    q, k, v, mask = self._h, handle(key), handle(value), maybe(attn_mask)
    if is_causal and mask is not None: raise WrongArgument("attn_mask and is_causal exclude each other")
    flat = self.ndim == 2
    if flat: q, k, v = (_core.unsqueeze(x, 0) for x in (q, k, v))
    rows, columns = q.shape[-2], k.shape[-2]
    if is_causal and rows != columns:  # the client library aligns the last query with the last key
      mask, is_causal = _core.tril(_core.full_to(client(), [arg(rows), arg(columns)], 1.0, dtypes.bool.core), 0), False
    h = _core.attention(q, k, v, mask, is_causal, p)
    return wrap(_core.squeeze(h, 0) if flat else h)
  def dropout(self, p: float = 0.5) -> Tensor:
    """While Tensor.training: zeroes elements with probability p and scales the others by 1 / (1 - p)."""
    if not 0 <= p <= 1: raise WrongArgument(f"p is {p}, not within 0 and 1")
    if not type(self).training or p == 0: return wrap(_core.snapshot(self._h))  # type: ignore[attr-defined]
    return wrap(_core.mul(self._h, 0)) if p == 1 else wrap(_core.dropout(self._h, p))
  def one_hot(self, num_classes: int, dtype: DTypeLike | None = None) -> Tensor:
    """1 at the position that each integer says, along a new last axis.

    >>> Tensor([2, 0]).one_hot(3).tolist()
    [[0, 0, 1], [1, 0, 0]]
    """
    if isinstance(num_classes, Size): return (self.unsqueeze(-1) == tensor_class().arange(num_classes)).cast(dtype or dtypes.default_int)
    return wrap(_core.one_hot(self._h, num_classes, (to_dtype(dtype) if dtype is not None else dtypes.default_int).core))


def _unplanes(h: _core.Handle, lead: tuple[int, ...]) -> Tensor:
  """The result of pooling with its own axes before the spatial ones."""
  return wrap(h if tuple(h.shape[:2]) == tuple(lead) else reshaped(h, [*lead, *h.shape[2:]]))
