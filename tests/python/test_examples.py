# SPDX-License-Identifier: MIT
"""The examples of client/examples/python, each with --short; their results are checked."""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "client/examples/python"
DATA = "/usr/share/datasets/fashion-mnist"  # Debian's dataset-fashion-mnist


def example(name):
  spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module.main


def test_all_are_tested():
  names = {p.stem for p in FOLDER.glob("*.py")}
  assert names == {"fashion_mnist", "char_transformer", "kmeans", "mandelbrot", "remote_matmul", "data_parallel", "tune_model"}
  for p in FOLDER.glob("*.py"): assert f"client/examples/python/{p.name}" in p.read_text(), "the docstring has the command"


def test_fashion_mnist_learns():
  assert os.path.isdir(DATA), "deploy/install-deps --tests installs the data"
  result = example("fashion_mnist")(["--short", "--data", DATA])
  assert result["accuracy"] > 0.75
  assert np.mean(result["losses"][-20:]) < 0.5 * np.mean(result["losses"][:5])


def test_char_transformer_learns_and_writes():
  result = example("char_transformer")(["--short"])
  # 4.4 is the loss of equal chances, about 3 that of the frequencies of the characters alone.
  assert result["losses"][0] > 4 and np.mean(result["losses"][-10:]) < 2.7
  assert len(result["text"]) == 40 and len(set(result["text"])) > 5 and set(result["text"]) <= set(result["characters"])


def test_kmeans_finds_the_clusters_that_were_made():
  result = example("kmeans")(["--short"])
  costs = result["costs"]
  assert result["error"] < 0.2
  assert all(b <= a * 1.0001 for a, b in zip(costs, costs[1:])) and 2.8 < costs[-1] < 3.2  # three axes with variance 1


def test_mandelbrot_equals_numpy(tmp_path):
  result = example("mandelbrot")(["--short", "--out", str(tmp_path / "m.pgm")])
  c = result["x"].astype(np.float64) + 1j * result["y"].astype(np.float64)
  z, counts = np.zeros_like(c), np.zeros(c.shape, int)
  for _ in range(result["steps"]):
    inside = z.real**2 + z.imag**2 <= 4
    counts += inside
    z = np.where(inside, z * z + c, z)
  # Points at the edge of chaos differ by rounding to f32.
  assert (counts != result["counts"]).mean() < 0.005 and len(np.unique(counts)) > 15
  image = (tmp_path / "m.pgm").read_bytes()
  assert image.startswith(b"P5 90 60 255\n") and len(image) == 13 + 90 * 60
  assert image[13 + 30 * 90 + 60] == 0  # inside of the set


def test_remote_matmul_multiplies():
  result = example("remote_matmul")(["--short"])
  assert result["error"] < 1e-5 and min(result.values()) > 0


def test_tune_model_tunes_and_computes_the_same():
  result = example("tune_model")(["--short"])
  assert result["states"] == ["done"] and result["kernels"]
  # A daemon that has tuned them before finds the winners.
  tuned = [k for k in result["kernels"] if k.state in ("tuned", "found")]
  assert tuned and all(k.measured >= 1 and k.best_seconds <= k.heuristic_seconds for k in tuned)
  np.testing.assert_allclose(result["got"], result["expected"], rtol=1e-4, atol=1e-6)


def test_data_parallel_is_training_on_one_device():
  code = f"""
import importlib.util, json
spec = importlib.util.spec_from_file_location("data_parallel", {str(FOLDER / "data_parallel.py")!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(json.dumps(module.main(["--short"])))
"""
  environment = {k: v for k, v in os.environ.items() if k != "UOPD_ADDRESS"} | {"UOPD_DEVICE_LIST": "CPU:0,CPU:1"}
  r = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment)
  assert r.returncode == 0, r.stderr
  result = json.loads(r.stdout.splitlines()[-1])
  assert result["losses"][-1] < 0.95 * result["losses"][0] and result["apart"] < 1e-5
  np.testing.assert_allclose(result["losses"], result["one_losses"], rtol=1e-4)


def test_notebook_runs(tmp_path, monkeypatch):
  import nbformat
  from nbclient import NotebookClient
  monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
  notebook = nbformat.read(FOLDER / "tour.ipynb", as_version=4)
  nbformat.validate(notebook)
  assert all(not c.get("outputs") for c in notebook.cells), "the notebook is kept without outputs"
  NotebookClient(notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
  shown = [o.get("text", "") or o["data"]["text/plain"] for c in notebook.cells for o in c.get("outputs", [])]
  assert any("Tensor (2, 3)" in s for s in shown), shown
  assert any(float(s.split("slope ")[1].split()[0]) == pytest.approx(3.0, abs=0.05) for s in shown if "slope " in s), shown
