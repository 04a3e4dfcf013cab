# SPDX-License-Identifier: MIT
"""Types: mypy passes the package and a user's program; the program then runs."""
import pathlib
import subprocess
import sys

import typed_program
from uopd import Tensor

HERE = pathlib.Path(__file__).resolve().parent


def mypy(tmp_path, *arguments):
  # Elsewhere, so that the package is the installed one, with the stubs of its extension module.
  run = subprocess.run([sys.executable, "-m", "mypy", f"--cache-dir={tmp_path}", *arguments], capture_output=True, text=True, cwd=tmp_path)
  assert run.returncode == 0, run.stdout + run.stderr


def test_mypy(tmp_path):
  mypy(tmp_path, f"--config-file={HERE.parents[1]}/client/python/pyproject.toml", "-p", "uopd")
  mypy(tmp_path, "--strict", HERE / "typed_program.py")


def test_the_program_runs():
  losses = typed_program.losses(20)
  assert losses[-1] < losses[0] / 2
  assert typed_program.sum_of_first(Tensor([4, 5, 6]), 2).item() == 9
  y, shape, data = typed_program.mixed(Tensor([3.0, 6.0]))
  [(name, _, pruned)] = typed_program.tuned(Tensor.ones(9, 5).contiguous().realize().sum(1))
  assert name.startswith("r_") and pruned >= 0
  assert y.tolist() == [6.0] and shape == (1,) and data.tolist() == [6.0]
