# SPDX-License-Identifier: MIT
"""TinyJit: a function of tensors that is recorded once and then replayed, one message a call."""
from __future__ import annotations

import copy
import functools
import weakref
from typing import Any, Callable, Generic, TypeVar

from . import _core, recordings, runtime
from .base import wrap
from .convert import array_of, is_numpy
from .errors import JitError as JitError, WrongJitType
from .recordings import Captured, Returned
from .runtime import client
from .tensor import Tensor
from .variable import Size
from .variable import now as value_now

Result = TypeVar("Result")


def _is_itself_alone(value: Any) -> bool:
  equal: Any = getattr(type(value), "__eq__")
  return equal is object.__eq__ and hasattr(value, "__weakref__")


class _Arguments:
  """What a call gives: tensors and variables, which replays take; and everything else, which has to stay as it was."""
  __slots__ = ("paths", "tensors", "variables", "rest")

  def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    self.paths: list[str] = []
    self.tensors: list[Tensor] = []
    self.variables: dict[str, int] = {}
    self.rest: list[tuple[str, Any]] = []
    for i, v in enumerate(args): self._add(str(i), v)
    for key in sorted(kwargs): self._add(key, kwargs[key])

  def _add(self, path: str, value: Any) -> None:
    if isinstance(value, Tensor):
      self.paths.append(path)
      self.tensors.append(value)
    elif isinstance(value, Size):
      self.paths.append(path)
      self.rest.append((path, value.unbound()))
      for v in value.variables():
        n = value_now(v)
        if self.variables.setdefault(v.name, n) != n: raise JitError(f"TinyJit: variable {v.name} has two values, {self.variables[v.name]} and {n}")
    elif isinstance(value, dict):
      self.rest.append((path, len(value)))
      for key, v in value.items(): self._add(f"{path}[{key!r}]", v)
    elif isinstance(value, (list, tuple)):
      self.rest.append((path, len(value)))
      for i, v in enumerate(value): self._add(f"{path}[{i}]", v)
    else: self.rest.append((path, value))

  def forget(self) -> None:
    """Keeps what the next calls are compared with: no tensors, and no object that is equal to itself alone."""
    self.tensors = []
    self.rest = [(path, weakref.ref(v) if _is_itself_alone(v) else v) for path, v in self.rest]

  def kept(self) -> list[tuple[str, Any]]:
    """`rest` with the objects themselves."""
    out = [(path, v() if isinstance(v, weakref.ref) else v) for path, v in self.rest]
    for (path, now), (_, then) in zip(out, self.rest):
      if now is None and then is not None: raise JitError(f"TinyJit: argument {path} of the recording is gone, so no call can replay it")
    return out

  @classmethod
  def of(cls, paths: list[str], rest: list[tuple[str, Any]]) -> _Arguments:
    """Those of a recording that was loaded. They keep objects, which nobody else may have."""
    out = cls((), {})
    out.paths, out.rest = paths, rest
    return out

  def inner(self) -> list[tuple[str, Any]]:
    """Tensors that are attributes of objects among the arguments."""
    return [(f"{path}.{name}", v) for path, o in self.rest for name, v in getattr(o, "__dict__", {}).items() if isinstance(v, Tensor)]


def _check_constants(now: _Arguments, then: _Arguments, inner: list[tuple[str, Any]]) -> None:
  """JitError for an argument that a replay would not see."""
  if now.paths != then.paths: raise JitError(f"TinyJit: the arguments with tensors are {now.paths}; recorded were {then.paths}")
  if len(now.rest) != len(then.rest): raise JitError("TinyJit: the arguments have another structure than the recorded ones")
  for (path, new), (name, old) in zip(now.rest, then.rest):
    if isinstance(old, weakref.ref): old = old()
    if path == name and (new is old or type(new) is type(old) and bool(new == old)): continue
    raise JitError(f"TinyJit: argument {path} is {new!r}; the function was recorded with {old!r}, which a replay would use. "
                     "Give a Tensor or a bound Variable, or call reset()")
  if not inner: return
  held = dict(now.inner())
  for path, ref in inner:
    if held.get(path) is not ref():
      raise JitError(f"TinyJit: {path} is another tensor than when the function was recorded, whose memory a replay would use. "
                       "Assign to that tensor, give it as an argument, or call reset()")


def _outputs(value: Any) -> list[Tensor]:
  if value is None: return []
  if isinstance(value, Tensor): return [value]
  if isinstance(value, dict): value = list(value.values())
  if isinstance(value, (list, tuple)): return [t for v in value for t in _outputs(v)]
  raise WrongJitType(f"a function under TinyJit returns tensors, and lists, tuples and dicts of them, not {type(value).__name__}")


def _standing_for(t: Tensor, handle: _core.Handle) -> Tensor:
  """Another object for the tensor: what the function uses as its argument can be told from what it uses by another name."""
  out: Tensor = object.__new__(type(t))
  if hasattr(t, "__dict__"): out.__dict__.update(t.__dict__)
  out._h = handle
  return out


