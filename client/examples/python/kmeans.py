# SPDX-License-Identifier: MIT
"""k-means: finds the centres of clusters of points, a few steps on the daemon.

  python client/examples/python/kmeans.py --points 100000 --clusters 8
  python client/examples/python/kmeans.py --short
"""
import argparse
import time

import numpy as np
from uopd import Tensor, TinyJit


def spread_start(points, k, rng):
  """Centres to begin with: points that are far from each other."""
  chosen = [points[rng.integers(len(points))]]
  for _ in range(k - 1):
    distances = np.min([((points - c) ** 2).sum(1) for c in chosen], axis=0)
    chosen.append(points[distances.argmax()])
  return np.stack(chosen)


def main(argv=None):
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--points", type=int, default=100_000)
  parser.add_argument("--clusters", type=int, default=8)
  parser.add_argument("--steps", type=int, default=30)
  parser.add_argument("--short", action="store_true", help="4,000 points and 10 steps")
  args = parser.parse_args(argv)
  if args.short: args.points, args.steps = 4_000, 10

  rng = np.random.default_rng(1)
  true_centres = rng.permutation(np.stack(np.meshgrid([-6.0, 0.0, 6.0], [-6.0, 0.0, 6.0], [-6.0, 6.0]), -1).reshape(-1, 3))[:args.clusters]
  host = (true_centres[rng.integers(args.clusters, size=args.points)] + rng.normal(size=(args.points, 3))).astype(np.float32)
  points = Tensor(host).realize()

  @TinyJit
  def step(centres):
    """The means of the points that are nearest to each centre, and the mean squared distance to it."""
    distances = (points.unsqueeze(1) - centres.unsqueeze(0)).square().sum(2)
    nearest = distances.argmin(1).one_hot(args.clusters).float()   # (points, clusters)
    count = nearest.sum(0).unsqueeze(1)
    return (count > 0).where(nearest.T @ points / count.maximum(1), centres), distances.min(1).mean()

  centres, begin, costs = Tensor(spread_start(host, args.clusters, rng)), time.perf_counter(), []
  for i in range(args.steps):
    centres, cost = step(centres)
    costs.append(cost.item())
  seconds = time.perf_counter() - begin
  found = centres.numpy()
  error = max(np.sqrt(((found - c) ** 2).sum(1)).min() for c in true_centres)
  print(f"mean squared distance {costs[0]:.3f} -> {costs[-1]:.3f}; every true centre is within {error:.3f} of a found one; "
        f"{1e3 * seconds / args.steps:.2f} ms a step")
  return {"costs": costs, "error": float(error), "centres": found}


if __name__ == "__main__": main()
