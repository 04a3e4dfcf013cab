# SPDX-License-Identifier: MIT
"""Learning-rate schedules. tinygrad's package has none; names are PyTorch's."""
from __future__ import annotations

from typing import Any, Callable

from .. import _core
from .optim import Optimizer


class _Schedule:
  """A schedule of the client library, with what it was made of: for pickles and copies."""
  def __init__(self, name: str, *arguments: Any) -> None:
    self.made_of = (name, *arguments)
    self.rate = getattr(_core, name)(*arguments)
  def __call__(self, step: int) -> float: return float(self.rate(step))
  def __reduce__(self) -> Any: return _Schedule, self.made_of


class LRScheduler:
  """Sets the learning rate of an optimiser to schedule(0) now, and to schedule(1), schedule(2), ... with each step().

  Neither waits. Call step() outside of functions under TinyJit: the rate is data of the recorded step.

  >>> from uopd import nn, Tensor
  >>> optimizer = nn.optim.SGD([Tensor([1.0])])
  >>> scheduler = StepLR(optimizer, 0.5, step_size=2)
  >>> for _ in range(2): scheduler.step()
  >>> round(optimizer.lr.item(), 6)
  0.05
  """
  def __init__(self, optimizer: Optimizer, schedule: Callable[[int], float]) -> None:
    self.optimizer, self.schedule, self.last_epoch = optimizer, schedule, 0
    optimizer.lr = schedule(0)
  def step(self) -> None:
    """Sets the next rate."""
    self.last_epoch += 1
    self.optimizer.lr = self.schedule(self.last_epoch)
  def get_last_lr(self) -> float:
    """The rate that was set last."""
    return self.schedule(self.last_epoch)


class StepLR(LRScheduler):
  """lr * gamma ** (step // step_size)."""
  def __init__(self, optimizer: Optimizer, lr: float, step_size: int, gamma: float = 0.1) -> None:
    if step_size < 1: raise ValueError(f"step_size is {step_size}")
    super().__init__(optimizer, _Schedule("step_lr", lr, step_size, gamma))


class ExponentialLR(LRScheduler):
  """lr * gamma ** step."""
  def __init__(self, optimizer: Optimizer, lr: float, gamma: float) -> None: super().__init__(optimizer, _Schedule("exponential_lr", lr, gamma))


class CosineAnnealingLR(LRScheduler):
  """From lr to eta_min along half a cosine in T_max steps, and eta_min after them."""
  def __init__(self, optimizer: Optimizer, lr: float, T_max: int, eta_min: float = 0.0) -> None:
    super().__init__(optimizer, _Schedule("cosine_lr", lr, T_max, eta_min))


class WarmupCosineLR(LRScheduler):
  """lr * (step + 1) / warmup_steps in the first steps, then CosineAnnealingLR in the rest of total_steps."""
  def __init__(self, optimizer: Optimizer, lr: float, warmup_steps: int, total_steps: int, eta_min: float = 0.0) -> None:
    super().__init__(optimizer, _Schedule("warmup_cosine_lr", lr, warmup_steps, total_steps, eta_min))


class OneCycleLR(LRScheduler):
  """Half cosines from max_lr / div_factor up to max_lr, and down to max_lr / div_factor / final_div_factor."""
  def __init__(self, optimizer: Optimizer, max_lr: float, total_steps: int, pct_start: float = 0.3, div_factor: float = 25.0,
               final_div_factor: float = 1e4) -> None:
    super().__init__(optimizer, _Schedule("one_cycle_lr", max_lr, total_steps, pct_start, div_factor, final_div_factor))
