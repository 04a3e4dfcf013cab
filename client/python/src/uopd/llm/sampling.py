# SPDX-License-Identifier: MIT
"""The choice of the next token by its scores, on the daemon: at random, or the likeliest one.

The order is: repeat penalty, frequency and presence penalty, temperature; then top_k, top_p and min_p, each of the distribution that the temperature gives, leave words, and one of those
that all three leave is drawn. Words that are equally likely are kept or left out together: top_k keeps more than k words if others are as likely as the k-th.

The draw adds noise of the Gumbel distribution to the logarithm of each probability, and takes the largest sum (Gumbel, Statistical Theory of Extreme Values, 1954). The noise is made
of the seed, the position of the token and the number of the word by Threefry (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011), so that it does not depend on what else
is computed. No words are sorted: the least likely word that stays is searched by the bits of its distance from the likeliest one.
"""
from __future__ import annotations

import dataclasses
import math

from ..dtype import dtypes
from ..tensor import Tensor

LAST = 64  # tokens before the next one that a repeat penalty can see
_BITS = 3  # of a distance that one pass of the search finds; with more of them a pass takes longer, with fewer there are more passes
_FIELDS = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "repeat_last", "frequency_penalty", "presence_penalty")


@dataclasses.dataclass(frozen=True)
class Sampling:
  """How the tokens of a sequence are chosen. ValueError names a value that is not possible.

  temperature: scores are divided by it; below 1e-6 the likeliest token is taken. top_k: the k likeliest words; 0: all. top_p: the likeliest words that have this part of the probability
  together. min_p: words that are at least this times as likely as the likeliest one. repeat_penalty: divides positive scores, and multiplies others, of words among the last `repeat_last`
  tokens, of the prompt too. frequency_penalty, presence_penalty: taken from the score of a word for each time that it was said behind the prompt, and once if it was. seed: an integer;
  what counts are its last 64 bits.
  """
  temperature: float = 0.0
  top_k: int = 0
  top_p: float = 1.0
  min_p: float = 0.0
  repeat_penalty: float = 1.0
  repeat_last: int = LAST
  frequency_penalty: float = 0.0
  presence_penalty: float = 0.0
  seed: int = 0

  def __post_init__(self) -> None:
    for name, low, high in (("temperature", 0.0, 1e6), ("top_p", 0.0, 1.0), ("min_p", 0.0, 1.0), ("repeat_penalty", 1e-3, 1e3), ("frequency_penalty", -1e3, 1e3), ("presence_penalty", -1e3, 1e3)):
      x = getattr(self, name)
      if isinstance(x, bool) or not isinstance(x, (int, float)) or not low <= x <= high: raise ValueError(f"{name} is {x!r}; {low:g} to {high:g} are possible")
    for name, most in (("top_k", 1 << 24), ("repeat_last", LAST)):
      n = getattr(self, name)
      if isinstance(n, bool) or not isinstance(n, int) or not 0 <= n <= most: raise ValueError(f"{name} is {n!r}; 0 to {most} are possible")
    if isinstance(self.seed, bool) or not isinstance(self.seed, int): raise ValueError(f"seed is {self.seed!r}, which is no integer")

  @property
  def is_greedy(self) -> bool:
    """Whether the likeliest word of the scores as they are is taken, for which nothing has to be computed but the largest score."""
    return self.temperature < 1e-6 and self.repeat_penalty == 1 and self.frequency_penalty == 0 and self.presence_penalty == 0


GREEDY = Sampling()


def settings(rows: list[Sampling]) -> tuple[Tensor, Tensor]:
  """What `choose` needs of some sequences, on the daemon: numbers (rows, 8) in float32, and seeds (rows, 1)."""
  numbers = [[float(getattr(s, name)) for name in _FIELDS] for s in rows]
  return Tensor(numbers, dtype=dtypes.float32).realize(), Tensor([[s.seed % (1 << 64)] for s in rows], dtype=dtypes.uint64).realize()


