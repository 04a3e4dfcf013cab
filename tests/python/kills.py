# SPDX-License-Identifier: MIT
"""Kills clients at any moment of their work; after the lease nothing of them is left on the daemon.

  UOPD_DAEMON=build/release/bin/uopd build/python-venv/bin/python tests/python/kills.py --kills 100
"""
import argparse
import random
import signal
import subprocess
import sys
import time

LEASE = ["--session-ttl-ms=1s", "--session-grace-ms=1s"]


def work(address):
  """Uploads, compiles, runs, replays and reads, without end."""
  import numpy as np
  import uopd
  from uopd import Tensor, TinyJit
  uopd.connect(address)
  print("begins", flush=True)
  big = np.ones((2000, 2000), np.float32)
  held = []
  for i in range(10**9):
    x = Tensor(big).realize()                                             # an upload of 16 MB
    n = random.randrange(3, 400)
    y = (Tensor.ones(n, n).contiguous() * n).exp().sum(0).contiguous()    # a new graph
    z = (x @ x).sin().realize()                                           # some tenths of a second
    step = TinyJit(lambda a: (a * 2 + 1).sum(1))
    for _ in range(50): step(x)
    assert y.numpy().shape == (n,) and z[:1].numpy().shape == (1, 2000)
    held = [x, y, z]


def left_over(metrics):
  """What the daemon holds for clients."""
  names = ("uopd_sessions", "uopd_rpc_in_flight", "uopd_buffers_bytes", "uopd_client_bytes")
  return {k: v for k, v in metrics.items() if k.split("{")[0] in names and v != 0}


def run(kills, seed=1, longest=1.5):
  """Returns what was held while clients worked, at most, and what is left after the last lease."""
  from a_daemon import ADaemon
  rng = random.Random(seed)
  with ADaemon(*LEASE) as daemon:
    most = 0.0
    for _ in range(kills):
      p = subprocess.Popen([sys.executable, __file__, "--worker", daemon.address], stdout=subprocess.PIPE, text=True)
      p.stdout.readline()
      try: p.wait(rng.uniform(0, longest))
      except subprocess.TimeoutExpired: pass
      assert p.poll() is None, "the client ended by itself"
      most = max(most, sum(left_over(daemon.metrics()).values()))
      p.send_signal(signal.SIGKILL)
      p.communicate()
    limit = time.monotonic() + 30
    while (left := left_over(daemon.metrics())) and time.monotonic() < limit: time.sleep(0.1)
    return most, left, daemon.rss()


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--kills", type=int, default=100)
  parser.add_argument("--worker", help=argparse.SUPPRESS)
  args = parser.parse_args()
  if args.worker: return work(args.worker)
  most, left, rss = run(args.kills)
  print(f"{args.kills} kills: up to {most / 2**20:.0f} MiB were held for one client; left after the lease: {left or 'nothing'}; daemon {rss:.0f} MiB")


if __name__ == "__main__": main()
