# SPDX-License-Identifier: MIT
"""Where the keys and values of tokens are kept, and what a token sees of them: a part of one sequence, or one token of each of several sequences."""
from __future__ import annotations

import math
from typing import Protocol, Sequence

from ..tensor import Tensor
from ..variable import Size
from .config import Config


class Places(Protocol):
  """The places of the tokens that a model computes at once."""
  def angles(self, table: Tensor) -> Tensor:
    """Of a table by position (positions, 2, n), what belongs to each token: (tokens, 2, n)."""
    ...
  def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Stores keys and values (tokens, shared heads, elements) of a layer, and gives what the queries (tokens, heads, elements) find: (tokens, heads * elements)."""
    ...


class Span:
  """`count` tokens of one sequence, of which the first is at position `at`. caches: of each layer (sequences, 2, shared heads, positions, elements), where `row` is that of
  the sequence, with all positions before `at`."""
  def __init__(self, config: Config, caches: Sequence[Tensor], row: Size | int, at: Size | int, count: Size | int) -> None:
    self._config, self._caches, self._row, self._at, self._count = config, caches, row, at, count

  def angles(self, table: Tensor) -> Tensor: return table[self._at:self._at + self._count]

  def store(self, layer: int, k: Tensor, v: Tensor) -> None:
    # A view of the whole cache: an assignment to a part of a part would write all of the outer one.
    self._caches[layer][self._row:self._row + 1, :, :, self._at:self._at + self._count].assign(Tensor.stack(k, v).transpose(1, 2).unsqueeze(0))

  def seen(self, layer: int, q: Tensor) -> Tensor:
    """What the queries find, when the keys and values of their tokens are stored."""
    c, cache, at, count = self._config, self._caches[layer], self._at, self._count
    keys, values = cache[self._row, 0, :, :at + count], cache[self._row, 1, :, :at + count]
    # Heads that share keys lie side by side.
    q = q.transpose(0, 1).reshape(c.shared_heads, c.heads // c.shared_heads, count, c.head_width)
    scores = q.matmul(keys.unsqueeze(1).transpose(-1, -2)) * c.head_width ** -0.5
    if count != 1 or c.is_local(layer):
      own = (Tensor.arange(count) + at).reshape(-1, 1)
      seen = Tensor.arange(at + count).reshape(1, -1)
      visible = seen <= own
      if c.is_local(layer): visible = visible & (seen > own - c.window)
      scores = visible.where(scores, -math.inf)
    out = scores.softmax(-1).matmul(values.unsqueeze(1))
    return out.reshape(c.heads, count, c.head_width).transpose(0, 1).reshape(count, c.heads * c.head_width)

  def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    self.store(layer, k, v)
    return self.seen(layer, q)


class Rows:
  """One token of each of several sequences, whose spans these are."""
  def __init__(self, spans: Sequence[Span]) -> None:
    self._spans = spans
    self._angles: list[tuple[Tensor, Tensor]] = []  # for each table, so that all layers read what is computed once

  def angles(self, table: Tensor) -> Tensor:
    for known, found in self._angles:
      if known is table: return found
    parts = [s.angles(table) for s in self._spans]
    self._angles.append((table, parts[0].cat(*parts[1:]).contiguous()))
    return self._angles[-1][1]

  def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    # All is stored before anything is read, so that no write has to wait for a reader of other rows.
    for i, span in enumerate(self._spans): span.store(layer, k[i:i + 1], v[i:i + 1])
    found = [span.seen(layer, q[i:i + 1]) for i, span in enumerate(self._spans)]
    return found[0].cat(*found[1:])
