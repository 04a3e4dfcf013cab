# SPDX-License-Identifier: MIT
"""Optimisers. Rules and default values are tinygrad's; the arithmetic is in the client library."""
from __future__ import annotations

from typing import Any, Sequence

from .. import _core
from ..base import wrap
from ..runtime import client
from ..tensor import Tensor


def _unique(tensors: list[Tensor]) -> list[Tensor]: return list({id(t): t for t in tensors}.values())


class Optimizer:
  """Gives parameters new values from their gradients. The parameters become leaves of backward(). Tensors that are no
  parameters (Tensor.is_param), such as running statistics, are sent with each step and otherwise left alone.

  >>> w = Tensor([1.0, 2.0])
  >>> step = SGD([w], lr=0.5)
  >>> with Tensor.train():
  ...   loss = (w * w).sum().backward(); step.step()
  >>> w.tolist()
  [0.0, 0.0]
  """
  _native: Any
  def __init__(self, params: list[Tensor], lr: float, device: Any = None) -> None:
    if lr < 0: raise ValueError(f"the learning rate is {lr}")
    # Integers, such as counters, have no gradients: they are no parameters.
    self.params = _unique([p for p in params if p.is_param and p.is_floating_point()])
    self.buffers = _unique([p for p in params if not (p.is_param and p.is_floating_point())])
    if not self.params: raise ValueError("an optimiser needs parameters")
    self.device = self.params[0].device
    if device is not None and device != self.device: raise NotImplementedError("the state of an optimiser is where its parameters are")
    for p in self.params: p.requires_grad_()
    self._handles = [p._h for p in self.params]

  def _take(self, lr: float) -> list[Tensor]:
    """Makes the optimiser of the client library. Its state, without the learning rate."""
    self._native = self._made(lr)
    *state, self.__dict__["lr"] = (wrap(h) for h in self._native.state)
    return state
  def _made(self, lr: float) -> Any: raise NotImplementedError
  def _state(self) -> list[Tensor]:
    """The tensors that _take gave."""
    raise NotImplementedError

  # A pickle or a copy has the numbers, the parameters and the state. Parameters that are pickled or copied with the optimiser, in one object,
  # are its parameters there too.
  def __getstate__(self) -> dict[str, Any]: return {k: v for k, v in self.__dict__.items() if k not in ("_native", "_handles")}
  def __setstate__(self, state: dict[str, Any]) -> None:
    self.__dict__.update(state)
    self._handles = [p._h for p in self.params]
    self._native = self._made(0.0)
    self._native.use_state([t._h for t in (*self._state(), self.lr)])

  @property
  def lr(self) -> Tensor:
    """The learning rate, a tensor of one element. Set it to a number or a tensor, or assign() to it; another rate is no other graph."""
    rate: Tensor = self.__dict__["lr"]  # where get_state_dict finds it too
    return rate
  @lr.setter
  def lr(self, value: Any) -> None:
    if isinstance(value, Tensor): self.lr.assign(value.reshape(1).cast(self.lr.dtype))
    else: self._native.set_lr(float(value))

  def zero_grad(self) -> None:
    """Drops the gradients."""
    for p in self.params: p.grad = None
  def _check(self) -> None:
    if not Tensor.training: raise RuntimeError("Tensor.training is false: use `with Tensor.train():` around steps")
    for i, (p, h) in enumerate(zip(self.params, self._handles)):
      if p._h is not h: raise RuntimeError(f"parameter {i} stands for another tensor than when the optimiser was made: make it after replace(), "
                                           "to_(), shard_(), and after load_state_dict() of another dtype")
  def step(self) -> None:
    """Needs Tensor.training. Sends the step without waiting for it, and clears the gradients."""
    self._check()
    self._native.step([b._h for b in self.buffers])
  def schedule_step(self) -> list[Tensor]:
    """The first half of a step: nothing is sent. The caller must realise the tensors together."""
    self._check()
    return [wrap(h) for h in self._native.update()] + self.buffers


class OptimizerGroup(Optimizer):
  """Several optimisers as one; their steps are one request."""
  def __init__(self, *optimizers: Optimizer) -> None:
    if not optimizers: raise ValueError("a group needs optimisers")
    self.optimizers, self.device = optimizers, optimizers[0].device
    self.params = [p for o in optimizers for p in o.params]
    self.buffers = _unique([b for o in optimizers for b in o.buffers])
    self._handles = [h for o in optimizers for h in o._handles]
    self._native = _core.optimizer_group([o._native for o in optimizers])
  def __reduce__(self) -> Any: return OptimizerGroup, self.optimizers
  def __getitem__(self, i: int) -> Optimizer: return self.optimizers[i]
  @property
  def lr(self) -> Tensor:
    """That of the first member. Setting it sets all members'."""
    return self.optimizers[0].lr
  @lr.setter
  def lr(self, value: Any) -> None:
    for o in self.optimizers: o.lr = value


