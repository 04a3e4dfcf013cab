# SPDX-License-Identifier: MIT
"""Multiplies matrices on a daemon, and says how fast it computes and how fast numbers go there and back.

  python client/examples/python/remote_matmul.py --address 127.0.0.1:50510 --size 2048
  python client/examples/python/remote_matmul.py --short    # without an address: a daemon of its own
"""
import argparse
import time

import numpy as np
import uopd
from uopd import Tensor, TinyJit


def seconds_of(f, times):
  """The median time of some calls."""
  taken = []
  for _ in range(times):
    begin = time.perf_counter()
    f()
    taken.append(time.perf_counter() - begin)
  return float(np.median(taken))


def main(argv=None):
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--address", help="host:port or unix:PATH")
  parser.add_argument("--token", default="")
  parser.add_argument("--size", type=int, default=1024)
  parser.add_argument("--steps", type=int, default=10, help="repetitions")
  parser.add_argument("--short", action="store_true", help="size 256 and 3 repetitions")
  args = parser.parse_args(argv)
  if args.short: args.size, args.steps = 256, 3
  uopd.connect(args.address, token=args.token)

  rng, n = np.random.default_rng(1), args.size
  a, b = (rng.standard_normal((n, n), dtype=np.float32) for _ in range(2))

  def upload():
    x, y = Tensor(a), Tensor(b)
    (x[0, 0] + y[0, 0]).item()   # numbers are sent when something needs them
    return x, y
  x, y = upload()

  @TinyJit
  def product(x, y): return x @ y
  for _ in range(3): z = product(x, y)
  c = z.numpy()

  def multiply():
    product(x, y)
    uopd.sync()
  compute, up, down = seconds_of(multiply, args.steps), seconds_of(upload, args.steps), seconds_of(z.numpy, args.steps)
  error = float(np.abs(c - a.astype(np.float64) @ b).max() / np.sqrt(n))
  result = {"gflops": 2 * n**3 / compute / 1e9, "up_mb_s": 2 * a.nbytes / up / 1e6, "down_mb_s": c.nbytes / down / 1e6, "error": error}
  print(f"{uopd.client().address}, {uopd.Device.DEFAULT}: {n} x {n} in {1e3 * compute:.2f} ms, {result['gflops']:.1f} GFLOPS; "
        f"up {result['up_mb_s']:.0f} MB/s, down {result['down_mb_s']:.0f} MB/s; largest error {error:.1e} of sqrt(n)")
  return result


if __name__ == "__main__": main()
