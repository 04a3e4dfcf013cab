# SPDX-License-Identifier: MIT
"""The segmentation of a text with the largest sum of scores, of unigram models."""
from __future__ import annotations

PENALTY = 10.0  # an unknown character scores so much less than the worst token


class Segments:
  """scores: of the texts that are tokens. unknown: the score of a single character that is none."""
  def __init__(self, scores: dict[str, float], unknown: float) -> None:
    self._scores, self._unknown = scores, unknown
    lengths: dict[str, set[int]] = {}
    for text in scores: lengths.setdefault(text[0], set()).add(len(text))
    self._lengths = {c: sorted(n) for c, n in lengths.items()}

  def of(self, text: str) -> list[str]:
    """The segments of a text in their order: tokens, and single characters that are none (the algorithm of Viterbi; of equal sums the first that is found)."""
    n = len(text)
    best, length = [0.0] * (n + 1), [0] * (n + 1)  # of the best segmentation up to a place: its sum, and its last segment, 0 before there is one
    scores = self._scores
    for i in range(n):
      here, alone = best[i], True
      for size in self._lengths.get(text[i], ()):
        if i + size > n: break
        score = scores.get(text[i:i + size])
        if score is None: continue
        if size == 1: alone = False
        if not length[i + size] or here + score > best[i + size]: best[i + size], length[i + size] = here + score, size
      if alone and (not length[i + 1] or here + self._unknown > best[i + 1]): best[i + 1], length[i + 1] = here + self._unknown, 1
    ends = [n]
    while ends[-1]: ends.append(ends[-1] - length[ends[-1]])
    return [text[begin:end] for begin, end in zip(ends[:0:-1], ends[-2::-1])]
