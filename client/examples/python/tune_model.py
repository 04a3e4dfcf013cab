# SPDX-License-Identifier: MIT
"""Tunes the kernels of a function, shows how it goes on, and compares its time before and after.

  python3 client/examples/python/tune_model.py [--size 512] [--beam 4] [--budget 60]

The operation is the daemon's: after Ctrl-C it goes on, and `uopctl tune ls` shows it.
"""
import argparse
import statistics
import sys
import time

from uopd import Context, Tensor, TinyJit, nn, tuning


def record(size, beam):
  """A network under TinyJit, recorded with this beam: its replays use the winners of operations with the same one."""
  Tensor.manual_seed(1)
  first, second = nn.Linear(size, size), nn.Linear(size, 10)
  for weights in (first.weight, first.bias, second.weight, second.bias): weights.realize()
  step = TinyJit(lambda x: second(first(x).gelu()).softmax())
  x = Tensor.rand(64, size).realize()
  with Context(BEAM=beam):
    for _ in range(2): step(x)
  return step, x


def milliseconds(step, x, runs):
  """Median time of a replay, its answer included."""
  times = []
  for _ in range(runs):
    begin = time.perf_counter()
    step(x).numpy()
    times.append(time.perf_counter() - begin)
  return 1e3 * statistics.median(times)


def show(progress, file):
  for kernel in (progress.kernels[i] for i in progress.changed):
    if kernel.state == "pending": continue
    best = f"{kernel.best_seconds * 1e6:.1f} us" if kernel.best_seconds else "-"
    print(f"{kernel.name}: {kernel.state}, {kernel.measured} measured, {kernel.failed} failed, {kernel.pruned} pruned, "
          f"{kernel.duplicates} duplicates, best {best}" + (f" ({kernel.speedup:.2f}x)" if kernel.speedup else ""), file=file)


def main(argv=None):
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--size", type=int, default=512)
  parser.add_argument("--beam", type=int, default=4)
  parser.add_argument("--budget", type=float, default=60.0, help="seconds of searches")
  parser.add_argument("--candidates", type=int, help="at most so many of all kernels together")
  parser.add_argument("--short", action="store_true")
  options = parser.parse_args(argv)
  if options.short: options.size, options.beam, options.budget, options.candidates = 32, 2, 20.0, 24
  plain, x = record(options.size, 0)  # without a beam nothing is tuned
  expected, before = plain(x).numpy(), milliseconds(plain, x, 20)
  operations = tuning.start_jit(plain, beam=options.beam, budget=options.budget, candidates=options.candidates, title="tune_model.py")
  for operation in operations:
    print(f"tuning operation {operation.id}", file=sys.stderr)
    for progress in operation.watch(): show(progress, sys.stderr)
    print(f"{progress.tune.state}: {progress.tune.kernels_tuned} of {progress.tune.kernels} kernels tuned, "
          f"{progress.tune.kernels_found} found, {progress.tune.candidates} candidates in {progress.tune.spent_ms / 1e3:.1f} s")
  step, x = record(options.size, options.beam)
  after = milliseconds(step, x, 20)
  print(f"{before:.2f} ms before, {after:.2f} ms after")
  return {"states": [operation.progress().tune.state for operation in operations],
          "kernels": [k for operation in operations for k in operation.progress().kernels],
          "expected": expected, "got": step(x).numpy(), "before_ms": before, "after_ms": after}


if __name__ == "__main__": main()
