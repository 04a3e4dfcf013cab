# SPDX-License-Identifier: MIT
"""Tensors on disks: parts of files that are read when they are used, and written by assign()."""
from __future__ import annotations

import math
import os
import pathlib
import stat
from dataclasses import dataclass, field, replace
from typing import Any, Sequence

from . import _core
from .base import sizes, wrap
from .creation import placed
from .deferred import Outside, held, hold
from .dtype import DType, DTypeLike, dtypes, to_dtype
from .runtime import Device, client, device_name, is_disk
from .tensor import Tensor

_writes: dict[tuple[int, int], int] = {}  # how often this process wrote a file: its time may be too coarse to tell


class OpenFile:
  """A file that stays open while tensors lie in it: they keep its contents when another file takes its place."""
  __slots__ = ("path", "fd", "_writable")
  def __init__(self, path: str, flags: int = os.O_RDONLY) -> None:
    self.path, self._writable = path, flags & os.O_RDWR != 0
    self.fd = -1
    self.fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)  # a pipe does not keep it
  def __del__(self) -> None:
    if self.fd >= 0: os.close(self.fd)
  def identity(self) -> tuple[int, int]:
    now = os.fstat(self.fd)
    return now.st_dev, now.st_ino
  def make_writable(self) -> None:
    if self._writable: return
    writable = OpenFile(self.path, os.O_RDWR)
    if writable.identity() != self.identity(): raise ValueError(f"{self.path} is another file now than the one of this tensor")
    self.fd, writable.fd, self._writable = writable.fd, self.fd, True


@dataclass(frozen=True)
class FileRange:
  """`shape` elements of a file from a byte on, row-major and little-endian."""
  file: OpenFile
  offset: int
  shape: tuple[int, ...]
  dtype: DType
  device: Any = None  # where the tensor is once it is used; None: it stays a part of the file
  sent: list[Any] = field(default_factory=list, compare=False)  # the state of the file that was sent last, and its handle

  @property
  def nbytes(self) -> int: return math.prod(self.shape) * self.dtype.itemsize

  def read(self) -> bytearray:
    """The bytes. An error, if the file has become too short."""
    out = bytearray(self.nbytes)
    view, at = memoryview(out), 0
    while at < len(out):
      got = os.preadv(self.file.fd, [view[at:]], self.offset + at)
      if got == 0: raise ValueError(f"{self.file.path} ends at byte {self.offset + at}, within a tensor that goes to {self.offset + len(out)}")
      at += got
    return out

  def write(self, contents: Any) -> None:
    """Replaces the bytes."""
    view, at = memoryview(contents), 0
    self.file.make_writable()
    which = self.file.identity()
    _writes[which] = _writes.get(which, 0) + 1
    while at < len(view): at += os.pwrite(self.file.fd, view[at:], self.offset + at)

  def handle(self) -> _core.Handle:
    """The contents as a tensor of the daemon. Sent again only if the file has changed."""
    now = os.fstat(self.file.fd)
    state = (client(), now.st_mtime_ns, now.st_size, _writes.get((now.st_dev, now.st_ino), 0))
    if self.sent and self.sent[0] == state: return self.sent[1]
    truth = self.dtype is dtypes.bool  # whose bytes in files need not be 0 or 1
    h = _core.from_buffer(client(), (dtypes.uint8 if truth else self.dtype).core, list(self.shape), self.read())
    self.sent[:] = [state, _core.ne(h, 0) if truth else h]
    return self.sent[1]


