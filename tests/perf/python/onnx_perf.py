# SPDX-License-Identifier: MIT
"""Models of ONNX files that people have, beside ONNX Runtime: results and times.

  deploy/install-deps --peers
  UOPD_DAEMON=build/release/bin/uopd build/python-venv/bin/python tests/perf/python/onnx_perf.py [--seconds 10] [PART OF A NAME...]

Both sides have two threads and take turns in one process. A call of uopd is OnnxRunner under a TinyJit, from the arrays of the inputs to the arrays of
the outputs. The first half of the time warms up both, and times are lower quartiles of the second half. Then the model runs with other sizes; what the
daemon compiled for them is counted. It ends with 1 if the text that is read from a page differs, or if a result differs by more than 1e-3 and is not
nearer than that of ONNX Runtime to what doubles give.
"""
import argparse
import math
import os
import statistics
import sys
import time

import numpy as np
from onnx_doubles import results_in_doubles
from onnx_models import FOLDER, OCR, models, page, read_page, session

import uopd
from uopd import Tensor, TinyJit
from uopd.onnx import OnnxRunner

MOST_DIFFERENCE = 1e-3
REST_S = 0.004  # threads of ONNX Runtime that wait for work use a processor for a while; then it is our turn


def apart(ours, theirs):
  """The largest difference of two lists of arrays."""
  return max((float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max(initial=0)) for a, b in zip(ours, theirs)), default=0.0)


def differences(ours, theirs):
  """As apart(). Infinite: they have other shapes or dtypes."""
  return apart(ours, theirs) if [(a.shape, a.dtype) for a in ours] == [(a.shape, a.dtype) for a in theirs] else math.inf


class Ours:
  """A model on the daemon, as a function of arrays. Each set of sizes has a recording of its own."""
  def __init__(self, path):
    self.runner, self.steps = OnnxRunner(path), {}
  def __call__(self, inputs):
    numbers = {name: x for name, x in inputs.items() if x.ndim == 0}
    sizes = tuple(x.shape for x in inputs.values())
    if sizes not in self.steps:
      def step(**tensors):
        out = self.runner({**tensors, **numbers})
        Tensor.realize(*out.values())
        return out
      self.steps[sizes] = TinyJit(step)
    out = self.steps[sizes](**{name: Tensor(x) for name, x in inputs.items() if x.ndim != 0})
    return [t.numpy() for t in out.values()]


def compiled(): return uopd.stats()["kernels_compiled"]


def measure(model, seconds):
  """Milliseconds of both sides, the largest difference, and the kernels that other sizes compiled."""
  ours, peer = Ours(model.path), session(model.path)
  names = list(ours.runner.graph_outputs)
  def theirs(inputs): return peer.run(names, inputs)
  # The last calls are replays of the recording.
  difference = max(differences(ours(model.first), theirs(model.first)) for _ in range(4))
  times: tuple[list[float], list[float]] = ([], [])
  begin = time.monotonic()
  while time.monotonic() < begin + seconds or len(times[0]) < 8:
    for run, taken in zip((ours, theirs), times):
      time.sleep(REST_S)
      start = time.perf_counter()
      run(model.first)
      taken.append(1e3 * (time.perf_counter() - start))
  difference = max(difference, differences(ours(model.first), theirs(model.first)))  # the kernels are tuned now
  before = compiled()
  difference = max(difference, differences(ours(model.second), theirs(model.second)))
  return *(statistics.quantiles(t[len(t) // 2:], n=4)[0] for t in times), difference, compiled() - before


def is_nearer(model):
  """Whether our results are nearer than those of ONNX Runtime to those in doubles."""
  ours = Ours(model.path)
  exact, names = results_in_doubles(model.path, model.first), list(ours.runner.graph_outputs)
  mine, other = apart(ours(model.first), exact), apart(session(model.path).run(names, model.first), exact)
  print(f"  from what doubles give: uopd {mine:.1e}, ONNX Runtime {other:.1e}", flush=True)
  return mine < other


def same_text():
  """Whether RapidOCR reads the same from a page with its three models in uopd, and reads something."""
  image = page(960, 736)
  theirs = read_page(image, {})
  runs = {}
  for name, part in (("det", "v4_det"), ("cls", "v2.0_cls"), ("rec", "v4_rec")):
    (path,) = (FOLDER / OCR).glob(f"*{part}_infer.onnx")
    runs[name] = lambda x, _, run=OnnxRunner(path): [t.numpy() for t in run({"x": x}).values()]
  ours = read_page(image, runs)
  print(f"text of a page: {len(ours)} lines, {'equal' if ours == theirs else f'{ours} instead of {theirs}'}", flush=True)
  return ours == theirs and len(ours) > 0


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("names", nargs="*", metavar="NAME", help="models whose names have one of these parts; default: all, and the text of a page")
  parser.add_argument("--seconds", type=float, default=10, help="for each model")
  args = parser.parse_args()
  os.environ.setdefault("UOPD_ADDRESS", "")
  ratios, right = [], True
  print(f"{'model':34} {'uopd':>10} {'ONNX Runtime':>15} {'speed':>6} {'difference':>11} {'compiled for a second size':>28}")
  for model in models():
    if args.names and not any(n in model.name for n in args.names): continue
    ours, theirs, difference, kernels = measure(model, args.seconds)
    ratios.append(theirs / ours)
    print(f"{model.name:34} {ours:7.2f} ms {theirs:12.2f} ms {theirs / ours:6.2f} {difference:11.1e} {kernels:28}", flush=True)
    if difference > MOST_DIFFERENCE: right = math.isfinite(difference) and is_nearer(model) and right
  if ratios: print(f"geometric mean of the speeds: {statistics.geometric_mean(ratios):.2f}")
  if not args.names: right = same_text() and right
  return 0 if right else 1


if __name__ == "__main__": sys.exit(main())
