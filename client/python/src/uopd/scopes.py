# SPDX-License-Identifier: MIT
"""Settings of scopes, which belong to the thread (or to the asyncio task) that entered the scope.

Outside of scopes a setting is one of the process. So a new thread begins with that, whatever scopes other threads are in.
"""
from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class Stack(Generic[Value]):
  """What the scopes of a thread have put there; the innermost one is on top."""
  __slots__ = ("_top",)
  def __init__(self, name: str) -> None: self._top: ContextVar[Any] = ContextVar(name, default=None)  # None, or (value, the one below)
  def push(self, value: Value) -> None: self._top.set((value, self._top.get()))
  def pop(self) -> Value:
    value, below = self._top.get()
    self._top.set(below)
    return value


class Setting(Stack[Value]):
  """A value for the process, and others in scopes: enter one by push, leave it by pop."""
  __slots__ = ("_outside",)
  def __init__(self, name: str, outside: Value) -> None:
    super().__init__(name)
    self._outside = outside
  def get(self) -> Value:
    top = self._top.get()
    return self._outside if top is None else top[0]
  def assign(self, value: Value) -> None:
    """Changes the innermost scope of this thread; outside of scopes the value of the process."""
    top = self._top.get()
    if top is None: self._outside = value
    else: self._top.set((value, top[1]))


training: Setting[bool] = Setting("uopd.training", False)
progress: Setting[int | None] = Setting("uopd.progress", None)  # None: the environment decides
