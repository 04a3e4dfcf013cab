# SPDX-License-Identifier: MIT
"""Settings of Context that are none of the daemon's: defaults of this process, and those of tinygrad that mean nothing here."""
from __future__ import annotations

from typing import Any, Callable

from . import runtime
from .dtype import dtypes, to_dtype

# tinygrad's settings that Context accepts and that change nothing: how its compiler, its devices and its displays work.
WITHOUT_MEANING = frozenset("""
  ALL2ALL ALLOW_DEVICE_USAGE ALLREDUCE_CAST CAPTURE_PROCESS_REPLAY CAPTURING CCACHE CHECK_OOB DEBUG_RANGEIFY DISABLE_FAST_IDIV DISALLOW_BROADCAST
  EMULATED_DTYPES FLOAT16 FUSE_OPTIM HCQ_RUNTIME_DEV IMAGE JIT_BATCH_SIZE LRU MAX_BUFFER_SIZE MAX_KERNEL_BUFFERS NO_COLOR NO_MEMORY_PLANNER NOLOCALS
  NULL_ALLOW_COPYOUT NUM_CPU_THREADS OPENPILOT_HACKS PARALLEL PCONTIG PMA PMC PROFILE REWRITE_STACK_LIMIT RING SCACHE SPEC SPLIT_REDUCEOP SQTT SQTT_ITRACE_SE_MASK
  SQTT_LIMIT_SE SQTT_SIMD_SEL SQTT_TOKEN_EXCLUDE TC TC_OPT TC_SELECT TRACEMETA TRACK_MATCH_STATS TRANSCENDENTAL TUPLE_ORDER USE_ATOMICS VALIDATE_WITH_CPU VIZ WINO
""".split())


def _default_float(value: Any) -> None:
  kind = to_dtype(value)
  if not dtypes.is_float(kind): raise ValueError(f"DEFAULT_FLOAT is a float, not {kind.name}")
  dtypes.default_float = kind
def _default_int(value: Any) -> None:
  kind = to_dtype(value)
  if not dtypes.is_int(kind): raise ValueError(f"DEFAULT_INT is an integer, not {kind.name}")
  dtypes.default_int = kind


# name: (what gives the value now, what sets it). They belong to the process.
_OF_THE_PROCESS: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
  "DEFAULT_FLOAT": (lambda: dtypes.default_float, _default_float), "DEFAULT_INT": (lambda: dtypes.default_int, _default_int),
  "DEV": (lambda: runtime.new_device, runtime.set_new_device), "JIT": (lambda: runtime.jit, runtime.set_jit),
}


class Changes:
  """The settings of a scope that are none of the daemon's."""
  def __init__(self, changes: dict[str, Any]) -> None:
    """Takes its own out of the changes."""
    self._wanted = {name: changes.pop(name) for name in list(changes) if name in _OF_THE_PROCESS}
    for name in [n for n in changes if n in WITHOUT_MEANING]: del changes[name]
  def enter(self) -> list[tuple[Any, Any]]:
    """Makes the changes; what leave() needs."""
    before: list[tuple[Any, Any]] = []
    try:
      for name, value in self._wanted.items():
        now, change = _OF_THE_PROCESS[name]
        before.append((change, now()))
        change(value)
    except BaseException:
      self.leave(before[:-1])
      raise
    return before
  @staticmethod
  def leave(before: list[tuple[Any, Any]]) -> None:
    """Undoes them."""
    for change, value in reversed(before): change(value)