def _penalised(scores: Tensor, column: dict[str, Tensor], recent: Tensor, counts: Tensor) -> Tensor:
  words, last = scores.shape[1], recent.shape[1]
  in_reach = Tensor.arange(last).reshape(1, -1) >= last - column["repeat_last"]
  hit = (recent.unsqueeze(1) == Tensor.arange(words, dtype=dtypes.int32).reshape(1, -1, 1)) & in_reach.unsqueeze(1)
  by = hit.any(-1).where(column["repeat_penalty"], 1.0)
  scores = (scores > 0).where(scores / by, scores * by)
  return scores - counts * column["frequency_penalty"] - (counts > 0).where(column["presence_penalty"], 0.0)


def _farthest(distance: Tensor, chance: Tensor, top_k: Tensor, top_p: Tensor) -> Tensor:
  """The largest distance, as its bits (rows, 1), of a word that fewer than top_k words come before, and words of less than the part top_p of the chance."""
  # The bits of floats from 0 on are in the order of the floats.
  bits = distance.bitcast(dtypes.int32).unsqueeze(1).unsqueeze(1)
  weights = Tensor.stack(chance.ones_like(), chance, dim=1).unsqueeze(2).contiguous()
  part = (top_p < 1).where(chance.sum(-1, keepdim=True) * top_p, math.inf)
  limits = Tensor.stack((top_k > 0).where(top_k, math.inf), part, dim=1).contiguous()
  found, shift = Tensor.zeros(distance.shape[0], 1, dtype=dtypes.int32), 31
  while shift > 0:
    step = min(_BITS, shift)
    shift -= step
    candidates = (found + (Tensor.arange(1, 1 << step, dtype=dtypes.int32) << shift).reshape(1, -1)).contiguous()
    before = (bits < candidates.unsqueeze(1).unsqueeze(-1)).where(weights, 0.0).sum(-1).contiguous()  # (rows, number and chance, candidates)
    found = (found + ((before < limits).all(1).cast(dtypes.int32).sum(-1, keepdim=True) << shift)).contiguous()
  return found


def _noise(seeds: Tensor, positions: Tensor, words: int) -> Tensor:
  """Numbers of the exponential distribution (rows, words)."""
  counters = Tensor.arange(words, dtype=dtypes.uint64).reshape(1, -1) + (positions.cast(dtypes.uint64) << 32)
  u = ((counters.threefry(seeds) >> 24).float() + 0.5) * 2.0 ** -40
  # -log(1 - u), which float32 cannot tell from 0 where u is small: there by its series. These are the words that win.
  return (u < 2.0 ** -6).where(u * (1 + u * (1 / 2 + u * (1 / 3 + u / 4))), -(1 - u).log())


def choose(scores: Tensor, numbers: Tensor, seeds: Tensor, positions: Tensor, recent: Tensor, counts: Tensor) -> Tensor:
  """The next token of each row, (rows,) in int32. scores: (rows, words) in float32. numbers, seeds: of `settings`. positions: (rows, 1), those of the tokens that are chosen.
  recent: (rows, LAST) in int32, the tokens before, the latest one last; -1 where there are none. counts: (rows, words) in float32, how often each word was said."""
  column = {name: numbers[:, i:i + 1] for i, name in enumerate(_FIELDS)}
  scores = _penalised(scores, column, recent, counts).contiguous()
  is_random = column["temperature"] >= 1e-6
  # Distances from the likeliest word are divided, not scores: so the likeliest one has the distance 0 at any temperature.
  distance = ((scores.max(-1, keepdim=True) - scores) / is_random.where(column["temperature"], 1.0)).contiguous()
  chance = (-distance).exp().contiguous()
  farthest = _farthest(distance, chance, column["top_k"], column["top_p"])
  stays = (distance.bitcast(dtypes.int32) <= farthest) & (chance >= column["min_p"])
  drawn = -distance - is_random.where(_noise(seeds, positions, scores.shape[1]).log(), 0.0)
  return stays.where(drawn, -math.inf).argmax(-1).cast(dtypes.int32)
