# SPDX-License-Identifier: MIT
"""One line on standard error that says what a long wait is for: uploads, downloads, compiles, tuning.

It is shown on terminals and in notebooks, half a second after a wait began. UOPD_PROGRESS=0 turns it off, UOPD_PROGRESS=1 shows it
anywhere; `with Context(PROGRESS=0)` does the same for a scope.
"""
from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

from . import _core, scopes

EVERY_S = 0.2
WIDTH = 20
_shown = threading.local()  # .at: when this thread wrote last; .length: of the line that is there
_owner: int | None = None  # the thread whose line is shown


def enabled() -> bool:
  """True if waits are shown."""
  wanted = scopes.progress.get()
  choice = wanted if wanted is not None else os.environ.get("UOPD_PROGRESS", "")
  if choice != "": return str(choice) != "0"
  return sys.stderr is not None and (sys.stderr.isatty() or _in_notebook())


def _in_notebook() -> bool:
  ipython = sys.modules.get("IPython")
  return ipython is not None and type(ipython.get_ipython()).__name__ == "ZMQInteractiveShell"


def _bytes(n: int) -> str: return f"{n / 1e9:.2f} GB" if n >= 1e9 else f"{n / 1e6:.1f} MB"


def _bar(done: int, of: int) -> str:
  full = WIDTH * min(done, of) // max(of, 1)
  return f"[{'#' * full}{' ' * (WIDTH - full)}]"


def line(p: dict[str, Any], seconds: float) -> str:
  """The text for what client.progress() says.

  >>> line({"calls": 3, "programs": 1, "kernels": 8, "kernels_ready": 2}, 1.0)
  'uopd: compiling [#####               ] 2 of 8 kernels, 1.0 s'
  >>> line({"calls": 9, "upload_bytes": 64_000_000, "uploaded_bytes": 32_000_000}, 2.5)
  'uopd: uploading [##########          ] 32.0 MB of 64.0 MB, 2.5 s'
  """
  if p.get("programs") and p["kernels"]:
    what = f"compiling {_bar(p['kernels_ready'], p['kernels'])} {p['kernels_ready']} of {p['kernels']} kernels"
  elif p.get("programs"): what = "scheduling"
  else:
    what = ""
    for name in ("upload", "download"):
      done, of = p.get(f"{name}ed_bytes", 0), p.get(f"{name}_bytes", 0)
      if done < of and not what: what = f"{name}ing {_bar(done, of)} {_bytes(done)} of {_bytes(of)}"
    if not what: what = f"running {p['calls']} call{'s' if p['calls'] != 1 else ''}"
  if p.get("kernels_to_tune"): what += f", tuning: {p['kernels_to_tune']} kernel{'s' if p['kernels_to_tune'] != 1 else ''} left"
  return f"uopd: {what}, {seconds:.1f} s"


def _write(text: str) -> None:
  length = getattr(_shown, "length", 0)
  sys.stderr.write("\r" + text + " " * (length - len(text)) + ("" if text else "\r"))
  sys.stderr.flush()
  _shown.length = len(text)


def _hook(seconds: float | None) -> None:
  """Called by a thread that waits: with the seconds since it began, and with None when it has waited."""
  global _owner
  me = threading.get_ident()
  if seconds is None:
    if _owner != me: return
    _owner = None
    if getattr(_shown, "length", 0): _write("")
    return
  if _owner not in (None, me): return
  now = time.monotonic()
  if _owner == me and now - _shown.at < EVERY_S: return
  from .runtime import _default
  if not enabled() or _default is None: return
  _owner, _shown.at = me, now
  _write(line(_default.progress(), seconds))


_core.set_progress_hook(_hook)
