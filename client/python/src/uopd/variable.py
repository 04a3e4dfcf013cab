# SPDX-License-Identifier: MIT
"""Variables: integers whose values are no part of the graph, for sizes and positions that change from call to call."""
from __future__ import annotations

import operator
from typing import Any, Callable

from . import _core
from .runtime import client

_OPERATIONS: dict[str, tuple[Callable[[int, int], int], Any]] = {
  "+": (operator.add, _core.add), "-": (operator.sub, _core.sub), "*": (operator.mul, _core.mul)}


class Size:
  """A size or a position that is computed from variables by +, - and *."""
  __slots__ = ()
  val: int | None

  @staticmethod
  def variable(name: str, min_val: int, max_val: int) -> Variable:
    """A Variable."""
    return Variable(name, min_val, max_val)
  def handle(self) -> _core.Handle:
    """The scalar int64 tensor of the size, in the client library."""
    raise NotImplementedError

  def __add__(self, x: Size | int) -> Size: return _Sum("+", self, x)
  def __radd__(self, x: int) -> Size: return _Sum("+", x, self)
  def __sub__(self, x: Size | int) -> Size: return _Sum("-", self, x)
  def __rsub__(self, x: int) -> Size: return _Sum("-", x, self)
  def __mul__(self, x: Size | int) -> Size: return _Sum("*", self, x)
  def __rmul__(self, x: int) -> Size: return _Sum("*", x, self)


class _Sum(Size):
  __slots__ = ("sign", "a", "b", "_h")

  def __init__(self, sign: str, a: Size | int, b: Size | int) -> None:
    for x in (a, b):
      if not isinstance(x, (Size, int)): raise TypeError(f"a size is made of variables and integers, not of {type(x).__name__}")
    self.sign, self.a, self.b = sign, a, b
    self._h: _core.Handle | None = None

  @property
  def val(self) -> int | None:  # type: ignore[override]
    """The value, if all variables have one."""
    a, b = (x.val if isinstance(x, Size) else x for x in (self.a, self.b))
    return None if a is None or b is None else _OPERATIONS[self.sign][0](a, b)

  def handle(self) -> _core.Handle:
    """The scalar int64 tensor of the size, in the client library."""
    if self._h is None:
      a, b = (x.handle() if isinstance(x, Size) else x for x in (self.a, self.b))
      self._h = _OPERATIONS[self.sign][1](a, b)
    return self._h

  def __repr__(self) -> str: return f"({self.a!r} {self.sign} {self.b!r})"


class Variable(Size):
  """An integer between `min` and `max`, both included.

  >>> from uopd import Tensor, Variable
  >>> x = Tensor.arange(10).contiguous().realize()
  >>> for n in (3, 5): x[:Variable("n", 1, 10).bind(n)].sum().item()
  3
  10
  >>> n = Variable("n", 1, 8).bind(4)
  >>> x[n:n + 2].tolist()
  [4, 5]
  """
  __slots__ = ("name", "min", "max", "val", "_h")

  def __init__(self, name: str, min_val: int, max_val: int) -> None:
    if min_val > max_val: raise ValueError(f"variable {name}: min {min_val} is above max {max_val}")
    self.name, self.min, self.max = name, min_val, max_val
    self.val: int | None = None
    self._h: _core.Handle | None = None

  @property
  def expr(self) -> str:
    """The name."""
    return self.name
  @property
  def vmin(self) -> int:
    """The smallest value."""
    return self.min
  @property
  def vmax(self) -> int:
    """The largest value."""
    return self.max

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
    """The scalar int64 tensor of a variable that has a value, in the client library."""
    if self.val is None: raise ValueError(f"variable {self.name} has no value: use bind")
    if self._h is None: self._h = _core.variable(client(), self.name, self.min, self.max, self.val)
    return self._h

  def __repr__(self) -> str:
    return f"Variable({self.name!r}, {self.min}, {self.max})" + (f".bind({self.val})" if self.val is not None else "")


UOp = Size  # tinygrad's name for what sizes are made of
