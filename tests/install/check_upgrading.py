#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs the blocks of commands of docs/upgrading.md as they stand there, with a daemon that has something to lose.

  check_upgrading.py SOURCE_FOLDER UOPD UOPCTL

What differs: the data folder is a temporary one, and functions of the shell stand for `systemctl start`, for the installation, and for the
address of the daemon.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT, UOPD, UOPCTL = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3]
LIMIT_S = 120
KEPT = ("graph", "schedule", "choice", "kernel")


def block(page, title):
  section = page[page.index(f"## {title}\n"):]
  return re.search(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[1]


class Machine:
  def __init__(self, folder):
    self.folder, self.data = folder, folder / "data"
    self.prelude = f"""set -euo pipefail
uopctl() {{ {UOPCTL} --address "$(cat {folder}/address)" "$@"; }}
cmake() {{ [ "$*" = "--install build/release" ]; }}
systemctl() {{
  [ "$*" = "start uopd" ]
  rm -f {folder}/ready
  setsid {UOPD} --data-dir {self.data} --listen 127.0.0.1:0 --http-listen= --ready-file {folder}/ready --device-list CPU \\
    --log-file {folder}/log < /dev/null > /dev/null 2>&1 &
  until [ -s {folder}/ready ]; do sleep 0.05; done
  sed 's/.*"listen":"\\([^"]*\\)".*/\\1/' {folder}/ready > {folder}/address
}}
"""

  def run(self, script):
    script = script.replace("/var/lib/uopd", str(self.data))
    done = subprocess.run(["bash", "-c", self.prelude + script], cwd=self.folder, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode: sys.exit(f"{script}\n{done.stdout}{done.stderr}\nexit status {done.returncode}\n{(self.folder / 'log').read_text()}")
    return done.stdout

  def entries(self):
    """Kinds and keys of what the cache has."""
    data = json.loads(self.run("uopctl --json cache ls --limit 100"))["data"]
    return {(entry["kind"], entry["key"]) for entry in data["entries"] if entry["kind"] in KEPT}

  def prepare(self, n):
    """One program more in the cache: a product of matrices (3, n) and (n, 2). All its rows have been written when this returns."""
    graph = self.folder / f"matmul{n}.uop"
    graph.write_text((ROOT / "docs/examples/matmul.uop").read_text().replace("%1 = CONST<index> {4}", f"%1 = CONST<index> {{{n}}}"))
    before = self.entries()
    self.run(f"uopctl run {graph}")
    limit = time.monotonic() + LIMIT_S
    while {kind for kind, _ in self.entries() - before} != set(KEPT):
      if time.monotonic() > limit: sys.exit(f"the program does not come into the cache: {self.entries() - before}")
      time.sleep(0.1)

  def end(self):
    pid = json.loads((self.folder / "ready").read_text())["pid"] if (self.folder / "ready").exists() else 0
    if pid: os.kill(pid, signal.SIGKILL)


def check(machine):
  page = (ROOT / "docs/upgrading.md").read_text()
  machine.run("systemctl start uopd")
  machine.prepare(4)
  kept = machine.entries()
  machine.run(block(page, "Upgrade"))
  assert machine.entries() == kept, "the upgrade has lost entries"
  machine.prepare(5)
  assert machine.entries() != kept
  machine.run(block(page, "Restore"))
  assert machine.entries() == kept, "what is there is not what the backup had"
  answer = json.loads(machine.run(f"uopctl --json run {machine.folder}/matmul4.uop"))["data"]
  assert answer["kernels_compiled"] == 0, f"a kernel of the backup is compiled again: {answer}"


with tempfile.TemporaryDirectory(prefix="uopd-upgrading-") as name:
  one = Machine(pathlib.Path(name))
  try: check(one)
  finally: one.end()
