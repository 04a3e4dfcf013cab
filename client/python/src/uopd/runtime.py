# SPDX-License-Identifier: MIT
"""Connections: the default one, others, settings, and what fork() needs.

Nothing is connected at import. The first tensor connects to UOPD_ADDRESS, or starts a daemon of this process.
"""
from __future__ import annotations

import atexit
import os
import pathlib
import threading
from contextlib import ContextDecorator
from typing import Any

from . import _core, progress, scopes

_core.set_package_folder(str(pathlib.Path(__file__).parent) + os.sep)
_lock = threading.RLock()
_default: _core.Client | None = None
_seed = 0
_settings: scopes.Stack[_core.Scope] = scopes.Stack("uopd.settings")  # what Context has changed in the client library


def connect(address: str | None = None, token: str = "", timeout: float = 600.0, ttl: float = 0.0) -> _core.Client:
  """Connects to a daemon, and makes it the one of all tensors that are made from now on.

  address: "host:port" or "unix:PATH". None: UOPD_ADDRESS, else a daemon that belongs to this process.
  token: sent with every call, see docs/security.md. Also UOPD_TOKEN.
  timeout: the limit of one call, in seconds. ttl: how long the daemon keeps the session without calls; 0: its default.
  Tensors of an earlier connection stay usable among themselves.
  """
  global _default
  with _lock:
    address = address or os.environ.get("UOPD_ADDRESS")
    if not address:
      from .daemon import own_daemon
      address = own_daemon().address
    client = _core.connect(address, token or os.environ.get("UOPD_TOKEN", ""), timeout, ttl, _seed, "")
    _default = client
    return client


def client() -> _core.Client:
  """The connection of new tensors."""
  return _default if _default is not None else connect()


def close() -> None:
  """Closes the connection. The daemon frees its tensors."""
  global _default
  with _lock:
    old, _default = _default, None
    if old is not None: old.close()


def sync() -> None:
  """Waits until everything that was sent is done, and raises the first error that no other call raised."""
  if _default is not None: _default.sync()


def stats() -> dict[str, Any]:
  """Counters of the connection: requests, bytes, kernels."""
  return client().stats()


def counted() -> dict[str, Any]:
  """What GlobalCounters shows, of the connection of new tensors, when all that was sent is done. Connects to nothing."""
  if _default is None or _default.closed: return {"client": None, "kernels_run": 0, "run_us": 0.0}
  _default.sync()
  s = _default.stats()
  kernels = sum(s[f"kernels_{where}"] for where in ("compiled", "disk", "cluster", "shared", "memory"))
  return {"client": _default, "kernels_run": kernels, "run_us": s["run_us"]}


def buffer_bytes() -> dict[str, int]:
  """The bytes of the tensors of the connection of new tensors that are with the daemon, by device. Connects to nothing."""
  if _default is None or _default.closed: return {}
  out: dict[str, int] = {}
  for name, n in _default.buffer_bytes().items():
    name = str(device_name(name or _default.devices[0]))
    out[name] = out.get(name, 0) + n
  return out


def set_seed(seed: int) -> None:
  """Begins the random stream of a seed, in the connection of new tensors and in later ones."""
  global _seed
  with _lock:
    _seed = seed % 2**64
    if _default is not None: _default.set_seed(_seed)