class DiskTensor(Outside):
  """A part of a file. Slices of the first axis, reshape(), bitcast() and to() read nothing; numpy() and its like read from the
  file, and all else sends it to the daemon first. assign() writes the file."""
  __slots__ = ()

  @property
  def _h(self) -> _core.Handle:
    what = held(self)
    if isinstance(what, _core.Handle): return what
    handle = what.handle()
    if what.device is not None:  # it was moved to the daemon
      hold(self, handle, Tensor)
      placed(self, what.device)
      return self._h
    return handle
  @_h.setter
  def _h(self, handle: _core.Handle) -> None: hold(self, handle, Tensor)

  @property
  def device(self) -> Any:
    """DISK: and the path, or the device that to() named."""
    what = held(self)
    return "DISK:" + what.file.path if what.device is None else what.device

  def __getitem__(self, indices: Any) -> Tensor:
    what, items = held(self), indices if isinstance(indices, tuple) else (indices,)
    if not items or not what.shape or not isinstance(items[0], (int, slice)) or isinstance(items[0], bool): return super().__getitem__(indices)
    n, row = what.shape[0], math.prod(what.shape[1:]) * what.dtype.itemsize
    first = items[0]
    if first == slice(None) and len(items) > 1: return super().__getitem__(indices)
    if isinstance(first, int):
      if not -n <= first < n: raise IndexError(f"index {first} is out of range for axis 0 of size {n}")
      at, shape, rest = first % n, what.shape[1:], items[1:]
    else:
      if first.step not in (None, 1) or not all(v is None or isinstance(v, int) for v in (first.start, first.stop)):
        return super().__getitem__(indices)
      at, end, _ = first.indices(n)
      shape, rest = (max(0, end - at), *what.shape[1:]), (slice(None), *items[1:])
    part = on_disk(replace(what, offset=what.offset + at * row, shape=shape, sent=[]))
    return part if len(items) == 1 else part[rest] if isinstance(first, int) else Tensor.__getitem__(part, rest)
  def __setitem__(self, indices: Any, value: Any) -> None:
    part = self[indices]
    if not isinstance(part, DiskTensor) or not part._on_disk: raise RuntimeError("assignment to a non-contiguous view is not supported: of a file only slices of the first axis are assigned")
    part.assign(value)
  def shrink(self, arg: Any) -> Tensor:
    """For each axis (begin, end), or None for all of it."""
    ranges = list(arg)
    if len(ranges) == self.ndim and ranges[:1] != [None] and all(r is None for r in ranges[1:]) and all(isinstance(v, int) for v in ranges[0]):
      begin, end = ranges[0]
      if 0 <= begin <= end <= self.shape[0]: return self[begin:end]
    return super().shrink(arg)
  def reshape(self, shape: Any, *args: Any) -> Tensor:
    """Another shape with the same elements."""
    what = held(self)
    new = [what.shape[i] if d is None else d for i, d in enumerate(sizes(shape, args))]
    if not all(isinstance(d, int) and d >= -1 for d in new) or new.count(-1) > 1: return super().reshape(shape, *args)
    known = math.prod(d for d in new if d != -1)
    if -1 in new and known: new[new.index(-1)] = math.prod(what.shape) // known
    if math.prod(new) != math.prod(what.shape): raise ValueError(f"{self!r} cannot have the shape {tuple(new)}")
    return on_disk(replace(what, shape=tuple(new), sent=[]))
  def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The axes from one to another, both included, as one axis."""
    if not self.ndim: return self.reshape(1)
    first, last = self._axis(start_dim), self._axis(end_dim)
    return self.reshape(*self.shape[:first], math.prod(self.shape[first:last + 1]), *self.shape[last + 1:])
  def bitcast(self, dtype: DTypeLike) -> Tensor:
    """The same bits as elements of another dtype."""
    what, kind = held(self), to_dtype(dtype)
    if kind.itemsize == what.dtype.itemsize: return on_disk(replace(what, dtype=kind, sent=[]))
    if not what.shape or what.shape[-1] * what.dtype.itemsize % kind.itemsize:
      raise ValueError(f"{what.dtype.name} {what.shape} is no whole number of {kind.name} elements")
    last = what.shape[-1] * what.dtype.itemsize // kind.itemsize
    return on_disk(replace(what, dtype=kind, shape=(*what.shape[:-1], last), sent=[]))
  def to(self, device: Any) -> Tensor:
    """The contents on a device of the daemon. They are sent when they are used."""
    if is_disk(device): return new_file(device, self.shape, self.dtype).assign(self)
    return on_disk(replace(held(self), device=device_name(device if device is not None else Device.DEFAULT), sent=[]))
  def to_(self, device: Any) -> Tensor:
    """Moves this object to a device of the daemon."""
    hold(self, held(self.to(device)), DiskTensor)
    return self

  @property
  def path(self) -> str:
    """The path of the file."""
    return str(held(self).file.path)
  @property
  def is_whole_file(self) -> bool:
    """True for all bytes of a file, as uint8, that were not moved to the daemon."""
    what = held(self)
    return self._on_disk and what.dtype is dtypes.uint8 and what.offset == 0 and what.shape == (os.fstat(what.file.fd).st_size,)
  @property
  def _on_disk(self) -> bool: return held(self).device is None
  def realize(self, *lst: Tensor, do_update_stats: bool = True) -> Tensor:
    """Sends what was moved to the daemon. A part of a file stays there."""
    if not self._on_disk: return super().realize(*lst)
    if lst: lst[0].realize(*lst[1:])
    return self
  def assign(self, x: Any) -> Tensor:
    """Writes the part of the file."""
    if not self._on_disk: return super().assign(x)
    what = held(self)
    value = x if isinstance(x, Tensor) else Tensor(x, dtype=what.dtype)
    if value.dtype is not what.dtype: raise RuntimeError(f"a file of {what.dtype.name} cannot take {value.dtype.name}")
    if value.shape != what.shape: value = value.expand(what.shape)
    what.write(value._bytes())
    return self
  def _bytes(self) -> Any: return held(self).read()
  def numpy(self) -> Any:
    """A new NumPy array with the contents. bfloat16 and 8-bit floats become float32."""
    what = held(self)
    if not isinstance(what, FileRange) or what.dtype.numpy_name is None: return super().numpy()
    import numpy as np
    if what.dtype is dtypes.bool: return np.frombuffer(what.read(), np.uint8).reshape(what.shape) != 0
    return np.frombuffer(what.read(), what.dtype.numpy_name).reshape(what.shape)
  def __repr__(self) -> str: return f"<Tensor {self.shape} {self.dtype.name} on {self.device}>"


def on_disk(what: FileRange) -> DiskTensor:
  """The tensor of a part of a file."""
  t: DiskTensor = object.__new__(DiskTensor)
  hold(t, what, DiskTensor)
  return t


CONSTANTS_AT_ONCE = 4 << 20  # bytes of this process's memory; the daemon is asked once for each such group


def constants_of(parts: Sequence[Tensor], device: Any = None) -> list[Tensor]:
  """The contents of parts of files on a device of the daemon, as tensors that are read and not assigned. Sends what the daemon does not have yet, from this
  client or another one. What is in no file, and bools, become copies of their own."""
  place = str(device_name(device if device is not None else Device.DEFAULT))
  out: list[Tensor] = []
  batch: list[tuple[int, FileRange]] = []  # where they go in `out`

  def send() -> None:
    made = _core.constants(client(), place, [(what.dtype.core, list(what.shape), what.read()) for _, what in batch])
    for (i, _), handle in zip(batch, made): out[i] = wrap(handle)
    batch.clear()

  for t in parts:
    out.append(t)
    what = held(t) if isinstance(t, DiskTensor) else None
    if not isinstance(what, FileRange) or what.dtype is dtypes.bool or what.nbytes == 0:
      out[-1] = t.to(device).contiguous().realize()
      continue
    if batch and sum(w.nbytes for _, w in batch) + what.nbytes > CONSTANTS_AT_ONCE: send()
    batch.append((len(out) - 1, what))
  if batch: send()
  return out


def become_file(t: Tensor, path: pathlib.PurePath, dtype: DType | None, device: Any) -> None:
  """Makes t all of a file, as uint8 if no dtype is given, on a device if one is given. A last part of an element does not count."""
  kind = dtype or dtypes.uint8
  file = OpenFile(os.path.abspath(path))
  if not stat.S_ISREG(os.fstat(file.fd).st_mode): raise ValueError(f"{path} is no regular file")
  count = os.fstat(file.fd).st_size // kind.itemsize
  hold(t, FileRange(file, 0, (count,), kind, None if device is None else device_name(device)), DiskTensor)


def moved_to_file(t: Tensor, device: str) -> None:
  """Writes t to the file that a device disk:PATH names, and makes it that file."""
  hold(t, held(new_file(device, t.shape, t.dtype).assign(t)), DiskTensor)


def new_file(device: str, shape: tuple[int, ...], dtype: DType) -> DiskTensor:
  """A tensor at the beginning of the file that a device disk:PATH names. The file is made, or made longer, if need be."""
  what = FileRange(OpenFile(os.path.abspath(device.partition(":")[2]), os.O_RDWR | os.O_CREAT), 0, shape, dtype)
  if os.fstat(what.file.fd).st_size < what.nbytes: os.ftruncate(what.file.fd, what.nbytes)
  return on_disk(what)
