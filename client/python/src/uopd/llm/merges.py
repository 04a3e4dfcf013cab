# SPDX-License-Identifier: MIT
"""The merging of neighbours that byte-level BPE and SentencePiece's BPE share."""
from __future__ import annotations

import heapq
from collections.abc import Callable

_POSITION = (1 << 40) - 1


def merge(symbols: list[str], rank: Callable[[str, str], int | None]) -> list[str]:
  """Joins the pair of neighbours with the smallest rank, the leftmost of equal ones, until no pair has a rank. O(n log n) steps for n symbols.

  >>> merge(list("ababc"), lambda left, right: {"ab": 1, "bc": 0}.get(left + right))
  ['ab', 'a', 'bc']
  """
  n = len(symbols)
  if n < 2: return symbols
  symbols, after, before = list(symbols), list(range(1, n + 1)), list(range(-1, n - 1))
  heap = []  # of rank << 40 | position of the left one
  for i in range(n - 1):
    found = rank(symbols[i], symbols[i + 1])
    if found is not None: heap.append(found << 40 | i)
  heapq.heapify(heap)
  while heap:
    key = heapq.heappop(heap)
    i = key & _POSITION
    j = after[i]
    # A pair that has changed since it was put on the heap is another one now, or has no right neighbour, or its left one is gone ("").
    if not symbols[i] or j >= n or rank(symbols[i], symbols[j]) != key >> 40: continue
    symbols[i] += symbols[j]
    symbols[j] = ""
    k = after[i] = after[j]
    if k < n:
      before[k] = i
      found = rank(symbols[i], symbols[k])
      if found is not None: heapq.heappush(heap, found << 40 | i)
    h = before[i]
    if h >= 0:
      found = rank(symbols[h], symbols[i])
      if found is not None: heapq.heappush(heap, found << 40 | h)
  return [s for s in symbols if s]
