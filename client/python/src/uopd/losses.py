# SPDX-License-Identifier: MIT
"""Tensor's losses. reduction: "mean", "sum", or "none" for the losses of all elements."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from . import _core
from .base import Base, arg, expanded, handle, maybe, reshaped, wrap
from .errors import WrongArgument

if TYPE_CHECKING:
  from .tensor import Tensor

_REDUCTION = {"none": 0, "mean": 1, "sum": 2}


def _code(reduction: str) -> int:
  if reduction not in _REDUCTION: raise WrongArgument(f"reduction is one of {', '.join(_REDUCTION)}, not {reduction!r}")
  return _REDUCTION[reduction]


class Losses(Base):
  __slots__ = ()

  def binary_crossentropy(self, Y: Any, reduction: str = "mean") -> Tensor:
    """-Y log(self) - (1 - Y) log(1 - self), for probabilities. Logarithms are at least -100."""
    return wrap(_core.binary_crossentropy(self._h, handle(Y), _code(reduction)))
  def binary_crossentropy_logits(self, Y: Any, reduction: str = "mean", pos_weight: Any = None) -> Tensor:
    """binary_crossentropy of sigmoid(self), without overflow. pos_weight multiplies the loss of targets of 1."""
    return wrap(_core.binary_crossentropy_logits(self._h, handle(Y), _code(reduction), maybe(pos_weight)))
  def cross_entropy(self, Y: Any, reduction: str = "mean", label_smoothing: float = 0.0) -> Tensor:
    """The cross entropy of logits along axis 1, and labels or probabilities of all classes.

    >>> round(Tensor([[0.0, 0.0]]).cross_entropy(Tensor([1])).item(), 4)
    0.6931
    """
    return wrap(_core.cross_entropy(self._h, handle(Y), _code(reduction), label_smoothing, None))
  def nll_loss(self, Y: Any, weight: Any = None, ignore_index: int | None = None, reduction: str = "mean") -> Tensor:
    """-self at the labels, for log probabilities along axis 1. Each class may have a weight."""
    return wrap(_core.nll_loss(self._h, handle(Y), maybe(weight), ignore_index, _code(reduction)))
  def sparse_categorical_crossentropy(self, Y: Any, ignore_index: int = -1, label_smoothing: float = 0.0, reduction: str = "mean") -> Tensor:
    """The cross entropy of logits, whose classes are the last axis, and integer labels. One row of logits may have many labels."""
    classes, y = self.shape[-1], handle(Y)
    all_rows = (*wrap(y).shape, classes)
    h = self._h if math.prod(self.shape) == math.prod(all_rows) else expanded(self._h, all_rows)
    h = reshaped(h, [math.prod(all_rows[:-1]), classes])
    t = wrap(_core.cross_entropy(h, reshaped(y, [math.prod(all_rows[:-1])]), _code(reduction), label_smoothing, ignore_index))
    return t.reshape(y.shape) if reduction == "none" else t

  # Names of torch that tinygrad does not have.
  def mse_loss(self, target: Any, reduction: str = "mean") -> Tensor:
    """(self - target)^2."""
    return wrap(_core.mse_loss(self._h, arg(target), _code(reduction)))
  def l1_loss(self, target: Any, reduction: str = "mean") -> Tensor:
    """|self - target|."""
    return wrap(_core.l1_loss(self._h, arg(target), _code(reduction)))
  def smooth_l1_loss(self, target: Any, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """With d = |self - target|: d^2 / (2 beta) below beta, d - beta / 2 from there on."""
    return wrap(_core.smooth_l1_loss(self._h, arg(target), beta, _code(reduction)))
  def huber_loss(self, target: Any, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """delta smooth_l1_loss(target, beta=delta)."""
    return wrap(_core.huber_loss(self._h, arg(target), delta, _code(reduction)))
  def kl_div(self, target: Any, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target (log(target) - self), for log probabilities self. The mean is that over all elements."""
    return wrap(_core.kl_div(self._h, arg(target), _code(reduction), log_target))
  def poisson_nll_loss(self, target: Any, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean") -> Tensor:
    """exp(self) - target self, or with log_input=False self - target log(self + eps)."""
    return wrap(_core.poisson_nll_loss(self._h, arg(target), log_input, full, eps, _code(reduction)))
  def gaussian_nll_loss(self, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> Tensor:
    """(log(var) + (self - target)^2 / var) / 2."""
    return wrap(_core.gaussian_nll_loss(self._h, handle(target), handle(var), full, eps, _code(reduction)))
  def margin_ranking_loss(self, other: Any, target: Any, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """max(0, margin - target (self - other)), for targets of -1 and 1."""
    return wrap(_core.margin_ranking_loss(self._h, handle(other), handle(target), margin, _code(reduction)))
  def triplet_margin_loss(self, positive: Any, negative: Any, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6,
                          reduction: str = "mean") -> Tensor:
    """max(0, |self - positive| - |self - negative| + margin), with norms along the last axis."""
    return wrap(_core.triplet_margin_loss(self._h, handle(positive), handle(negative), margin, p, eps, _code(reduction)))
  def hinge_embedding_loss(self, target: Any, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """self where the target is 1, max(0, margin - self) where it is -1."""
    return wrap(_core.hinge_embedding_loss(self._h, arg(target), margin, _code(reduction)))
  def cosine_similarity(self, other: Any, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along an axis."""
    return wrap(_core.cosine_similarity(self._h, arg(other), dim, eps))
  def cosine_embedding_loss(self, other: Any, target: Any, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """1 - cosine_similarity where the target is 1, max(0, similarity - margin) where it is -1."""
    return wrap(_core.cosine_embedding_loss(self._h, handle(other), handle(target), margin, _code(reduction)))
