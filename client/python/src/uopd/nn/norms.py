# SPDX-License-Identifier: MIT
"""Normalisation."""
from __future__ import annotations

import math
from typing import Any

from .. import _core
from ..base import maybe, wrap
from ..tensor import Tensor
from ..variable import Size


def _ones_and_zeros(shape: tuple[int, ...], affine: bool) -> tuple[Tensor | None, Tensor | None]:
  return (Tensor.ones(*shape), Tensor.zeros(*shape)) if affine else (None, None)


class BatchNorm:
  """Normalises axis 1: by the batch while Tensor.training, else by the running statistics. For inputs of any rank from 2 on.

  The running statistics are no parameters: an optimiser that is given them leaves them alone, and sends them with its step.

  >>> norm = BatchNorm(3)
  >>> with Tensor.train(): y = norm(Tensor.rand(2, 3, 4, 4))
  >>> abs(y.mean().item()) < 1e-5, norm.num_batches_tracked.item()
  (True, 1)
  """
  def __init__(self, sz: int, eps: float = 1e-5, affine: bool = True, track_running_stats: bool = True, momentum: float = 0.1) -> None:
    self.eps, self.track_running_stats, self.momentum = eps, track_running_stats, momentum
    self.weight, self.bias = _ones_and_zeros((sz,), affine)
    self.num_batches_tracked = Tensor.zeros(dtype="long").is_param_(False)
    if track_running_stats: self.running_mean, self.running_var = Tensor.zeros(sz).is_param_(False), Tensor.ones(sz).is_param_(False)
  def calc_stats(self, x: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and the variance that the layer uses now."""
    if self.track_running_stats and not Tensor.training: return self.running_mean, self.running_var
    var, mean = x.var_mean([i for i in range(x.ndim) if i != 1], correction=0)
    return mean, var
  def __call__(self, x: Tensor) -> Tensor:
    mean, var = self.calc_stats(x)
    if self.track_running_stats and Tensor.training:
      m, n = self.momentum, math.prod(d for i, d in enumerate(x.shape) if i != 1)
      rest: Any = n / (n - 1).maximum(1) if isinstance(n, Size) else n / max(n - 1, 1)
      self.running_mean.assign((self.running_mean * (1 - m) + mean.detach() * m).cast(self.running_mean.dtype))
      # The variance of the population is estimated by n / (n - 1) times that of the batch.
      self.running_var.assign((self.running_var * (1 - m) + var.detach() * (m * rest)).cast(self.running_var.dtype))
      self.num_batches_tracked += 1
    return x.batchnorm(self.weight, self.bias, mean, (var + self.eps).rsqrt())


BatchNorm2d = BatchNorm3d = BatchNorm


class GroupNorm:
  """Normalises each of num_groups groups of channels (axis 1) of each sample by its own mean and variance.

  >>> GroupNorm(2, 12)(Tensor.rand(2, 12, 4, 4)).shape
  (2, 12, 4, 4)
  """
  def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True) -> None:
    self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
    self.weight, self.bias = _ones_and_zeros((num_channels,), affine)
  def __call__(self, x: Tensor) -> Tensor:
    return wrap(_core.groupnorm(x._h, self.num_groups, maybe(self.weight), maybe(self.bias), self.eps))


class InstanceNorm:
  """Normalises each channel (axis 1) of each sample by its own mean and variance."""
  def __init__(self, num_features: int, eps: float = 1e-5, affine: bool = True) -> None:
    self.num_features, self.eps = num_features, eps
    self.weight, self.bias = _ones_and_zeros((num_features,), affine)
  def __call__(self, x: Tensor) -> Tensor:
    return wrap(_core.groupnorm(x._h, self.num_features, maybe(self.weight), maybe(self.bias), self.eps))


class LayerNorm:
  """Normalises the last axes, which have the sizes normalized_shape.

  >>> print(LayerNorm(3)(Tensor([[1.0, 2.0, 3.0]])).numpy().round(3))
  [[-1.225  0.     1.225]]
  """
  def __init__(self, normalized_shape: int | tuple[int, ...], eps: float = 1e-5, elementwise_affine: bool = True) -> None:
    self.normalized_shape = tuple(normalized_shape) if isinstance(normalized_shape, (list, tuple)) else (normalized_shape,)
    self.axis, self.eps = tuple(-1 - i for i in range(len(self.normalized_shape))), eps
    self.weight, self.bias = _ones_and_zeros(self.normalized_shape, elementwise_affine)
  def __call__(self, x: Tensor) -> Tensor:
    if x.shape[-len(self.normalized_shape):] != self.normalized_shape: raise ValueError(f"the last axes of {x.shape} are not {self.normalized_shape}")
    return wrap(_core.layernorm(x._h, maybe(self.weight), maybe(self.bias), len(self.normalized_shape), self.eps))


class LayerNorm2d(LayerNorm):
  """LayerNorm over the channels of images (n, channels, height, width)."""
  def __call__(self, x: Tensor) -> Tensor: return super().__call__(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class RMSNorm:
  """x / sqrt(mean of squares + eps) * weight over the last axis.

  >>> print(RMSNorm(4)(Tensor([2.0, -2.0, 2.0, 2.0])).numpy().round(3))
  [ 1. -1.  1.  1.]
  """
  def __init__(self, dim: int, eps: float = 1e-6, elementwise_affine: bool = True) -> None:
    self.eps = eps
    self.weight = Tensor.ones(dim) if elementwise_affine else None
  def __call__(self, x: Tensor) -> Tensor: return wrap(_core.rmsnorm(x._h, maybe(self.weight), self.eps))
