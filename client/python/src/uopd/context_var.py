# SPDX-License-Identifier: MIT
"""ContextVar: a setting that Context changes for a scope, as a number that programs ask."""
from __future__ import annotations

import os
from typing import Any, Callable, Generic, TypeVar

from . import runtime, scopes

Value = TypeVar("Value")
_all: dict[str, ContextVar[Any]] = {}


class ContextVar(Generic[Value]):
  """A setting of the process: an environment variable, else the default. `with Context(NAME=1):` changes it for a scope of the thread.
  It is compared and used as its value; a name belongs to one object.

  >>> from uopd import Context
  >>> VERBOSE = ContextVar("VERBOSE", 0)
  >>> with Context(VERBOSE=2): bool(VERBOSE), VERBOSE >= 2, VERBOSE.value
  (True, True, 2)
  >>> VERBOSE.value
  0
  """
  __slots__ = ("key", "_setting", "_get")
  key: str
  _setting: scopes.Setting[Any]
  _get: Callable[[], Any] | None

  def __new__(cls, key: str, default_value: Value, _get: Callable[[], Any] | None = None) -> ContextVar[Value]:
    found = _all.get(key)
    if found is not None: return found
    self = super().__new__(cls)
    self.key, self._get = key, _get
    kind: Any = type(default_value)
    self._setting = scopes.Setting(f"uopd.{key}", kind(os.environ.get(key, default_value)))
    return _all.setdefault(key, self)

  @property
  def value(self) -> Value:
    """What it is now."""
    return self._get() if self._get is not None else self._setting.get()
  @value.setter
  def value(self, value: Value) -> None:
    if self._get is not None: raise AttributeError(f"{self.key} is set by Context")
    self._setting.assign(value)
  def tolist(self) -> list[str]:
    """The parts of a text between commas."""
    return [x for x in str(self.value).split(",") if x]
  def __bool__(self) -> bool: return bool(self.value)
  def __int__(self) -> int:
    value: Any = self.value
    return int(value)
  __index__ = __int__
  def __eq__(self, x: object) -> bool: return self.value == x
  def __hash__(self) -> int: return hash(self.key)
  def __ge__(self, x: Any) -> bool: return bool(self.value >= x)
  def __gt__(self, x: Any) -> bool: return bool(self.value > x)
  def __le__(self, x: Any) -> bool: return bool(self.value <= x)
  def __lt__(self, x: Any) -> bool: return bool(self.value < x)
  def __repr__(self) -> str: return f"{self.key}={self.value!r}"
  def __reduce__(self) -> Any: return ContextVar, (self.key, self.value)


def enter(changes: dict[str, Any]) -> list[scopes.Setting[Any]]:
  """The variables among the changes have the new values; what leave() needs."""
  held = [(v._setting, value) for name, value in changes.items() for v in [_all.get(name)] if v is not None and v._get is None]
  for setting, value in held: setting.push(value)
  return [setting for setting, _ in held]


def leave(held: list[scopes.Setting[Any]]) -> None:
  """They have the old ones."""
  for setting in reversed(held): setting.pop()


def is_own(name: str) -> bool:
  """Whether a program has made a variable of this name."""
  return name in _all


TRAINING: ContextVar[int] = ContextVar("TRAINING", 0, lambda: int(scopes.training.get()))
JIT: ContextVar[int] = ContextVar("JIT", 1, lambda: int(runtime.jit))
DEBUG, BEAM, NOOPT, WINO = ContextVar("DEBUG", 0), ContextVar("BEAM", 0), ContextVar("NOOPT", 0), ContextVar("WINO", 0)
IMAGE, FLOAT16, RING = ContextVar("IMAGE", 0), ContextVar("FLOAT16", 0), ContextVar("RING", 1)
OF_THE_DAEMON = ("DEBUG", "BEAM", "NOOPT")
