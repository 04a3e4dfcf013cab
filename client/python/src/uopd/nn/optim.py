# SPDX-License-Identifier: MIT
"""Optimisers of the client library."""
from __future__ import annotations

from typing import Any

from .. import _core
from ..runtime import client
from ..tensor import Tensor


class Optimizer:
  """Gives parameters new values from their gradients. Parameters become leaves of backward().

  >>> w = Tensor([1.0, 2.0])
  >>> step = SGD([w], lr=0.5)
  >>> with Tensor.train():
  ...   loss = (w * w).sum().backward(); step.step()
  >>> w.tolist()
  [0.0, 0.0]
  """
  def __init__(self, params: list[Tensor]) -> None:
    self.params = list({id(p): p for p in params}.values())
    if not self.params: raise ValueError("an optimiser needs parameters")
    for p in self.params:
      if not p.requires_grad: p.requires_grad_()
    self._native: Any = None

  def zero_grad(self) -> None:
    for p in self.params: p.grad = None
  def step(self) -> None:
    """Needs Tensor.training. Sends the step without waiting for it, and clears the gradients."""
    if not Tensor.training: raise RuntimeError("Tensor.training is false: use `with Tensor.train():` around steps")
    self._native.step()


class SGD(Optimizer):
  def __init__(self, params: list[Tensor], lr: float = 0.001, momentum: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False) -> None:
    super().__init__(params)
    self._native = _core.sgd(client(), [p._h for p in self.params], lr, momentum, weight_decay, nesterov)


class AdamW(Optimizer):
  def __init__(self, params: list[Tensor], lr: float = 0.001, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8,
               weight_decay: float = 0.01) -> None:
    super().__init__(params)
    self._native = _core.adam(client(), [p._h for p in self.params], lr, b1, b2, eps, weight_decay)


def Adam(params: list[Tensor], lr: float = 0.001, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> AdamW:
  """AdamW without weight decay."""
  return AdamW(params, lr, b1, b2, eps, 0.0)


class OptimizerGroup:
  """Several optimisers as one."""
  def __init__(self, *optimizers: Optimizer) -> None:
    self.optimizers = optimizers
    self.params = [p for o in optimizers for p in o.params]
  def zero_grad(self) -> None:
    for o in self.optimizers: o.zero_grad()
  def step(self) -> None:
    for o in self.optimizers: o.step()
