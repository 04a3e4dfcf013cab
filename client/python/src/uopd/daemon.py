# SPDX-License-Identifier: MIT
"""A daemon that belongs to this process: started when no address is given, ended with the process."""
from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import tempfile
import time

START_LIMIT_S = 60
HOW = "docs/getting_started.md of uopd's repository says how to build it."


class OwnDaemon:
  """A uopd process on a Unix socket in a temporary folder.

  It ends with this process, however that ends, and with nothing else: neither with the thread that started it, nor later because
  a child of fork() lives on.
  """

  def __init__(self, program: str) -> None:
    self.folder = tempfile.mkdtemp(prefix="uopd-")
    ready = os.path.join(self.folder, "ready.json")
    self._log_path = os.path.join(self.folder, "log")
    arguments = [program, f"--listen=unix:{self.folder}/socket", "--http-listen=", f"--ready-file={ready}",
                 f"--log-file={self._log_path}"]
    self._owner = os.getpid()
    lifetime = os.pidfd_open(self._owner)  # can be read once the process has ended, with all of its threads
    try:
      self._process = subprocess.Popen([*arguments, f"--server-owner-fd={lifetime}"], stdin=subprocess.DEVNULL, pass_fds=(lifetime,),
                                       start_new_session=True)
    except OSError as e:
      shutil.rmtree(self.folder, ignore_errors=True)
      raise ConnectionError(f"the daemon {program} cannot be started: {e.strerror}. UOPD_DAEMON names another program; {HOW}") from None
    finally: os.close(lifetime)
    limit = time.monotonic() + START_LIMIT_S
    while True:
      try:
        with open(ready) as file: text = file.read()
      except FileNotFoundError: text = ""
      if text.endswith("\n"): break
      if self._process.poll() is not None or time.monotonic() > limit:
        log = self._log()
        self.stop()
        raise ConnectionError(f"{program} does not serve; the end of its log:\n{log}")
      time.sleep(0.002)
    self.address: str = json.loads(text)["listen"]

  def _log(self) -> str:
    try:
      with open(self._log_path) as file: return file.read()[-4000:]
    except OSError: return ""

  def ended(self) -> bool:
    """True if the daemon has ended, as far as the process that started it can tell."""
    return os.getpid() == self._owner and self._process.poll() is not None

  def stop(self) -> None:
    """Ends the daemon and removes its folder. Only in the process that started it."""
    if os.getpid() != self._owner: return
    if self._process.poll() is None:
      self._process.terminate()
      try: self._process.wait(5)
      except subprocess.TimeoutExpired:
        self._process.kill()
        self._process.wait()
    shutil.rmtree(self.folder, ignore_errors=True)


_own: OwnDaemon | None = None


def own_daemon() -> OwnDaemon:
  """The daemon of this process, which starts at the first call, and again if it has ended. A child after fork() uses that of its parent."""
  global _own
  if _own is not None and _own.ended():
    atexit.unregister(_own.stop)
    _own.stop()
    _own = None
  if _own is None:
    program = os.environ.get("UOPD_DAEMON") or shutil.which("uopd")
    if not program:
      raise ConnectionError(
        "there is no daemon: set UOPD_ADDRESS to the address of one (host:port or unix:PATH), or UOPD_DAEMON to the "
        f"program uopd, or put uopd on PATH; {HOW}")
    from .runtime import close
    _own = OwnDaemon(program)
    atexit.register(_own.stop)
    atexit.unregister(close)  # what is registered last runs first: the connection is closed before the daemon ends
    atexit.register(close)
  return _own
