# SPDX-License-Identifier: MIT
"""A daemon with settings of its own, for tests and scale runs."""
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import urllib.request


class ADaemon:
  """`with ADaemon("--session-ttl-ms=1s") as d:` starts UOPD_DAEMON on free addresses."""
  def __init__(self, *flags):
    self.folder = tempfile.TemporaryDirectory()
    self.flags = [f"--listen=unix:{self.folder.name}/socket", "--http-listen=127.0.0.1:0", f"--data-dir={self.folder.name}/data",
                  f"--ready-file={self.folder.name}/ready.json", f"--log-file={self.folder.name}/log", *flags]
    self.start()

  def start(self):
    ready = os.path.join(self.folder.name, "ready.json")
    if os.path.exists(ready): os.remove(ready)
    self.process = subprocess.Popen([os.environ["UOPD_DAEMON"], *self.flags])
    limit = time.monotonic() + 60
    while not os.path.exists(ready) or not open(ready).read().endswith("\n"):
      if self.process.poll() is not None or time.monotonic() > limit: raise RuntimeError("the daemon does not start")
      time.sleep(0.01)
    self.ready = json.load(open(ready))
    self.address = self.ready["listen"]

  def restart(self, how=signal.SIGKILL):
    """Ends the daemon by a signal and starts another one at the same address."""
    self.process.send_signal(how)
    self.process.wait(60)
    self.flags.append(f"--listen={self.address}")
    self.start()

  def metrics(self):
    """Every sample of /metrics: its name with labels, and its value."""
    with urllib.request.urlopen(f"http://{self.ready['http']}/metrics", timeout=10) as answer: text = answer.read().decode()
    return {name: float(value) for name, value in re.findall(r"^(uopd_\S+) (\S+)$", text, re.MULTILINE)}

  def rss(self):
    """Resident memory in MiB."""
    return resident(self.ready["pid"])

  def __enter__(self): return self
  def __exit__(self, *args):
    self.process.terminate()
    self.process.wait(60)
    self.folder.cleanup()


def resident(pid="self"):
  with open(f"/proc/{pid}/statm") as file: return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
