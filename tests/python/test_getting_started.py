# SPDX-License-Identifier: MIT
"""The programs of docs/getting_started.md, with fewer steps."""
import pathlib
import re
import subprocess
import sys

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "getting_started.md").read_text()
TRAIN, SETTINGS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)


def run(code, tmp_path):
  (tmp_path / "program.py").write_text(code)
  done = subprocess.run([sys.executable, tmp_path / "program.py"], capture_output=True, text=True, timeout=120)
  assert done.returncode == 0, done.stderr
  return done


def test_training(tmp_path):
  short = TRAIN.replace("STEPS = 1500", "STEPS = 251")
  assert short != TRAIN
  lines = run(short, tmp_path).stdout.splitlines()
  first, last = (float(line.split()[-1]) for line in lines[:2])
  assert first > 2 and last < 1
  assert 70 < float(lines[-1].split("%")[0]) <= 100


def test_settings(tmp_path):
  assert re.search(r" us", run(SETTINGS, tmp_path).stderr)


def test_the_line_of_the_package(tmp_path):
  [line] = re.findall(r"-c '(.*)'", PAGE)
  assert run(line, tmp_path).stdout == "[2.0, 4.0, 6.0]\n" and "[2.0, 4.0, 6.0]" in PAGE
