# SPDX-License-Identifier: MIT
"""Tests of values on devices other than the CPU: interpreted GPUs, which find races and accesses outside of buffers, and OpenCL on PoCL. The whole
suite runs on a device with UOPD_DEVICE_LIST=INTERP:0 in its environment; here are short parts of it, each in a process with a daemon of its own."""
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import uopd
from a_daemon import ADaemon
from a_device import of_device

HERE = pathlib.Path(__file__).parent
PARTS = {
  "INTERP:0": ["test_views.py", "test_no_axes.py", "test_optim.py", "test_jit.py"],
  "INTERP:1": ["test_kinks.py", "test_no_axes.py", "test_nn.py"],
  "INTERP:2": ["test_kinks.py", "test_views.py::test_random_programs_agree_with_numpy", "test_symbolic.py"],
  "CL:0": ["test_views.py::test_assignments_to_views", "test_no_axes.py::test_reductions_over_no_axes",
           "test_sorting.py::test_computed_values_are_sorted_once", f"{pathlib.Path(__file__).name}::test_very_long_sums"],
}


def environment(device, folder):
  return {**os.environ, "UOPD_DEVICE_LIST": device, "UOPD_ADDRESS": "", "POCL_DEVICES": "pthread pthread", "POCL_CACHE_DIR": str(folder)}


@pytest.mark.parametrize("device", PARTS)
def test_parts_of_the_suite(device, tmp_path):
  if device == "CL:0" and not opencl(tmp_path): pytest.skip("this machine has no OpenCL device; PoCL (pocl-opencl-icd) offers one")
  tests = [str(HERE / name) for name in PARTS[device]]
  done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], env=environment(device, tmp_path), cwd=HERE,
                        capture_output=True, text=True)
  assert done.returncode == 0, done.stdout[-6000:]


def test_very_long_sums():
  """Equal terms round in the same direction: the error grows with the number of those that are added to one number in turn."""
  v = np.full(of_device(1_000_000, CL=30_000_000), 0.1, np.float32)
  exact = float(v.astype(np.float64).sum())
  assert abs(uopd.Tensor(v).sum().item() - exact) <= 1e-5 * exact


def opencl(folder):
  if "UOPD_REQUIRE_OPENCL" in os.environ: return True
  found = subprocess.run([sys.executable, "-c", "import uopd; uopd.Tensor([1.0]).realize()"], env=environment("CL:0", folder), capture_output=True)
  return found.returncode == 0


@pytest.fixture(scope="module")
def interpreted():
  before = uopd.runtime._default
  with ADaemon("--device-list=INTERP:0") as daemon:
    uopd.connect(daemon.address)
    yield
    uopd.close()
  uopd.runtime._default = before


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (5, 3), (6, 5), (1, 3), (17, 4)])
def test_a_gate_holds_for_the_padding_of_an_axis(interpreted, shape):
  """The gradient of a diagonal is read where row and column are equal; axes that are rounded up for threads have more of both."""
  x, w = uopd.Tensor(np.zeros(shape, np.float32)), uopd.Tensor(np.arange(1.0, min(shape) + 1, dtype=np.float32))
  want = np.zeros(shape)
  np.fill_diagonal(want[:min(shape), :min(shape)], np.arange(1, min(shape) + 1))
  np.testing.assert_array_equal((x.diagonal() * w).sum().gradient(x)[0].numpy(), want)


def test_long_sums(interpreted):
  """The error of a sum grows with the logarithm of its length, however many threads add it up."""
  rng = np.random.default_rng(1)
  for n in (1000, 30_000):
    v = rng.uniform(0.5, 1.5, n).astype(np.float32)
    exact = float(v.astype(np.float64).sum())
    assert abs(uopd.Tensor(v).sum().item() - exact) <= exact * (np.log2(n) + 4) * 2.0**-24


@pytest.mark.parametrize("shape", [(4, 33, 4), (8, 64, 17)])
def test_groups_of_threads_that_use_the_results_of_others(interpreted, shape):
  """The maximum and the sum of a softmax, its product with a matrix and the place of the largest element are reductions of one kernel."""
  rows, terms, columns = shape
  rng = np.random.default_rng(0)
  a, b = rng.standard_normal((rows, terms)).astype(np.float32), rng.standard_normal((terms, columns)).astype(np.float32)
  e = np.exp(a - a.max(1, keepdims=True))
  want = (e / e.sum(1, keepdims=True) @ b).argmax(1)
  np.testing.assert_array_equal((uopd.Tensor(a).softmax() @ uopd.Tensor(b)).argmax(1).numpy(), want)


def test_a_sum_reads_what_its_kernel_changes(interpreted):
  """Each thread of a sum over points needs the slope, which one of them changes."""
  points = np.linspace(-1, 1, 256, dtype=np.float32).reshape(256, 1)
  slope, offset = uopd.Tensor([[1.0]], requires_grad=True), uopd.Tensor([0.5], requires_grad=True)
  optimizer = uopd.nn.optim.SGD([slope, offset], lr=0.1)
  a, b = 1.0, 0.5
  for _ in range(3):
    optimizer.zero_grad()
    with uopd.Tensor.train():
      (uopd.Tensor(points) @ slope + offset - uopd.Tensor(3 * points + 1)).square().mean().backward()
      optimizer.step()
    off = a * points + b - 3 * points - 1
    a, b = a - 0.1 * float((2 * off * points).mean()), b - 0.1 * float((2 * off).mean())
    np.testing.assert_allclose([slope.item(), offset.item()], [a, b], rtol=1e-5)
