# SPDX-License-Identifier: MIT
"""Variables: integers whose values are no part of the graph, for sizes and positions that change from call to call."""
from __future__ import annotations

from typing import TYPE_CHECKING

from . import _core
from .runtime import client

if TYPE_CHECKING:
  from .tensor import Tensor


class Variable:
  """An integer between `min` and `max`, both included.

  >>> from uopd import Tensor, Variable
  >>> x = Tensor.arange(10).contiguous().realize()
  >>> for n in (3, 5): x[:Variable("n", 1, 10).bind(n)].sum().item()
  3
  10
  """
  __slots__ = ("name", "min", "max", "val", "_h")

  def __init__(self, name: str, min_val: int, max_val: int) -> None:
    if min_val > max_val: raise ValueError(f"variable {name}: min {min_val} is above max {max_val}")
    self.name, self.min, self.max = name, min_val, max_val
    self.val: int | None = None
    self._h: _core.Handle | None = None

  def bind(self, val: int) -> Variable:
    """The variable with a value."""
    if not self.min <= val <= self.max: raise ValueError(f"{val} is not within {self.min} and {self.max} of variable {self.name}")
    bound = Variable(self.name, self.min, self.max)
    bound.val = val
    return bound

  def unbind(self) -> tuple[Variable, int]:
    """The variable without its value, and the value."""
    if self.val is None: raise ValueError(f"variable {self.name} has no value")
    return Variable(self.name, self.min, self.max), self.val

  def handle(self) -> _core.Handle:
    """The scalar i64 tensor of a bound variable, in the client library."""
    if self.val is None: raise ValueError(f"variable {self.name} has no value: use bind")
    if self._h is None: self._h = _core.variable(client(), self.name, self.min, self.max, self.val)
    return self._h

  def __repr__(self) -> str:
    return f"Variable({self.name!r}, {self.min}, {self.max})" + (f".bind({self.val})" if self.val is not None else "")
