# SPDX-License-Identifier: MIT
"""Daemons and the services around them, as the checks of this folder start them."""
import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request


def free_address():
  """A loopback address that was free a moment ago."""
  with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    return f"127.0.0.1:{s.getsockname()[1]}"


def fetch(url, accept=None):
  request = urllib.request.Request(url, headers={"Accept": accept} if accept else {})
  try:
    with urllib.request.urlopen(request, timeout=10) as answer: return answer.read().decode(), answer.headers["Content-Type"]
  except urllib.error.HTTPError as error: return error.read().decode(), None


def eventually(condition, seconds=40):
  """The last value of `condition`, which is called until that is true or the time is over."""
  limit = time.monotonic() + seconds
  while True:
    value = condition()
    if value or time.monotonic() > limit: return value
    time.sleep(0.2)


def matmul(root, n):
  """A product of two matrices (3, n) and (n, 2)."""
  return (root / "docs/examples/matmul.uop").read_text().replace("%1 = CONST<index> {4}", f"%1 = CONST<index> {{{n}}}")


def slow(n, ops=1500):
  """A kernel of so many operations, whose compile takes a while; another one for each n."""
  lines = [f"%0 = CONST<index> {{{n}}}", "%1 = STACK<index> %0", "%2 = PARAM<f32> %1 {0, GLOBAL}", "%3 = PARAM<f32> %1 {1, GLOBAL}"]
  for i in range(4, ops): lines.append(f"%{i} = {'MUL' if i % 2 else 'ADD'}<f32> %{i - 1}, %{2 + i % 3 % 2}")
  return "\n".join(lines + [f"%{ops} = PARAM<f32> %1 {{2, GLOBAL}}", f"%{ops + 1} = STORE %{ops}, %{ops - 1}", f"%{ops + 2} = SINK %{ops + 1}"])


def worker_processes(daemon, name):
  """Pid, state and processor time of each worker process of a daemon with this name."""
  for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
    try: text = stat.read_text()
    except OSError: continue  # it has ended
    found, fields = text[text.find("(") + 1:text.rfind(")")], text[text.rfind(")") + 2:].split()
    if found != name: continue
    parent = int(fields[1])
    if name != "uopd-forks":
      try: parent_stat = pathlib.Path(f"/proc/{parent}/stat").read_text()  # the fork server
      except OSError: continue
      parent = int(parent_stat[parent_stat.rfind(")") + 2:].split()[1])
    if parent == daemon.process.pid: yield int(stat.parent.name), fields[0], int(fields[11]) + int(fields[12])


class Processes:
  """Child processes in a folder; all end with it."""
  def __init__(self):
    self.folder = tempfile.TemporaryDirectory(prefix="uopd-dashboards-")
    self.path = pathlib.Path(self.folder.name)
    self.started = []

  def start(self, name, *command, env=None):
    with open(self.path / f"{name}.log", "a") as log:
      self.started.append(subprocess.Popen(list(command), stdout=log, stderr=log, env={**os.environ, **(env or {})}, cwd=self.path))
    return self.started[-1]

  def end(self):
    for process in self.started: process.terminate()
    for process in self.started:
      try: process.wait(20)
      except subprocess.TimeoutExpired: process.kill()
    self.folder.cleanup()


class Daemon:
  """A daemon with a folder of its own. `http`: the address of its metrics."""
  def __init__(self, processes, uopd, uopctl, name, *flags, env=None, http="127.0.0.1:0"):
    self.processes, self.uopd, self.uopctl, self.name, self.env, self.http = processes, uopd, uopctl, name, env, http
    self.folder = processes.path / name
    self.folder.mkdir()
    self.address = f"unix:{self.folder}/socket"
    self.start(*flags)

  def start(self, *flags):
    """Also after its end: the data folder and the address of the metrics are the same."""
    self.flags = flags
    ready = self.folder / "ready.json"
    ready.unlink(missing_ok=True)
    self.process = self.processes.start(self.name, self.uopd, f"--listen={self.address}", f"--http-listen={self.http}", f"--data-dir={self.folder}/data",
                                        f"--ready-file={ready}", f"--log-file={self.folder}/log", *flags, env=self.env)
    if not eventually(lambda: ready.exists() and ready.read_text().endswith("\n")): raise RuntimeError(f"{self.name} does not start")
    self.http = json.loads(ready.read_text())["http"]

  def kill(self):
    self.process.kill()
    self.process.wait()

  def run(self, graph, *flags, timeout=60):
    with tempfile.NamedTemporaryFile("w", suffix=".uop") as file:
      file.write(graph)
      file.flush()
      return self.control("run", *flags, file.name, timeout=timeout)

  def control(self, *arguments, timeout=60):
    """The exit status of a command of uopctl, and what it wrote."""
    done = subprocess.run([self.uopctl, "--address", self.address, *arguments], capture_output=True, text=True, timeout=timeout)
    return done.returncode, done.stdout + done.stderr

  def metrics(self, accept=None): return fetch(f"http://{self.http}/metrics", accept)

  def value(self, series):
    found = re.search(rf"^{re.escape(series)} (\S+)$", self.metrics()[0], re.MULTILINE)
    return float(found[1]) if found else 0.0