class Context(ContextDecorator):
  """Other settings for the requests of a scope. They belong to requests: a tensor that is made in the scope and realised
  after it is computed without them.

  >>> from uopd import Tensor, Context
  >>> with Context(NOOPT=1): (Tensor([1, 2]) + 1).realize().tolist()
  [2, 3]

  BEAM, DEBUG, NOOPT, CACHELEVEL, IGNORE_BEAM_CACHE, ALLOW_F16, ALLOW_BF16, ALLOW_TF32, FAST_MATH, REPRODUCIBLE: see docs/client.md.
  TRAINING is Tensor.training. PROGRESS: 0 or 1, whether long waits are shown (docs/python.md). DEFAULT_FLOAT and DEFAULT_INT: those of
  dtypes. DEV: the device of new tensors. JIT=0: functions under TinyJit are called each time. All other settings of tinygrad are accepted and change nothing. Also a decorator.
  A scope is one of the thread that enters it: other threads see nothing of it. DEFAULT_FLOAT, DEFAULT_INT, DEV and JIT are those of the process.
  """
  __slots__ = ("_changes", "_training", "_progress", "_own", "_owned", "_all", "_held")

  def __init__(self, **changes: Any) -> None:
    from . import context_var
    from .settings import Changes
    self._all = dict(changes)
    self._held: list[Any] = []
    for name in [n for n in changes if context_var.is_own(n) and n not in context_var.OF_THE_DAEMON and n not in ("TRAINING", "JIT")]: del changes[name]
    self._training = changes.pop("TRAINING", None)
    self._progress = changes.pop("PROGRESS", None)
    self._own = Changes(changes)
    self._changes = changes
    self._owned: list[Any] = []

  def __enter__(self) -> None:
    own = self._own.enter()
    try:
      if self._changes: _settings.push(client().enter(self._changes))
    except BaseException:
      self._own.leave(own)
      raise
    self._owned.append(own)
    from . import context_var
    self._held.append(context_var.enter(self._all))
    if self._training is not None: scopes.training.push(bool(self._training))
    if self._progress is not None: scopes.progress.push(self._progress)
  def __exit__(self, *args: object) -> None:
    if self._progress is not None: scopes.progress.pop()
    if self._training is not None: scopes.training.pop()
    from . import context_var
    context_var.leave(self._held.pop())
    if self._changes: _settings.pop().end()
    self._own.leave(self._owned.pop())


def is_disk(device: Any) -> bool:
  """True for a file as a device: disk: and its path."""
  return isinstance(device, str) and device[:5].upper() == "DISK:"


def device_name(device: Any) -> Any:
  """The name that tensors show for a device, or for each of several ones: "cpu:0" is "CPU"."""
  if isinstance(device, (list, tuple)): return tuple(device_name(d) for d in device)
  if is_disk(device): return "DISK:" + device[5:]
  driver, colon, index = device.partition(":")
  return driver.upper() + (colon + index if index not in ("", "0") else "")


new_device: str | None = None  # of new tensors, in a Context(DEV=...)


def set_new_device(device: str | None) -> None:
  """The device of new tensors; None or "": the default one."""
  global new_device
  name = device_name(device) if device else None
  if name is not None and name not in Device.devices: raise ValueError(f"the daemon has no device {device}: {', '.join(Device.devices)}")
  new_device = name


jit = True  # whether TinyJit records and replays, in a Context(JIT=...)


def set_jit(on: Any) -> None:
  """0: functions under TinyJit are called each time."""
  global jit
  jit = bool(on)


class DaemonDevice:
  """One device of the daemon.

  >>> from uopd import Device
  >>> Device[Device.DEFAULT].synchronize()
  """
  def __init__(self, name: str) -> None: self.device = name
  def synchronize(self) -> None:
    """Waits until everything that was sent is done, on all devices."""
    sync()
  def count(self) -> int:
    """How many devices of this kind the daemon has."""
    return sum(d.partition(":")[0] == self.device.partition(":")[0] for d in Device.devices)
  def __repr__(self) -> str: return f"<device {self.device}>"


class _Device:
  """The devices of the daemon. The first one of a kind has its name alone: "CPU" and "CPU:0" are the same device.
  Device[name] is a DaemonDevice.

  >>> from uopd import Device
  >>> Device.DEFAULT in Device.devices
  True
  """
  @property
  def DEFAULT(self) -> str:
    """The device of new tensors."""
    return new_device or str(device_name(client().devices[0]))
  @property
  def devices(self) -> list[str]:
    """All devices."""
    return [device_name(d) for d in client().devices]
  def get_available_devices(self) -> list[str]:
    """The same."""
    return self.devices
  def canonicalize(self, device: str | None) -> str:
    """The name that tensors show for a device; that of the default one for None.

    >>> Device.canonicalize("cpu:0"), Device.canonicalize("CPU:1")
    ('CPU', 'CPU:1')
    """
    return self.DEFAULT if device is None else str(device_name(device))
  @property
  def default(self) -> DaemonDevice:
    """The device of new tensors."""
    return self[self.DEFAULT]
  def __getitem__(self, device: str) -> DaemonDevice:
    name = self.canonicalize(device)
    if name not in self.devices: raise KeyError(f"the daemon has no device {device}: {', '.join(self.devices)}")
    return DaemonDevice(name)


Device = _Device()


def _after_fork_in_child() -> None:
  global _default, _lock
  _core.after_fork_in_child()
  _lock = threading.RLock()
  _default = None
  progress._owner = None


os.register_at_fork(before=_core.before_fork, after_in_parent=_core.after_fork_in_parent, after_in_child=_after_fork_in_child)
atexit.register(close)