class LARS(Optimizer):
  """SGD whose gradient is multiplied by tcoef |p| / (|g| + weight_decay |p|), for each parameter p. tcoef = 0 is SGD.

  With ns_coefficients the step, as a matrix, is made orthogonal by ns_steps Newton-Schulz iterations. Without pre_wd the
  weight decay is decoupled from the gradient.
  """
  def __init__(self, params: list[Tensor], lr: float = 0.001, momentum: float = 0.9, weight_decay: float = 1e-4, ns_steps: int = 0,
               ns_coefficients: Sequence[float] | None = None, nesterov: bool = False, classic: bool = True, pre_wd: bool = True,
               tcoef: float = 0.001, device: Any = None, fused: bool = False) -> None:
    if momentum < 0: raise ValueError(f"the momentum is {momentum}")
    if fused and (tcoef != 0 or ns_coefficients): raise NotImplementedError("a fused optimiser with one norm of all parameters")
    super().__init__(params, lr, device)
    self.momentum, self.wd, self.ns_steps, self.ns_coefficients = momentum, weight_decay, ns_steps, ns_coefficients
    self.nesterov, self.classic, self.pre_wd, self.tcoef = nesterov, classic, pre_wd, tcoef
    self.b = self._take(lr)
  def _made(self, lr: float) -> Any:
    steps, coefficients = (self.ns_steps, list(self.ns_coefficients)) if self.ns_coefficients else (0, [])
    return _core.lars(client(), self._handles, lr, self.momentum, self.wd, steps, coefficients, self.nesterov, self.classic, not self.pre_wd, self.tcoef)
  def _state(self) -> list[Tensor]: return self.b


def SGD(params: list[Tensor], lr: float = 0.001, momentum: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False,
        classic: bool = False, device: Any = None, fused: bool = False) -> LARS:
  """Stochastic gradient descent. classic: the velocity includes the learning rate."""
  return LARS(params, lr, momentum, weight_decay, 0, None, nesterov, classic, True, 0.0, device, fused)


def Muon(params: list[Tensor], lr: float = 0.001, momentum: float = 0.95, weight_decay: float = 0.1, ns_steps: int = 5,
         ns_coefficients: Sequence[float] = (3.4445, -4.775, 2.0315), nesterov: bool = True, device: Any = None, fused: bool = False) -> LARS:
  """SGD whose step is made orthogonal by Newton-Schulz iterations, with decoupled weight decay."""
  return LARS(params, lr, momentum, weight_decay, ns_steps, ns_coefficients, nesterov, False, False, 0.0, device, fused)


class LAMB(Optimizer):
  """AdamW whose step u is multiplied by |p| / |u|, for each parameter p. adam: without that factor."""
  def __init__(self, params: list[Tensor], lr: float = 0.001, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-6,
               weight_decay: float = 0.0, adam: bool = False, device: Any = None, fused: bool = False) -> None:
    if weight_decay < 0: raise ValueError(f"the weight decay is {weight_decay}")
    if fused and not adam: raise NotImplementedError("a fused optimiser with one norm of all parameters")
    super().__init__(params, lr, device)
    self.b1, self.b2, self.eps, self.wd, self.adam = b1, b2, eps, weight_decay, adam
    self.b1_t, self.b2_t, *moments = self._take(lr)
    self.m, self.v = moments[::2], moments[1::2]
  def _made(self, lr: float) -> Any:
    return _core.lamb(client(), self._handles, lr, self.b1, self.b2, self.eps, self.wd, not self.adam)
  def _state(self) -> list[Tensor]: return [self.b1_t, self.b2_t, *(t for pair in zip(self.m, self.v) for t in pair)]


def AdamW(params: list[Tensor], lr: float = 0.001, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, weight_decay: float = 0.01,
          device: Any = None, fused: bool = False) -> LAMB:
  """Adam with decoupled weight decay."""
  return LAMB(params, lr, b1, b2, eps, weight_decay, True, device, fused)


def Adam(params: list[Tensor], lr: float = 0.001, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, device: Any = None,
         fused: bool = False) -> LAMB:
  """AdamW without weight decay."""
  return LAMB(params, lr, b1, b2, eps, 0.0, True, device, fused)