def _with_inputs(value: Any, places: dict[int, int], inputs: list[Any]) -> Any:
  """A value in which tensors have others in their places: those of `inputs` at the place that `places` gives by the tensor's id. The same
  with what stands for tensors."""
  if isinstance(value, (Tensor, Returned)): return inputs[places[id(value)]] if id(value) in places else value
  if not isinstance(value, (dict, list, tuple)): return value
  old = list(value.values()) if isinstance(value, dict) else list(value)
  new = [_with_inputs(v, places, inputs) for v in old]
  if all(a is b for a, b in zip(new, old)): return value
  if isinstance(value, tuple): return type(value)(*new) if hasattr(value, "_fields") else type(value)(new)
  out = copy.copy(value)  # a subclass may be made of other things than its elements
  for key, v in zip(value if isinstance(value, dict) else range(len(new)), new): out[key] = v
  return out


class LoopSteps:
  """The steps of a loop (TinyJit.repeat), in order: of each the outputs, as NumPy arrays. They come whether or not somebody waits. An error of the loop comes behind the steps before it."""
  def __init__(self, steps: _core.LoopSteps, forms: list[tuple[Any, tuple[int, ...]]]) -> None: self._steps, self._forms = steps, forms
  def __iter__(self) -> LoopSteps: return self
  def __next__(self) -> tuple[Any, ...]:
    outputs = self._steps.next()
    if outputs is None: raise StopIteration
    return tuple(array_of(data, dtype, shape) for data, (dtype, shape) in zip(outputs, self._forms))


