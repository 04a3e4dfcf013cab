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
  token: sent with every call, see docs/operations.md. Also UOPD_TOKEN.
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
  TRAINING is Tensor.training. PROGRESS: 0 or 1, whether long waits are shown (docs/python.md). Also a decorator.
  A scope is one of the thread that enters it: other threads see nothing of it.
  """
  __slots__ = ("_changes", "_training", "_progress")

  def __init__(self, **changes: int) -> None:
    self._training = changes.pop("TRAINING", None)
    self._progress = changes.pop("PROGRESS", None)
    self._changes = changes

  def __enter__(self) -> None:
    if self._changes: _settings.push(client().enter(self._changes))
    if self._training is not None: scopes.training.push(bool(self._training))
    if self._progress is not None: scopes.progress.push(self._progress)
  def __exit__(self, *args: object) -> None:
    if self._progress is not None: scopes.progress.pop()
    if self._training is not None: scopes.training.pop()
    if self._changes: _settings.pop().end()


class _Device:
  """The devices of the daemon.

  >>> from uopd import Device
  >>> Device.DEFAULT in Device.devices
  True
  """
  @property
  def DEFAULT(self) -> str:
    """The device of new tensors."""
    return client().devices[0]
  @property
  def devices(self) -> list[str]:
    """All devices."""
    return client().devices
  def get_available_devices(self) -> list[str]:
    """The same."""
    return self.devices
  def canonicalize(self, device: str | None) -> str:
    """The name of a device; of the default one for None."""
    return self.DEFAULT if device is None else device


Device = _Device()


def _after_fork_in_child() -> None:
  global _default, _lock
  _core.after_fork_in_child()
  _lock = threading.RLock()
  _default = None
  progress._owner = None


os.register_at_fork(before=_core.before_fork, after_in_parent=_core.after_fork_in_parent, after_in_child=_after_fork_in_child)
atexit.register(close)
