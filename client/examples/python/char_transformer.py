# SPDX-License-Identifier: MIT
"""Trains a small transformer to predict the characters of a text, then lets it write.

  python client/examples/python/char_transformer.py
  python client/examples/python/char_transformer.py --short --text /usr/share/common-licenses/Apache-2.0

The text is a licence that ships with Debian. Samples are drawn on the daemon: one replay of a TinyJit for each character.
"""
import argparse
import pathlib
import time

import numpy as np
from uopd import Tensor, TinyJit, nn

CONTEXT = 64


class Block:
  def __init__(self, width, heads):
    self.heads = heads
    self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
    self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
    self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
  def __call__(self, x):
    batch, time, width = x.shape
    q, k, v = self.qkv(self.norm1(x)).reshape(batch, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
    mixed = q.scaled_dot_product_attention(k, v, is_causal=True)
    x = x + self.project(mixed.transpose(1, 2).reshape(batch, time, width))
    return x + self.down(self.up(self.norm2(x)).gelu())


class Transformer:
  def __init__(self, characters, width=64, heads=4, layers=2):
    self.token, self.position = nn.Embedding(characters, width), nn.Embedding(CONTEXT, width)
    self.blocks = [Block(width, heads) for _ in range(layers)]
    self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, characters)
  def __call__(self, tokens):
    x = self.token(tokens) + self.position(Tensor.arange(tokens.shape[1]))
    return self.out(self.norm(x.sequential(self.blocks)))


def main(argv=None):
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--text", default="/usr/share/common-licenses/GPL-3")
  parser.add_argument("--steps", type=int, default=1500)
  parser.add_argument("--sample", type=int, default=300, help="characters to write")
  parser.add_argument("--short", action="store_true", help="120 steps and 40 characters")
  args = parser.parse_args(argv)
  if args.short: args.steps, args.sample = 120, 40

  Tensor.manual_seed(1)
  text = pathlib.Path(args.text).read_text()
  characters = sorted(set(text))
  codes = np.array([characters.index(c) for c in text], np.int32)
  model = Transformer(len(characters))
  optimizer = nn.optim.AdamW(nn.state.get_parameters(model), lr=0.003)

  @TinyJit
  def step(x, y):
    optimizer.zero_grad()
    loss = model(x).sparse_categorical_crossentropy(y).backward()
    optimizer.step()
    return loss.realize()

  rng, losses, begin = np.random.default_rng(1), [], time.perf_counter()
  with Tensor.train():
    for i in range(args.steps):
      starts = rng.integers(0, len(codes) - CONTEXT, 32)
      windows = np.stack([codes[s:s + CONTEXT + 1] for s in starts])
      losses.append(step(Tensor(windows[:, :-1]), Tensor(windows[:, 1:])).item())
      if i % 100 == 0 or i == args.steps - 1: print(f"step {i}: loss {losses[-1]:.3f}")
  seconds = time.perf_counter() - begin

  @TinyJit
  def next_character(window):
    """The window moved by one character, which is drawn from the model's probabilities."""
    scores = model(window)[:, -1] / 0.7
    return window[:, 1:].cat((scores + gumbel(len(characters))).argmax(1).reshape(1, 1), dim=1)

  window, written = Tensor(codes[None, 1000:1000 + CONTEXT]).contiguous(), []
  for _ in range(args.sample):
    window = next_character(window)
    written.append(characters[window.numpy()[0, -1]])
  print("".join(written))
  print(f"loss {losses[0]:.3f} -> {np.mean(losses[-10:]):.3f}, {1e3 * seconds / args.steps:.1f} ms a step")
  return {"losses": losses, "text": "".join(written), "characters": characters}


def gumbel(n): return -(-(Tensor.rand(1, n) + 1e-9).log() + 1e-9).log()


if __name__ == "__main__": main()
