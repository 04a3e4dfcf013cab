# SPDX-License-Identifier: MIT
"""function: tinygrad's mark of a function whose graph is made once. Here graphs are shared by what they compute."""
from __future__ import annotations

import functools
from typing import Any, Callable, Generic, TypeVar

from .tensor import Tensor

Result = TypeVar("Result")


class function(Generic[Result]):
  """A decorator: calls the function, which returns a tensor or a tuple of tensors. The daemon knows equal graphs again, so nothing is gained
  or lost by it; precompile, precompile_backward and allow_implicit change nothing. A gradient of your own, grad_fxn, is not there.

  >>> @function
  ... def double(x): return x * 2
  >>> double(Tensor([1, 2])).tolist()
  [2, 4]
  """
  def __new__(cls, fxn: Callable[..., Result] | None = None, **options: Any) -> Any:
    return functools.partial(cls, **options) if fxn is None else super().__new__(cls)
  def __init__(self, fxn: Callable[..., Result], *, precompile: bool = False, precompile_backward: bool = False, allow_implicit: bool = False,
               grad_fxn: Callable[..., Any] | None = None) -> None:
    if grad_fxn is not None: raise NotImplementedError("a function with a gradient of its own")
    self.fxn = fxn
    functools.update_wrapper(self, fxn)
  def __get__(self, obj: Any, objtype: Any = None) -> Any: return self if obj is None else functools.partial(self.__call__, obj)
  def __call__(self, *args: Any, **kwargs: Any) -> Result:
    result = self.fxn(*args, **kwargs)
    if not isinstance(result, Tensor) and not (isinstance(result, tuple) and all(isinstance(t, Tensor) for t in result)):
      raise RuntimeError(f"a function returns a tensor or a tuple of tensors, not {type(result).__name__}")
    return result
