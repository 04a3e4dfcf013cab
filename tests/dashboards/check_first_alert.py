#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs the commands of docs/monitoring.md, "From nothing to the first alert", as they stand there.

  check_first_alert.py SOURCE_FOLDER BUILD_FOLDER

What differs: packages are looked for and not installed, ports are free ones, and the times of the rules are seconds.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from services import free_address

ROOT, BUILD = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
LIMIT_S = 120
SHORTEN = "sed -i 's/for: 2m/for: 2s/' try/share/uopd/prometheus/alert_rules.yml && sed -i 's/15s/1s/' try/share/uopd/prometheus/prometheus.yml\n"


def commands():
  """The blocks of the section, as one script of bash."""
  page = (ROOT / "docs/monitoring.md").read_text()
  section = page[page.index("<!-- commands: first alert -->"):]
  section = section[:section.index("<!-- end -->")]
  blocks = re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
  assert len(blocks) == 3, f"{len(blocks)} blocks of commands"
  script = SHORTEN.join(blocks[:2]) + blocks[2]
  script, installs = re.subn(r"^apt-get install -y (.*)$", r"dpkg-query -W \1", script, flags=re.MULTILINE)
  assert installs == 1
  ports = {port: free_address() for port in re.findall(r"127\.0\.0\.1:(\d+)", script)}
  ports |= {"50510": free_address()}
  for port, address in ports.items(): script = script.replace(f"127.0.0.1:{port}", address)
  # The defaults, which the commands do not name.
  script = script.replace("try/bin/uopd ", f"try/bin/uopd --listen={ports['50510']} --http-listen={ports['50511']} ")
  script = script.replace("try/bin/uopctl ", f"try/bin/uopctl --address {ports['50510']} ")
  config = " -e ".join(f"s/127.0.0.1:{port}/{address}/" for port, address in ports.items())
  return "set -euo pipefail\n" + script.replace(SHORTEN, f"{SHORTEN}sed -i -e {config} try/share/uopd/prometheus/prometheus.yml\n")


def main():
  with tempfile.TemporaryDirectory(prefix="uopd-first-alert-") as folder:
    path = pathlib.Path(folder)
    (path / "build").mkdir()
    (path / "build/release").symlink_to(BUILD)
    for name in ("docs", "deploy"): (path / name).symlink_to(ROOT / name)
    script = commands()
    log = path / "commands.log"
    # Job control gives %1; all processes are one session, which ends below.
    with open(log, "w") as out:
      process = subprocess.Popen(["bash", "-m", "-x", "-c", script], cwd=path, stdout=out, stderr=out, start_new_session=True)
    try: process.wait(LIMIT_S)
    except subprocess.TimeoutExpired: pass  # its status says so
    finally:
      for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try: text = stat.read_text()
        except OSError: continue
        if int(text[text.rfind(")") + 2:].split()[3]) == process.pid: os.kill(int(stat.parent.name), signal.SIGKILL)
    text = log.read_text()
    if process.returncode != 0: sys.exit(f"{text}\nexit status {process.returncode}; none: the commands took over {LIMIT_S} s")
    print(text[-300:])


if __name__ == "__main__": main()
