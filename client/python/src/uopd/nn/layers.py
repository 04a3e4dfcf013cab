# SPDX-License-Identifier: MIT
"""Linear layers, convolutions, embeddings. Parameters are attributes, so that nn.state finds them."""
from __future__ import annotations

import math
from typing import Any

from .. import _core
from ..base import handle, wrap
from ..dtype import dtypes
from ..tensor import Tensor


def _per_axis(value: Any, n: int) -> list[int]: return list(value) if isinstance(value, (list, tuple)) else [value] * n


class Linear:
  """x @ weight.T + bias; weight is (out_features, in_features).

  >>> Linear(3, 4)(Tensor.ones(2, 3)).shape
  (2, 4)
  """
  def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
    bound = 1 / math.sqrt(in_features)
    self.weight = Tensor.uniform(out_features, in_features, low=-bound, high=bound)
    self.bias = Tensor.uniform(out_features, low=-bound, high=bound) if bias else None
  def __call__(self, x: Tensor) -> Tensor: return x.linear(self.weight.transpose(), self.bias)


class Conv2d:
  """Convolution. The weight is (out_channels, in_channels / groups, height, width), or has as many axes as kernel_size.

  padding: one number, one for each axis, (left, right, top, bottom, ...) from the last axis on, or "same".

  >>> Conv2d(3, 8, 3, padding="same")(Tensor.ones(1, 3, 10, 10)).shape
  (1, 8, 10, 10)
  """
  def __init__(self, in_channels: int, out_channels: int, kernel_size: int | tuple[int, ...], stride: Any = 1,
               padding: int | tuple[int, ...] | str = 0, dilation: Any = 1, groups: int = 1, bias: bool = True) -> None:
    self.kernel_size = tuple(_per_axis(kernel_size, 2))
    n = len(self.kernel_size)
    if isinstance(padding, str):
      if padding.lower() != "same": raise ValueError(f"padding is {padding!r}; the only text that it may be is 'same'")
      if any(s != 1 for s in _per_axis(stride, n)): raise ValueError(f"padding='same' needs stride 1, not {stride}")
      total = [d * (k - 1) for d, k in zip(_per_axis(dilation, n)[::-1], self.kernel_size[::-1])]
      padding = tuple(p for t in total for p in (t // 2, t - t // 2))
    self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
    bound = 1 / math.sqrt(in_channels * math.prod(self.kernel_size))
    self.weight = Tensor.uniform(out_channels, in_channels // groups, *self.kernel_size, low=-bound, high=bound)
    self.bias = Tensor.uniform(out_channels, low=-bound, high=bound) if bias else None
  def __call__(self, x: Tensor) -> Tensor:
    return x.conv2d(self.weight, self.bias, self.groups, self.stride, self.dilation, self.padding)


def Conv1d(in_channels: int, out_channels: int, kernel_size: int, stride: Any = 1, padding: int | tuple[int, ...] | str = 0,
           dilation: Any = 1, groups: int = 1, bias: bool = True) -> Conv2d:
  """Conv2d over one axis."""
  return Conv2d(in_channels, out_channels, (kernel_size,), stride, padding, dilation, groups, bias)


def Conv3d(in_channels: int, out_channels: int, kernel_size: int | tuple[int, ...], stride: Any = 1,
           padding: int | tuple[int, ...] | str = 0, dilation: Any = 1, groups: int = 1, bias: bool = True) -> Conv2d:
  """Conv2d over three axes."""
  return Conv2d(in_channels, out_channels, tuple(_per_axis(kernel_size, 3)), stride, padding, dilation, groups, bias)


class ConvTranspose2d(Conv2d):
  """The transpose of Conv2d: what its gradient does. The weight is (in_channels, out_channels / groups, height, width).

  >>> ConvTranspose2d(8, 3, 2, stride=2)(Tensor.ones(1, 8, 5, 5)).shape
  (1, 3, 10, 10)
  """
  def __init__(self, in_channels: int, out_channels: int, kernel_size: int | tuple[int, ...], stride: Any = 1, padding: Any = 0,
               output_padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True) -> None:
    super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)
    bound = 1 / math.sqrt(in_channels * math.prod(self.kernel_size))
    self.weight = Tensor.uniform(in_channels, out_channels // groups, *self.kernel_size, low=-bound, high=bound)
    self.output_padding = output_padding
  def __call__(self, x: Tensor) -> Tensor:
    return x.conv_transpose2d(self.weight, self.bias, self.groups, self.stride, self.dilation, self.padding, self.output_padding)


def ConvTranspose1d(in_channels: int, out_channels: int, kernel_size: int, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
                    dilation: Any = 1, groups: int = 1, bias: bool = True) -> ConvTranspose2d:
  """ConvTranspose2d over one axis."""
  return ConvTranspose2d(in_channels, out_channels, (kernel_size,), stride, padding, output_padding, dilation, groups, bias)


def ConvTranspose3d(in_channels: int, out_channels: int, kernel_size: int | tuple[int, ...], stride: Any = 1, padding: Any = 0,
                    output_padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True) -> ConvTranspose2d:
  """ConvTranspose2d over three axes."""
  return ConvTranspose2d(in_channels, out_channels, tuple(_per_axis(kernel_size, 3)), stride, padding, output_padding, dilation, groups, bias)


class Embedding:
  """A row of weight (vocab_size, embed_size) for each integer.

  >>> Embedding(10, 3)(Tensor([1, 2, 3, 1])).shape
  (4, 3)
  """
  def __init__(self, vocab_size: int, embed_size: int) -> None: self.weight = Tensor.glorot_uniform(vocab_size, embed_size)
  def __call__(self, idx: Tensor) -> Tensor:
    if not dtypes.is_int(idx.dtype): raise TypeError(f"an embedding is indexed by integers, not {idx.dtype.name}")
    return wrap(_core.embedding(self.weight._h, handle(idx)))
