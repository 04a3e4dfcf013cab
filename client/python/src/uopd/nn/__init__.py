# SPDX-License-Identifier: MIT
"""Layers. Parameters are attributes, so that nn.state finds them; names and shapes are tinygrad's."""
from __future__ import annotations

import math
from typing import Any

from .. import _core
from ..base import handle, maybe, wrap
from ..tensor import Tensor
from . import optim as optim, state as state


def _bound(n: int) -> float: return 1 / math.sqrt(n)


class Linear:
  """x @ weight.T + bias; weight is (out_features, in_features).

  >>> Linear(3, 4)(Tensor.ones(2, 3)).shape
  (2, 4)
  """
  def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
    b = _bound(in_features)
    self.weight = Tensor.uniform(out_features, in_features, low=-b, high=b)
    self.bias = Tensor.uniform(out_features, low=-b, high=b) if bias else None
  def __call__(self, x: Tensor) -> Tensor: return x.linear(self.weight.transpose(), self.bias)


class Conv2d:
  """Convolution over two axes; the weight is (out, in / groups, height, width)."""
  def __init__(self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
               groups: int = 1, bias: bool = True) -> None:
    self.kernel_size = tuple(kernel_size) if isinstance(kernel_size, (list, tuple)) else (kernel_size,) * 2
    if padding == "same":
      d = dilation if isinstance(dilation, (list, tuple)) else [dilation] * len(self.kernel_size)
      total = [a * (k - 1) for a, k in zip(d[::-1], self.kernel_size[::-1])]
      padding = [p for t in total for p in (t // 2, t - t // 2)]
    self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
    b = _bound(in_channels // groups * math.prod(self.kernel_size))
    self.weight = Tensor.uniform(out_channels, in_channels // groups, *self.kernel_size, low=-b, high=b)
    self.bias = Tensor.uniform(out_channels, low=-b, high=b) if bias else None
  def __call__(self, x: Tensor) -> Tensor:
    return x.conv2d(self.weight, self.bias, self.groups, self.stride, self.dilation, self.padding)


def Conv1d(in_channels: int, out_channels: int, kernel_size: int, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
           bias: bool = True) -> Conv2d:
  """The same over one axis."""
  return Conv2d(in_channels, out_channels, (kernel_size,), stride, padding, dilation, groups, bias)


class BatchNorm:
  """Normalises axis 1: by the batch while Tensor.training, else by the running statistics."""
  def __init__(self, sz: int, eps: float = 1e-5, affine: bool = True, track_running_stats: bool = True, momentum: float = 0.1) -> None:
    self.eps, self.track_running_stats, self.momentum = eps, track_running_stats, momentum
    self.weight = Tensor.ones(sz) if affine else None
    self.bias = Tensor.zeros(sz) if affine else None
    if track_running_stats: self.running_mean, self.running_var = Tensor.zeros(sz), Tensor.ones(sz)
  def __call__(self, x: Tensor) -> Tensor:
    if self.track_running_stats and not Tensor.training: mean, var = self.running_mean, self.running_var
    else:
      axes = [i for i in range(x.ndim) if i != 1]
      var, mean = x.var_mean(axes, correction=0)
      if self.track_running_stats:
        n = x.numel() / x.shape[1]
        m = self.momentum
        self.running_mean.assign(self.running_mean * (1 - m) + mean.detach() * m)
        self.running_var.assign(self.running_var * (1 - m) + var.detach() * (m * n / max(n - 1, 1)))
    return x.batchnorm(self.weight, self.bias, mean, (var + self.eps).rsqrt())


BatchNorm2d = BatchNorm3d = BatchNorm


class LayerNorm:
  """Normalises the last axes."""
  def __init__(self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True) -> None:
    self.normalized_shape = tuple(normalized_shape) if isinstance(normalized_shape, (list, tuple)) else (normalized_shape,)
    self.eps = eps
    self.weight = Tensor.ones(*self.normalized_shape) if elementwise_affine else None
    self.bias = Tensor.zeros(*self.normalized_shape) if elementwise_affine else None
  def __call__(self, x: Tensor) -> Tensor:
    if x.shape[-len(self.normalized_shape):] != self.normalized_shape: raise ValueError(f"the last axes of {x.shape} are not {self.normalized_shape}")
    return wrap(_core.layernorm(x._h, maybe(self.weight), maybe(self.bias), len(self.normalized_shape), self.eps))


class RMSNorm:
  """x / sqrt(mean of squares + eps) * weight over the last axis."""
  def __init__(self, dim: int, eps: float = 1e-6, elementwise_affine: bool = True) -> None:
    self.eps = eps
    self.weight = Tensor.ones(dim) if elementwise_affine else None
  def __call__(self, x: Tensor) -> Tensor: return wrap(_core.rmsnorm(x._h, maybe(self.weight), self.eps))


class Embedding:
  """A row of weight (vocab_size, embed_size) for each integer."""
  def __init__(self, vocab_size: int, embed_size: int) -> None: self.weight = Tensor.glorot_uniform(vocab_size, embed_size)
  def __call__(self, idx: Tensor) -> Tensor: return wrap(_core.embedding(self.weight._h, handle(idx)))
