# SPDX-License-Identifier: MIT
"""Tensor's activation functions."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _core
from .base import Base, handle, wrap

if TYPE_CHECKING:
  from .tensor import Tensor


class Activations(Base):
  __slots__ = ()

  def relu(self) -> Tensor:
    """max(self, 0)."""
    return wrap(_core.relu(self._h))
  def relu6(self) -> Tensor:
    """self within [0, 6]."""
    return wrap(_core.relu6(self._h))
  def sigmoid(self) -> Tensor:
    """1 / (1 + exp(-self))."""
    return wrap(_core.sigmoid(self._h))
  def silu(self) -> Tensor:
    """self sigmoid(self)."""
    return wrap(_core.silu(self._h))
  def swish(self) -> Tensor:
    """The same as silu."""
    return wrap(_core.silu(self._h))
  def gelu(self, approximate: str = "tanh") -> Tensor:
    """self times the normal distribution function of self: "tanh" is an approximation, "none" exact."""
    return wrap(_core.gelu(self._h, approximate == "tanh"))
  def quick_gelu(self) -> Tensor:
    """self sigmoid(1.702 self)."""
    return wrap(_core.quick_gelu(self._h))
  def leaky_relu(self, neg_slope: float = 0.01) -> Tensor:
    """self, times neg_slope where it is negative."""
    return wrap(_core.leaky_relu(self._h, neg_slope))
  def elu(self, alpha: float = 1.0) -> Tensor:
    """self where it is positive, alpha (exp(self) - 1) elsewhere."""
    return wrap(_core.elu(self._h, alpha))
  def celu(self, alpha: float = 1.0) -> Tensor:
    """self where it is positive, alpha (exp(self / alpha) - 1) elsewhere."""
    return wrap(_core.celu(self._h, alpha))
  def selu(self, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Tensor:
    """gamma elu(self, alpha)."""
    return wrap(_core.selu(self._h, alpha, gamma))
  def softplus(self, beta: float = 1.0) -> Tensor:
    """log(1 + exp(beta self)) / beta."""
    return wrap(_core.softplus(self._h, beta))
  def softsign(self) -> Tensor:
    """self / (1 + |self|)."""
    return wrap(_core.softsign(self._h))
  def logsigmoid(self) -> Tensor:
    """log(sigmoid(self))."""
    return wrap(_core.logsigmoid(self._h))
  def mish(self) -> Tensor:
    """self tanh(softplus(self))."""
    return wrap(_core.mish(self._h))
  def hardswish(self) -> Tensor:
    """self hardsigmoid(self)."""
    return wrap(_core.hardswish(self._h))
  def hardsigmoid(self, alpha: float = 1 / 6, beta: float = 0.5) -> Tensor:
    """alpha self + beta within [0, 1]."""
    return wrap(_core.hardsigmoid(self._h, alpha, beta))
  def hardtanh(self, min_val: float = -1, max_val: float = 1) -> Tensor:
    """self within [min_val, max_val]."""
    return wrap(_core.hardtanh(self._h, min_val, max_val))

  # Names of torch and NumPy that tinygrad does not have.
  def prelu(self, weight: Any) -> Tensor:
    """self, times the weight where it is negative. The weight has one element, or one for each channel."""
    return wrap(_core.prelu(self._h, handle(weight)))
  def threshold(self, threshold: float, value: float) -> Tensor:
    """self where it is above the threshold, value elsewhere."""
    return wrap(_core.threshold(self._h, threshold, value))
  def hardshrink(self, lambd: float = 0.5) -> Tensor:
    """0 within [-lambd, lambd], self elsewhere."""
    return wrap(_core.hardshrink(self._h, lambd))
  def softshrink(self, lambd: float = 0.5) -> Tensor:
    """0 within [-lambd, lambd]; elsewhere self moved toward 0 by lambd."""
    return wrap(_core.softshrink(self._h, lambd))
  def tanhshrink(self) -> Tensor:
    """self - tanh(self)."""
    return wrap(_core.tanhshrink(self._h))
  def glu(self, dim: int = -1) -> Tensor:
    """The first half of an axis times the sigmoid of the second half."""
    return wrap(_core.glu(self._h, dim))
