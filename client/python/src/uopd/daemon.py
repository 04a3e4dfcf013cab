# SPDX-License-Identifier: MIT
"""A daemon that belongs to this process: started when no address is given, ended with the process."""
from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import threading
import time

START_LIMIT_S = 60
STARTS_LIMIT, STARTS_S = 5, 60
HOW = "docs/getting_started.md of uopd's repository says how to build it"


class OwnDaemon:
  """A uopd process on a Unix socket in a temporary folder.

  It ends with this process, however that ends, and with nothing else: neither with the thread that started it, nor later because
  a child of fork() lives on. If it ends by itself or is killed, another one is started at the same address; the connection then
  opens another session by itself; calls before the program serves may fail. After STARTS_LIMIT starts within STARTS_S seconds the next one waits for connect().
  """

  def __init__(self, program: str) -> None:
    self._program = program
    self.folder = tempfile.mkdtemp(prefix="uopd-")
    self._log_path = os.path.join(self.folder, "log")
    self._owner = os.getpid()
    self._lock = threading.Lock()  # held while the program is started or ended
    self._stopped = False
    self._starts: list[float] = []
    self._process: subprocess.Popen[bytes]
    self.address = self._start()
    threading.Thread(target=self._watch, name="uopd-daemon", daemon=True).start()

  def _start(self) -> str:
    """Starts the program, and waits until it serves. Returns its address."""
    ready, socket = os.path.join(self.folder, "ready.json"), os.path.join(self.folder, "socket")
    for path in (ready, socket):  # of one that has ended
      with contextlib.suppress(FileNotFoundError): os.unlink(path)
    self._starts.append(time.monotonic())
    arguments = [self._program, f"--listen=unix:{socket}", "--http-listen=", f"--ready-file={ready}", f"--log-file={self._log_path}"]
    lifetime = os.pidfd_open(self._owner)  # can be read once the process has ended, with all of its threads
    try:
      self._process = subprocess.Popen([*arguments, f"--server-owner-fd={lifetime}"], stdin=subprocess.DEVNULL, pass_fds=(lifetime,),
                                       start_new_session=True)
    except OSError as e:
      shutil.rmtree(self.folder, ignore_errors=True)
      raise ConnectionError(f"the daemon {self._program} cannot be started: {e.strerror}. UOPD_DAEMON names another program; {HOW}") from None
    finally: os.close(lifetime)
    limit = time.monotonic() + START_LIMIT_S
    while True:
      try:
        with open(ready) as file: text = file.read()
      except FileNotFoundError: text = ""
      if text.endswith("\n"): break
      if self._process.poll() is not None or time.monotonic() > limit:
        log = self._log()
        self._end()
        raise ConnectionError(f"{self._program} does not serve; the end of its log:\n{log}")
      time.sleep(0.002)
    address: str = json.loads(text)["listen"]
    return address

  def _watch(self) -> None:
    """In a thread of its own: starts the program again when it has ended."""
    while not self._stopped:
      self._wait()
      with self._lock:
        recent = [t for t in self._starts if t > time.monotonic() - STARTS_S]
        if self._stopped or len(recent) >= STARTS_LIMIT: return
        try:
          if self._process.poll() is not None: self._start()
        except ConnectionError: return  # connect() says why

  def _wait(self) -> None:
    """Waits until the program has ended. Leaves its exit status to others."""
    try: end = os.pidfd_open(self._process.pid)
    except ProcessLookupError: return  # another thread has its status, or gets it now
    try:
      over = select.poll()
      over.register(end, select.POLLIN)
      over.poll()
    finally: os.close(end)

  def _log(self) -> str:
    try:
      with open(self._log_path) as file: return file.read()[-4000:]
    except OSError: return ""

  def _end(self) -> None:
    self._stopped = True
    if self._process.poll() is None:
      self._process.terminate()
      try: self._process.wait(5)
      except subprocess.TimeoutExpired:
        self._process.kill()
        self._process.wait()
    shutil.rmtree(self.folder, ignore_errors=True)

  def ended(self) -> bool:
    """True if the daemon has ended and none was started again, as far as the process that started it can tell."""
    if os.getpid() != self._owner: return False
    with self._lock: return self._process.poll() is not None

  def stop(self) -> None:
    """Ends the daemon and removes its folder. Only in the process that started it."""
    if os.getpid() != self._owner: return
    with self._lock: self._end()


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
