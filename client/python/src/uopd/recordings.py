# SPDX-License-Identifier: MIT
"""Recordings of TinyJit in pickles, and the tensors that they share with what else is in the same pickle.

A tensor whose memory a recording reads or updates is pickled as a Memory, by the recording and by the Tensor. The pickle has the Memory once,
so both have the same memory again when they are loaded: replays update the tensors of a model that was pickled with its step. Such tensors are
in one piece on the default device. The contents of all other memory of a recording are in its own bytes, and belong to the loaded recording alone.
"""
from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Any

from . import _core, runtime
from .dtype import BY_CORE, to_dtype

if TYPE_CHECKING:
  from .jit import TinyJit

recorded: weakref.WeakSet[TinyJit[Any]] = weakref.WeakSet()  # those that may have a recording


class Memory:
  """What a tensor is in a pickle that a recording may share. There is one for each tensor, as long as a pickler has it."""
  handle: _core.Handle  # while a pickle is read it comes last
  def __init__(self, shape: tuple[int, ...], dtype: str, handle: _core.Handle | None = None) -> None:
    self.shape, self.dtype = shape, dtype
    if handle is not None: self.handle = handle
  def __reduce_ex__(self, protocol: Any) -> Any:
    import pickle
    data = bytearray(math.prod(self.shape) * to_dtype(self.dtype).itemsize)
    _core.read_into(self.handle, data)
    return Memory, (self.shape, self.dtype), pickle.PickleBuffer(data) if protocol >= 5 else bytes(data)
  def __setstate__(self, data: Any) -> None:
    self.handle = _core.from_buffer(runtime.client(), to_dtype(self.dtype).core, list(self.shape), data)


_memories: weakref.WeakValueDictionary[int, Memory] = weakref.WeakValueDictionary()


def _memory(handle: _core.Handle) -> Memory:
  known = _memories.get(handle.key)
  if known is None: known = _memories[handle.key] = Memory(tuple(handle.shape), BY_CORE[handle.dtype].name, handle)
  return known


def _is_shared(handle: _core.Handle) -> bool: return list(handle.devices) == [""]


def memory_of(handle: _core.Handle) -> Memory | None:
  """The Memory of a tensor that is state of a recording."""
  for jit in list(recorded):
    if jit._jit is not None and _is_shared(handle) and jit._jit.has_state(handle): return _memory(handle)
  return None


class Captured:
  """A recording on its way. data: the recording without the contents of `shared`. paths, rest, inner: of its arguments. result: what calls
  return, with a Returned in place of each tensor."""
  def __init__(self, data: bytes, shared: list[Memory], paths: list[str], rest: list[tuple[str, Any]], inner: list[str], result: Any) -> None:
    self.data, self.shared, self.paths, self.rest, self.inner, self.result = data, shared, paths, rest, inner, result
  def __reduce__(self) -> Any: return Captured, (self.data, self.shared, self.paths, self.rest, self.inner, self.result)
  def load(self) -> _core.Jit: return _core.load_jit(runtime.client(), self.data, [m.handle for m in self.shared])


class Returned:
  """Stands for a tensor of a result: the number of the output, and of the argument that it is."""
  def __init__(self, output: int, argument: int | None) -> None: self.output, self.argument = output, argument
  def __reduce__(self) -> Any: return Returned, (self.output, self.argument)


def serialized(jit: _core.Jit) -> tuple[bytes, list[Memory]]:
  """The bytes of a recording, and the memory that it shares."""
  shared = [h for h in jit.state() if _is_shared(h)]
  return jit.serialize(shared), [_memory(h) for h in shared]
