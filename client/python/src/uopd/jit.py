# SPDX-License-Identifier: MIT
"""TinyJit: a function of tensors that is recorded once and then replayed, one message a call."""
from __future__ import annotations

import functools
from typing import Any, Callable, Generic, TypeVar

from . import _core, runtime
from .runtime import client
from .tensor import Tensor
from .variable import Variable

Result = TypeVar("Result")


def _leaves(value: Any, path: str) -> list[tuple[str, Any]]:
  """Tensors and variables of an argument, also one level inside of lists, tuples and dicts."""
  if isinstance(value, (Tensor, Variable)): return [(path, value)]
  inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
  return [(f"{path}[{key!r}]", v) for key, v in inner if isinstance(v, (Tensor, Variable))]


def _outputs(value: Any) -> list[Tensor]:
  if value is None: return []
  if isinstance(value, Tensor): return [value]
  if isinstance(value, dict): value = list(value.values())
  if isinstance(value, (list, tuple)): return [t for v in value for t in _outputs(v)]
  raise TypeError(f"a function under TinyJit returns tensors, and lists, tuples and dicts of them, not {type(value).__name__}")


class TinyJit(Generic[Result]):
  """A decorator. The first call runs the function, the second one records what it sends, and later calls send that again
  without running the function. What changes from call to call is given as arguments: tensors of the same shape and dtype, and
  bound variables. A replay returns the tensors of the second call, with new contents. `prune` changes nothing: what does not depend on the
  arguments is computed with each replay.

  >>> from uopd import Tensor, TinyJit
  >>> @TinyJit
  ... def double(x): return (x * 2).realize()
  >>> [double(Tensor([float(i)])).item() for i in range(4)]
  [0.0, 2.0, 4.0, 6.0]
  """
  def __new__(cls, fxn: Callable[..., Result] | None = None, prune: bool = False) -> Any:
    return functools.partial(cls, prune=prune) if fxn is None else super().__new__(cls)  # @TinyJit(prune=True)
  def __init__(self, fxn: Callable[..., Result], prune: bool = False) -> None:
    self.fxn, self.prune = fxn, prune
    functools.update_wrapper(self, fxn)
    self.reset()

  def reset(self) -> None:
    """Forgets what was recorded: the next call runs the function."""
    self.cnt = 0
    self._jit: _core.Jit | None = None
    self._paths: list[str] = []
    self._result: Any = None

  @property
  def captured(self) -> bool:
    """True once later calls are replays."""
    return self.cnt >= 2

  def __get__(self, obj: Any, objtype: Any = None) -> Callable[..., Result]: return functools.partial(self.__call__, obj)

  def __call__(self, *args: Any, **kwargs: Any) -> Result:
    if not runtime.jit:  # Context(JIT=0)
      called = self.fxn(*args, **kwargs)
      for t in _outputs(called): t.realize()
      return called
    named = [(str(i), v) for i, v in enumerate(args)] + sorted(kwargs.items())
    leaves = [leaf for name, value in named for leaf in _leaves(value, name)]
    tensors = [v._h for _, v in leaves if isinstance(v, Tensor)]
    variables = {v.name: v.unbind()[1] for _, v in leaves if isinstance(v, Variable)}
    paths = [path for path, _ in leaves]
    if self.cnt >= 2:
      if paths != self._paths: raise ValueError(f"TinyJit: the arguments with tensors are {paths}; recorded were {self._paths}")
      assert self._jit is not None
      self._jit.replay(tensors, list(variables), list(variables.values()))
      return self._result
    if self.cnt == 0:
      result = self.fxn(*args, **kwargs)
      for t in _outputs(result): t.realize()
      self.cnt = 1
      return result
    jit = _core.jit(client())
    jit.begin(tensors)
    try:
      result = self.fxn(*args, **kwargs)
      jit.end([t._h for t in _outputs(result)])
    except BaseException:
      jit.abandon()
      raise
    self._jit, self._paths, self._result, self.cnt = jit, paths, result, 2
    return result
