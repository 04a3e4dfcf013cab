# SPDX-License-Identifier: MIT
"""Data parallel training on two devices: each computes the gradients of its half of a batch.

  UOPD_DEVICE_LIST=CPU:0,CPU:1 python client/examples/python/data_parallel.py

UOPD_DEVICE_LIST goes to the daemon that this program starts. For another daemon it is the setting device.list.
"""
import argparse

import numpy as np
from uopd import Device, Tensor, TinyJit, nn


class Network:
  def __init__(self): self.hidden, self.out = nn.Linear(20, 64), nn.Linear(64, 1)
  def __call__(self, x): return self.out(self.hidden(x).tanh())


def train(devices, steps, batch):
  """The losses, and the weights at the end. One device: everything there."""
  Tensor.manual_seed(1)
  network = Network()
  parameters = nn.state.get_parameters(network)
  Tensor.realize(*parameters)
  if len(devices) > 1:
    for p in parameters: p.shard_(devices)   # the whole value on each
  optimizer = nn.optim.SGD(parameters, lr=0.05, momentum=0.9)

  @TinyJit
  def step(x, y):
    optimizer.zero_grad()
    loss = (network(x) - y).square().mean().backward()
    optimizer.step()
    return loss.realize()

  rng, losses = np.random.default_rng(1), []
  direction = rng.standard_normal((20, 1)).astype(np.float32)
  with Tensor.train():
    for i in range(steps):
      x = rng.standard_normal((batch, 20)).astype(np.float32)
      pair = [Tensor(x), Tensor(np.sin(x @ direction))]
      if len(devices) > 1: pair = [t.shard(devices, axis=0).realize() for t in pair]   # halves of the batch
      losses.append(step(*pair).item())
      if i % 50 == 0: print(f"{len(devices)} device(s), step {i}: loss {losses[-1]:.4f}")
  return losses, [p.numpy() for p in parameters]


def main(argv=None):
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--steps", type=int, default=300)
  parser.add_argument("--batch", type=int, default=256)
  parser.add_argument("--short", action="store_true", help="60 steps")
  args = parser.parse_args(argv)
  devices = tuple(Device.devices[:2])
  if len(devices) < 2: raise SystemExit(f"the daemon has only {devices}; see the docstring")
  steps = 60 if args.short else args.steps
  (losses, weights), (one_losses, one_weights) = train(devices, steps, args.batch), train(devices[:1], steps, args.batch)
  apart = max(np.abs(a - b).max() for a, b in zip(weights, one_weights))
  print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f} on {devices}; on one device {one_losses[-1]:.4f}; weights differ by at most {apart:.1e}")
  return {"losses": losses, "one_losses": one_losses, "apart": float(apart)}


if __name__ == "__main__": main()
