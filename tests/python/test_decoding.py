# SPDX-License-Identifier: MIT
"""A small transformer that writes: caches that are views of memory, positions and lengths that are variables, recorded and not. Every way of
feeding it gives the same tokens."""
import numpy as np
import pytest

import uopd
from uopd import Tensor, TinyJit, Variable, nn

WIDTH, HEADS, SHARED, LAYERS, MOST, WORDS = 32, 4, 2, 2, 24, 50
EACH = WIDTH // HEADS


def turns():
  angles = np.arange(2 * MOST)[:, None] / 10000 ** (np.arange(0, EACH, 2) / EACH)
  return Tensor(np.stack([np.cos(angles), np.sin(angles)], -1).astype(np.float32).reshape(1, 2 * MOST, 1, EACH // 2, 2)).realize()


def turned(x, by):
  x = x.reshape(*x.shape[:-1], -1, 2)
  a, b, c, s = x[..., 0:1], x[..., 1:2], by[..., 0:1], by[..., 1:2]
  return (a * c - b * s).cat(a * s + b * c, dim=-1).flatten(3)


class Block:
  def __init__(self):
    self.q, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
    self.k, self.v = (nn.Linear(WIDTH, EACH * SHARED, bias=False) for _ in range(2))
    self.up, self.gate, self.down = nn.Linear(WIDTH, 64, bias=False), nn.Linear(WIDTH, 64, bias=False), nn.Linear(64, WIDTH, bias=False)
    self.before, self.between = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
    self.cache = Tensor.zeros(2, 1, MOST, SHARED, EACH).contiguous().realize()
  def __call__(self, x, at, by, mask):
    h = self.before(x)
    batch, count, _ = x.shape
    q = self.q(h).reshape(batch, count, HEADS, EACH)
    k, v = (m(h).reshape(batch, count, SHARED, EACH) for m in (self.k, self.v))
    q, k = turned(q, by), turned(k, by)
    self.cache.shrink((None, None, (at, at + count), None, None)).assign(Tensor.stack(k, v)).realize()
    keys, values = (self.cache[i].shrink((None, (0, at + count), None, None)).repeat((1, 1, 1, HEADS // SHARED)).reshape(batch, at + count, HEADS, EACH)
                    for i in (0, 1))
    a = q.transpose(1, 2).scaled_dot_product_attention(keys.transpose(1, 2), values.transpose(1, 2), mask).transpose(1, 2).reshape(batch, count, -1)
    x = x + self.o(a)
    h = self.between(x)
    return (x + self.down(self.gate(h).silu() * self.up(h))).contiguous()


class Writer:
  def __init__(self):
    Tensor.manual_seed(1)
    self.turns, self.words = turns(), nn.Embedding(WORDS, WIDTH)
    self.blocks, self.norm, self.out = [Block() for _ in range(LAYERS)], nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
    self.chunk, self.single = TinyJit(self.forward), TinyJit(self.forward)
  def forward(self, tokens, at):
    count = tokens.shape[1]
    mask = Tensor.full((1, 1, count, at + count), float("-inf")).triu(at + 1) if count != 1 else None
    by, x = self.turns.shrink((None, (at, at + count), None, None, None)), self.words(tokens)
    for block in self.blocks: x = block(x, at, by, mask)
    scores = self.out(self.norm(x))[:, -1]
    return scores.argmax(-1).realize(), scores.max().realize()


PROMPT = [3, 7, 9, 11, 2, 30, 4]


def written(recorded, chunks):
  """Tokens and their scores. `chunks`: lengths that the prompt comes in; none: at once, with sizes that are numbers."""
  net, out, at = Writer(), [], 0
  position, length = Variable("position", 0, MOST - 1), Variable("length", 1, 8)
  prompt = Tensor([PROMPT + [0] * 3]).contiguous().realize()
  for n in chunks:
    begin = Variable("begin", 0, 9).bind(at)
    tokens = prompt[:, begin:begin + length.bind(n)].contiguous().realize()
    token, score = (net.chunk if recorded else net.forward)(tokens, position.bind(at))
    at += n
  if not chunks:
    token, score = net.forward(Tensor([PROMPT]), 0)
    at = len(PROMPT)
  before = None
  for i in range(10):
    out.append((token.item(), score.item()))
    if recorded: token, score = net.single(Tensor([[out[-1][0]]]).realize(), position.bind(at))
    else: token, score = net.forward(Tensor([[out[-1][0]]]), at)
    at += 1
    if recorded and i == 3: before = uopd.runtime.stats()["graphs_sent"]
  if recorded: assert uopd.runtime.stats()["graphs_sent"] == before, "other positions need no other graph"
  return out


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("chunks", [(), (3, 2, 1, 1)])
def test_every_way_of_feeding_gives_the_same(recorded, chunks):
  want, got = written(False, ()), written(recorded, chunks)
  assert [t for t, _ in got] == [t for t, _ in want]
  np.testing.assert_allclose([s for _, s in got], [s for _, s in want], rtol=1e-5)
