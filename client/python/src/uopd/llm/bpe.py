# SPDX-License-Identifier: MIT
"""Byte-level BPE, the tokenizers whose `tokenizer.ggml.model` is gpt2."""
from __future__ import annotations

from typing import Any

from .merges import merge
from .splitting import PATTERNS, WHOLE_WORDS, WITH_BOS, Splitter
from .vocabulary import CONTROL, UNKNOWN, Vocabulary, strings
from .words import Words

_PRINTABLE = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
# Every byte is written as one character: printable ones of Latin-1 as themselves, the others in their order as U+0100 and the following.
CHARACTERS = [chr(b) for b in range(256)]
for _n, _b in enumerate(sorted(set(range(256)) - set(_PRINTABLE))): CHARACTERS[_b] = chr(256 + _n)
BYTES = {c: bytes((b,)) for b, c in enumerate(CHARACTERS)}
_TO_CHARACTERS = dict(enumerate(CHARACTERS))


def written(text: str) -> str:
  """The bytes of a text as characters."""
  return text.encode().decode("latin-1").translate(_TO_CHARACTERS)


class ByteLevel:
  """Words of a text by a pattern, and of each word's bytes the merges, the earliest in the file first. Bytes that the vocabulary lacks are left out."""
  marks_spaces = add_space_prefix = False

  def __init__(self, values: dict[str, Any], vocabulary: Vocabulary, pre: str | None) -> None:
    pre = pre or values.get("tokenizer.ggml.pre")
    if pre is None: raise ValueError(f"the file has no tokenizer.ggml.pre; name one by pre=: {', '.join(sorted(PATTERNS))}")
    if not isinstance(pre, str): raise ValueError(f"tokenizer.ggml.pre is {pre!r}, which is no text")
    self.add_bos, self.add_eos = pre in WITH_BOS, False
    self._split, self._whole, self._vocabulary = Splitter(pre), pre in WHOLE_WORDS, vocabulary
    self._ranks = self._merges(strings(values, "merges"), vocabulary)
    self._words = Words(self._word)

  @staticmethod
  def _merges(merges: list[str], vocabulary: Vocabulary) -> dict[str, int]:
    ranks: dict[str, int] = {}
    for rank, pair in enumerate(merges):
      left, space, right = pair.partition(" ")
      if not (left and space and right) or " " in right: raise ValueError(f"tokenizer.ggml.merges has {pair!r}, which is no pair of tokens")
      made = vocabulary.by_text.get(left + right)
      missing = next((t for t in (left, right, left + right) if t not in vocabulary.by_text), None)
      if missing is not None or made is None: raise ValueError(f"tokenizer.ggml.merges has {pair!r}; tokenizer.ggml.tokens has no {missing!r}")
      # A merge that would make a control token of a user's text is left out.
      if vocabulary.kinds[made] not in (CONTROL, UNKNOWN): ranks.setdefault(pair, rank)
    return ranks

  def _word(self, word: str) -> list[int]:
    symbols = written(word)
    ids = self._vocabulary.ids
    if self._whole and symbols in ids: return [ids[symbols]]
    ranks = self._ranks
    return [ids[s] for s in merge(list(symbols), lambda left, right: ranks.get(f"{left} {right}")) if s in ids]

  def encode(self, text: str) -> list[int]: return self._words.ids(self._split(text))

  def bytes_of(self, token: str) -> bytes:
    return b"".join([BYTES.get(c) or c.encode("utf-8", "surrogateescape") for c in token])
