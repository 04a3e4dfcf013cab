# SPDX-License-Identifier: MIT
"""Many processes train on one daemon at once. Every result is compared with NumPy's; the slowest may take twice the fastest.

  UOPD_DAEMON=build/release/bin/uopd build/python-venv/bin/python tests/python/many_clients.py --clients 32 --steps 1000
"""
import argparse
import json
import subprocess
import sys
import time

import numpy as np


def reference(weights, batches, lr):
  """The weights after SGD on the mean squared error of tanh(x @ a) @ b, in float64."""
  a, b = (w.astype(np.float64) for w in weights)
  for x, y in batches:
    x = x.astype(np.float64)
    h = np.tanh(x @ a)
    d = 2 * (h @ b - y) / y.size
    a, b = a - lr * x.T @ (d @ b.T * (1 - h * h)), b - lr * h.T @ d
  return a, b


def train(address, seed, steps):
  """One client. It waits for a line on standard input before it trains, and prints a line of JSON."""
  import uopd
  from uopd import Tensor, TinyJit, nn
  uopd.connect(address)
  rng, lr = np.random.default_rng(seed), 0.05
  start = [0.5 * rng.standard_normal(shape).astype(np.float32) for shape in ((16, 64), (64, 4))]
  parameters = [Tensor(w) for w in start]
  optimizer = nn.optim.SGD(parameters, lr=lr)

  @TinyJit
  def step(x, y):
    loss = ((x @ parameters[0]).tanh() @ parameters[1] - y).square().mean().backward()
    optimizer.step()
    return loss.realize()

  batches = [(rng.standard_normal((64, 16)).astype(np.float32), rng.standard_normal((64, 4)).astype(np.float32)) for _ in range(steps)]
  with Tensor.train():
    for x, y in batches[:3]: step(Tensor(x), Tensor(y)).item()
    print("ready", flush=True)
    sys.stdin.readline()
    begin = time.perf_counter()
    for x, y in batches[3:]: loss = step(Tensor(x), Tensor(y)).item()
    seconds = time.perf_counter() - begin
  want = reference(start, batches, lr)
  apart = max(float(np.abs(p.numpy() - w).max()) for p, w in zip(parameters, want))
  moved = max(float(np.abs(s - w).max()) for s, w in zip(start, want))
  print(json.dumps({"seconds": seconds, "apart": apart, "moved": moved, "loss": loss}), flush=True)


def run(clients, steps, *flags):
  from a_daemon import ADaemon
  with ADaemon(*flags) as daemon:
    all = [subprocess.Popen([sys.executable, __file__, "--worker", daemon.address, "--seed", str(i), "--steps", str(steps)],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for i in range(clients)]
    try:
      for p in all: assert p.stdout.readline() == "ready\n", "a client failed"
      for p in all: p.stdin.write("\n"); p.stdin.flush()
      results = [json.loads(p.stdout.readline()) for p in all]
      assert [p.wait(60) for p in all] == [0] * clients
    finally:
      for p in all:
        if p.poll() is None: p.kill()
        p.communicate()
  seconds = [r["seconds"] for r in results]
  return {"fastest": min(seconds), "slowest": max(seconds), "apart": max(r["apart"] for r in results),
          "moved": min(r["moved"] for r in results), "losses": len({r["loss"] for r in results})}


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--clients", type=int, default=32)
  parser.add_argument("--steps", type=int, default=1000)
  parser.add_argument("--worker", help=argparse.SUPPRESS)
  parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
  args = parser.parse_args()
  if args.worker: return train(args.worker, args.seed, args.steps)
  r = run(args.clients, args.steps)
  print(f"{args.clients} clients, {args.steps} steps each: fastest {r['fastest']:.2f} s, slowest {r['slowest']:.2f} s, ratio "
        f"{r['slowest'] / r['fastest']:.2f}; weights differ from NumPy's by at most {r['apart']:.1e}, and moved by at least {r['moved']:.2f}")


if __name__ == "__main__": main()
