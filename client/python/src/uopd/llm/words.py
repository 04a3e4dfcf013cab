# SPDX-License-Identifier: MIT
"""Tokens of words, kept for the words that come again."""
from __future__ import annotations

from collections.abc import Callable, Iterable

_MOST = 1 << 16   # words that are kept
_LONGEST = 256    # characters of a word that is kept


class Words:
  """Asks for the tokens of a word where they are not known yet. For several threads at once if what it asks is."""
  def __init__(self, ids_of: Callable[[str], list[int]]) -> None:
    self._ids_of = ids_of
    self._known: dict[str, list[int]] = {}

  def ids(self, words: Iterable[str]) -> list[int]:
    """The tokens of all words, in their order."""
    out, known = list[int](), self._known
    for word in words:
      found = known.get(word)
      if found is None:
        found = self._ids_of(word)
        if len(known) >= _MOST: known.clear()
        if len(word) <= _LONGEST: known[word] = found
      out += found
    return out
