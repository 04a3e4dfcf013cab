# SPDX-License-Identifier: MIT
"""Memory of a client and of its daemon over very many steps: replays of a TinyJit, and graphs that are built, read and dropped.

  UOPD_DAEMON=build/release/bin/uopd build/python-venv/bin/python tests/python/memory.py --replays 1000000 --builds 100000
"""
import argparse
import time

import numpy as np


def replays(n, report):
  from uopd import Tensor, TinyJit
  total = Tensor.zeros(8).contiguous().realize()

  @TinyJit
  def step(x):
    total.assign(total + x)
    return (total * 2).sum().realize(total)
  x = np.ones(8, np.float32)
  for i in range(n):
    out = step(Tensor(x) if i % 10 == 0 else total)   # an upload, or a tensor that the step writes
    if i % 100 == 99:
      if not np.isfinite(out.item()): total.assign(Tensor.zeros(8)).realize()
    report(i)


def builds(n, report):
  from uopd import Tensor
  w = Tensor(np.full((4, 4), 0.5, np.float32), requires_grad=True)
  for i in range(n):
    x = Tensor(np.full((2, 4), i % 7, np.float32))
    loss = ((x @ w).relu().sum() * (i % 3)).backward()
    assert loss.item() == 16 * (i % 7) * (i % 3), (i, loss.item())
    assert i % 50 or np.all(w.grad.numpy() == 2.0 * (i % 7) * (i % 3))
    w.grad = None
    report(i)


def run(work, n):
  """(share of the steps, MiB of the client, MiB of the daemon, seconds) at 1 %, 10 %, and each further tenth."""
  import uopd
  from a_daemon import ADaemon, resident
  points = {max(1, n // 100) - 1, *(n * k // 10 - 1 for k in range(1, 11))}
  with ADaemon() as daemon:
    uopd.connect(daemon.address)
    seen, begin = [], time.perf_counter()

    def report(i):
      if i in points: seen.append(((i + 1) / n, resident(), daemon.rss(), time.perf_counter() - begin))
    work(n, report)
    uopd.close()
  return seen


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--replays", type=int, default=1_000_000)
  parser.add_argument("--builds", type=int, default=100_000)
  args = parser.parse_args()
  for name, work, n in (("replays", replays, args.replays), ("builds", builds, args.builds)):
    for share, client, daemon, seconds in run(work, n):
      print(f"{name} {100 * share:4.0f} % of {n}: client {client:.1f} MiB, daemon {daemon:.1f} MiB, {seconds:.0f} s", flush=True)


if __name__ == "__main__": main()
