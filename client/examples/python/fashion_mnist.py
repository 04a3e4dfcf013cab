# SPDX-License-Identifier: MIT
"""Trains a small convolutional network on Fashion-MNIST to 90 % of the test images and more.

  python client/examples/python/fashion_mnist.py            # 5 epochs, about a minute on two cores
  python client/examples/python/fashion_mnist.py --short    # 150 steps

The data are those of Debian's package dataset-fashion-mnist. Each step sends its batch as bytes; the weights stay on the daemon.
"""
import argparse
import gzip
import pathlib
import time

import numpy as np
from uopd import Tensor, TinyJit, nn


def load(folder, name):
  """Images (n, 1, 28, 28) and labels (n,), as bytes."""
  def idx(kind, header):
    with gzip.open(pathlib.Path(folder) / f"{name}-{kind}-ubyte.gz") as file: return np.frombuffer(file.read(), np.uint8, offset=header)
  return idx("images-idx3", 16).reshape(-1, 1, 28, 28), idx("labels-idx1", 8)


class Network:
  def __init__(self):
    self.conv1, self.conv2 = nn.Conv2d(1, 24, 3, padding=1), nn.Conv2d(24, 48, 3, padding=1)
    self.hidden, self.out = nn.Linear(48 * 7 * 7, 128), nn.Linear(128, 10)
  def __call__(self, images):
    x = images.float() / 255 - 0.5
    x = self.conv1(x).relu().max_pool2d()
    x = self.conv2(x).relu().max_pool2d()
    return self.out(self.hidden(x.flatten(1)).relu().dropout(0.3))


def main(argv=None):
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
  parser.add_argument("--steps", type=int, default=2400)
  parser.add_argument("--batch", type=int, default=128)
  parser.add_argument("--short", action="store_true", help="150 steps")
  args = parser.parse_args(argv)
  steps = 150 if args.short else args.steps

  Tensor.manual_seed(1)
  images, labels = load(args.data, "train")
  network = Network()

  def training_step(lr):
    optimizer = nn.optim.Adam(nn.state.get_parameters(network), lr=lr)

    @TinyJit
    def step(x, y):
      optimizer.zero_grad()
      loss = network(x).sparse_categorical_crossentropy(y).backward()
      optimizer.step()
      return loss.realize()
    return step
  fast, fine = training_step(0.002), training_step(0.0003)   # the last third of the steps is small ones

  @TinyJit
  def right_answers(x, y): return (network(x).argmax(1) == y).sum()

  rng, times, losses = np.random.default_rng(1), [], []
  order = np.concatenate([rng.permutation(len(images)) for _ in range(steps * args.batch // len(images) + 1)])
  with Tensor.train():
    for i in range(steps):
      begin, at = time.perf_counter(), order[i * args.batch:(i + 1) * args.batch]
      step = fast if 3 * i < 2 * steps else fine
      losses.append(step(Tensor(images[at]), Tensor(labels[at].astype(np.int32))).item())
      times.append(time.perf_counter() - begin)
      if i % 200 == 0 or i == steps - 1: print(f"step {i}: loss {losses[-1]:.3f}")

  test_images, test_labels = load(args.data, "t10k")
  chunks = [slice(i, i + 1000) for i in range(0, len(test_images), 1000)]
  right = sum(right_answers(Tensor(test_images[c]), Tensor(test_labels[c].astype(np.int32))).item() for c in chunks)
  result = {"accuracy": right / len(test_images), "step_ms": 1e3 * float(np.median(times)), "seconds": sum(times), "losses": losses}
  print(f"accuracy {100 * result['accuracy']:.2f} %, step {result['step_ms']:.2f} ms (median), training {result['seconds']:.1f} s")
  return result


if __name__ == "__main__": main()