class TinyJit(Generic[Result]):
  """A decorator. The first call runs the function, the second one records what it sends, and later calls send that again
  without running the function. What changes from call to call is given as arguments: tensors of the same shape and dtype, and
  bound variables, also within lists, tuples and dicts. Other arguments have to stay as they were: else the call is a JitError, which is a ValueError. A
  replay returns the tensors of the second call, with new contents. As a method, each object has a recording of its own. Pickles carry the
  recording, without the function.

  >>> from uopd import Tensor, TinyJit
  >>> @TinyJit
  ... def double(x): return (x * 2).realize()
  >>> [double(Tensor([float(i)])).item() for i in range(4)]
  [0.0, 2.0, 4.0, 6.0]

  prune: accepted for programs that give it; a replay sends what depends on the arguments and what does not.
  """
  def __new__(cls, fxn: Callable[..., Result] | None = None, captured: Any = None, prune: bool = False) -> Any:
    return functools.partial(cls, prune=prune) if fxn is None and captured is None else super().__new__(cls)  # @TinyJit(prune=True)
  def __init__(self, fxn: Callable[..., Result] | None, captured: Any = None, prune: bool = False) -> None:
    self.fxn, self.prune = fxn, prune
    if fxn is not None: functools.update_wrapper(self, fxn)
    self._of: dict[int, tuple[Any, TinyJit[Result]]] = {}
    self._forget()
    if captured is not None: self._load(captured)

  def reset(self) -> None:
    """Forgets what was recorded: the next call runs the function."""
    self._function()
    self._forget()

  def _forget(self) -> None:
    self.cnt = 0
    self._jit: _core.Jit | None = None
    self._then: _Arguments | None = None
    self._inner: list[tuple[str, Any]] = []
    self._result: Any = None
    self._places: dict[int, int] = {}
    for _, jit in self._of.values(): jit.reset()

  def _function(self) -> Callable[..., Result]:
    if self.fxn is None: raise JitError("TinyJit: it was loaded from a pickle, without its function: it can only replay")
    return self.fxn

  # A recording that is pickled leaves its function behind.
  def __reduce__(self) -> Any:
    if self._jit is None or self._then is None: return type(self), (self.fxn, None, self.prune)
    rest = self._then.kept()
    data, shared = recordings.serialized(self._jit)
    outputs = _outputs(self._result)
    stand = [Returned(i, self._places.get(id(t))) for i, t in enumerate(outputs)]
    result = _with_inputs(self._result, {id(t): i for i, t in enumerate(outputs)}, stand)
    return type(self), (None, Captured(data, shared, self._then.paths, rest, [path for path, _ in self._inner], result), self.prune)

  # A copy follows other objects than this one, so it records anew. Without a function it is as from a pickle.
  def __deepcopy__(self, memo: dict[int, Any]) -> TinyJit[Result]:
    if self.fxn is not None: return type(self)(copy.deepcopy(self.fxn, memo), None, self.prune)
    cls, arguments = self.__reduce__()
    copied: TinyJit[Result] = cls(*copy.deepcopy(arguments, memo))
    return copied
  def __copy__(self) -> TinyJit[Result]: return type(self)(self._function(), None, self.prune)

  def _load(self, saved: Captured) -> None:
    jit = saved.load()
    handles = jit.outputs()
    outputs: list[Tensor] = []
    places: dict[int, int] = {}
    def tensor(value: Any) -> None:
      if id(value) in places: return
      if isinstance(value, Returned):
        places[id(value)] = len(outputs)
        handle = handles[value.output]
        # One that is an argument is never seen: each call has its own there.
        outputs.append(object.__new__(Tensor) if handle is None else wrap(handle))
        if value.argument is not None: self._places[id(outputs[-1])] = value.argument
      elif isinstance(value, dict): tensor(list(value.values()))
      elif isinstance(value, (list, tuple)):
        for v in value: tensor(v)
    tensor(saved.result)
    self._result = _with_inputs(saved.result, places, outputs)
    self._jit, self._then, self.cnt = jit, _Arguments.of(saved.paths, saved.rest), 2
    inner = dict(self._then.inner())
    self._inner = [(path, weakref.ref(inner[path])) for path in saved.inner if path in inner]
    recordings.recorded.add(self)

  @property
  def captured(self) -> bool:
    """True once later calls are replays."""
    return self.cnt >= 2

  def __get__(self, obj: Any, objtype: Any = None) -> Callable[..., Result]:
    if obj is None: return self
    if self.fxn is None: return functools.partial(self.__call__, obj)
    known = self._of.get(id(obj))
    if known is None or known[0]() is not obj:
      forget, key = self._of.pop, id(obj)
      known = self._of[key] = weakref.ref(obj, lambda _: forget(key, None)), TinyJit(self.fxn, None, self.prune)
    return functools.partial(known[1].__call__, obj)

  def repeat(self, steps: int, *args: Any, advance: dict[str, int] | None = None, until: int | None = None, unless_over: bool = False, **kwargs: Any) -> LoopSteps:
    """Replays a recorded function up to `steps` times (1 to 1024) with one message: a step begins where the one before has left the tensors that the function assigns, and the
    client is not asked between two steps. So a loop does not depend on the time that messages take. Gives the outputs of each step, as they come.

    args, kwargs: those of the first step. advance: by the names of variables, what each step adds to them. until: the place of an output, which is no float: the step in which it is not
    zero is the last one. unless_over: no step is run if that output is not zero before the first one; so a loop can be begun before it is known whether the one before came to its
    end. Afterwards tensors are as after so many calls. JitError for a function that is not recorded yet, computes in several requests, draws random numbers by the client's
    generator, or returns an argument, a symbolic size, or more than 64 KiB.

    >>> from uopd import Tensor, TinyJit
    >>> x = Tensor([1.0]).realize()
    >>> @TinyJit
    ... def double():
    ...   x.assign(x * 2)
    ...   y, over = x + 0, (x >= 64).cast("int32")
    ...   Tensor.realize(x, y, over)
    ...   return y, over
    >>> [double()[0].item() for _ in range(2)]
    [2.0, 4.0]
    >>> [y.item() for y, over in double.repeat(100, until=1)]
    [8.0, 16.0, 32.0, 64.0]
    >>> x.item()
    64.0
    """
    if self._jit is None or self._then is None: raise JitError("TinyJit: the function is not recorded yet: call it twice before a loop")
    now = _Arguments(args, kwargs)
    _check_constants(now, self._then, self._inner)
    by = advance or {}
    outputs = _outputs(self._result)
    for i, t in enumerate(outputs):
      if t.dtype.numpy_name is None: raise JitError(f"TinyJit: output {i} of a loop is {t.dtype.name}, which NumPy does not have: cast it")
    steps_of = self._jit.repeat([t._h for t in now.tensors], list(now.variables), list(now.variables.values()), steps, list(by), list(by.values()), until, unless_over)
    return LoopSteps(steps_of, [(t.dtype, t.shape) for t in outputs])

  def __call__(self, *args: Any, **kwargs: Any) -> Result:
    if not runtime.jit:  # Context(JIT=0)
      called = self._function()(*args, **kwargs)
      for t in _outputs(called): t.realize()
      return called
    now = _Arguments(args, kwargs)
    if self.cnt >= 2:
      assert self._jit is not None and self._then is not None
      _check_constants(now, self._then, self._inner)
      self._jit.replay([t._h for t in now.tensors], list(now.variables), list(now.variables.values()))
      return _with_inputs(self._result, self._places, now.tensors) if self._places else self._result
    if self.cnt == 0:
      result = self._function()(*args, **kwargs)
      for t in _outputs(result): t.realize()
      self.cnt = 1
      return result
    for path, value in now.rest:
      if is_numpy(value) and value.ndim:
        raise WrongJitType(f"TinyJit: argument {path} is an array, which a replay would not see: give a Tensor")
    before = now.inner()
    jit = _core.jit(client())
    own = {id(t): i for i, t in enumerate(now.tensors)}
    arguments = [_standing_for(t, h) for t, h in zip(now.tensors, jit.begin([t._h for t in now.tensors]))]
    try:
      result = self._function()(*_with_inputs(args, own, arguments), **_with_inputs(kwargs, own, arguments))
      jit.end([t._h for t in _outputs(result)])
    except BaseException:
      jit.abandon()
      raise
    after = dict(now.inner())
    self._inner = [(path, weakref.ref(t)) for path, t in before if after.get(path) is t]
    places = {id(t): i for i, t in enumerate(arguments)}
    self._places = {id(t): places[id(t)] for t in _outputs(result) if id(t) in places}
    given = _with_inputs(result, self._places, now.tensors) if self._places else result
    now.forget()
    self._jit, self._then, self._result, self.cnt = jit, now, result, 2
    recordings.recorded.add(self)
    return given
