# SPDX-License-Identifier: MIT
"""Memory of a client and of its daemon over very many steps: replays of a TinyJit, graphs that are built, read and dropped, and training with and
without reads. Without arguments, a million steps of each.

  UOPD_DAEMON=build/release/bin/uopd build/python-venv/bin/python tests/python/memory.py --training 1000000
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
    # An upload, or a tensor that the step writes. It is recorded with the former: a recording with `total` would take nothing else.
    out = step(Tensor(x) if i % 10 < 2 else total)
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


def forwards(n, report):
  """Graphs without gradients, of which some values are read and others never: histories must not grow."""
  from uopd import Tensor
  w, state = Tensor(np.full((4, 4), 0.25, np.float32)), Tensor.zeros(2, 4).contiguous().realize()
  for i in range(n):
    h = Tensor(np.full((2, 4), i % 5, np.float32)) @ w
    if i % 2: assert h.tolist()[0][0] == i % 5
    y = (h * 2).relu()
    state[i % 2:i % 2 + 1] = y[:1]         # a view of what is never read, but now and then
    if i % 3 == 0: assert y.sum().item() == 16 * (i % 5)
    if i % 7 == 0: state.realize()
    if i % 100 == 0: assert state[i % 2].tolist() == [2.0 * (i % 5)] * 4
    report(i)


def _training(n, report, reads):
  from uopd import Tensor
  w, b = Tensor(np.full((4, 4), 0.5, np.float32), requires_grad=True), Tensor(np.zeros(4, np.float32), requires_grad=True)
  data = [Tensor(np.full((2, 4), k, np.float32)).realize() for k in range(5)]
  for i in range(n):
    h = data[i % 5] @ w + b
    if reads: h.numpy()                    # what is read keeps its graph
    loss = (h.relu() - 1).square().mean()
    if reads: assert np.isfinite(loss.item())
    loss.backward()
    for t in (w, b):
      t.assign((t - 0.01 * t.grad).detach())
      t.grad = None
    Tensor.realize(w, b)
    if i % 1000 == 0: assert np.all(np.isfinite(w.numpy()))
    report(i)


def training(n, report):
  """Steps of training, in which nothing is read."""
  _training(n, report, False)


def training_with_reads(n, report):
  """The same, and the loss and an activation are read before the gradients."""
  _training(n, report, True)


WORKS = {"replays": replays, "builds": builds, "forwards": forwards, "training": training, "training_with_reads": training_with_reads}


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
  for name in WORKS: parser.add_argument(f"--{name}", type=int, default=0, help=f"steps of {name}")
  args = parser.parse_args()
  counts = {name: getattr(args, name) for name in WORKS}
  if not any(counts.values()): counts = {name: 1_000_000 for name in WORKS}
  for name, n in counts.items():
    if not n: continue
    for share, client, daemon, seconds in run(WORKS[name], n):
      print(f"{name} {100 * share:4.0f} % of {n}: client {client:.1f} MiB, daemon {daemon:.1f} MiB, {seconds:.0f} s", flush=True)


if __name__ == "__main__": main()
