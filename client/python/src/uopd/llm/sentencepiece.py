# SPDX-License-Identifier: MIT
"""The tokenizers of SentencePiece: BPE by scores, whose `tokenizer.ggml.model` is llama, and unigram models, which have t5."""
from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from .charsmap import Charsmap
from .merges import merge
from .segments import PENALTY, Segments
from .vocabulary import NORMAL, UNUSED, USER, Vocabulary, flag, number
from .words import Words

SPACE = "\u2581"


def words_of(texts: Iterable[str]) -> re.Pattern[str] | None:
  """What finds the words of a text that can be merged by themselves, if the merges make these texts: None if one goes on behind the end of a word."""
  inside = re.compile(f"[^{SPACE}]{SPACE}")
  return None if any(inside.search(text) for text in texts) else re.compile(f"{SPACE}*[^{SPACE}]+|{SPACE}+")


def _scores(vocabulary: Vocabulary) -> list[float]:
  if vocabulary.scores is None: raise ValueError("the file has no tokenizer.ggml.scores")
  return vocabulary.scores


class _Pieces:
  """What both kinds have: spaces are written as U+2581, and characters without a token as bytes, or as the unknown token."""
  marks_spaces, add_eos = True, False

  def __init__(self, values: dict[str, Any], vocabulary: Vocabulary, add_space_prefix: bool, unknown: int) -> None:
    self.add_space_prefix = flag(values, "add_space_prefix", add_space_prefix)
    given = number(values, "unknown_token_id", len(vocabulary.tokens))
    self._unknown = given if given is not None else unknown if unknown < len(vocabulary.tokens) else None
    self._bytes = vocabulary.byte_ids()
    if self._unknown is None and None in self._bytes: raise ValueError("tokenizer.ggml.tokens has no <0x00> to <0xFF>, and there is no tokenizer.ggml.unknown_token_id")

  def _spelled(self, text: str) -> list[int]:
    """Ids of the bytes of a text that is no token."""
    ids = [self._bytes[b] for b in text.encode()]
    known = [i for i in ids if i is not None]
    return known if len(known) == len(ids) or self._unknown is None else [self._unknown]

  def bytes_of(self, token: str) -> bytes:
    return token.replace(SPACE, " ").encode("utf-8", "surrogateescape")


class ScoredBPE(_Pieces):
  """Neighbours that make a token are merged, the best score first. Merging never looks beyond the end of a word if no token has a space behind a letter."""
  add_bos = True

  def __init__(self, values: dict[str, Any], vocabulary: Vocabulary) -> None:
    super().__init__(values, vocabulary, add_space_prefix=True, unknown=0)
    scores = _scores(vocabulary)
    order = {s: rank for rank, s in enumerate(sorted(set(scores), reverse=True))}
    self._ids = vocabulary.ids
    self._ranks = {text: order[scores[i]] for text, i in self._ids.items()}
    self._word = words_of(self._ids)
    self._words = Words(self._ids_of)

  def _ids_of(self, word: str) -> list[int]:
    ranks, out = self._ranks, list[int]()
    for symbol in merge(list(word), lambda left, right: ranks.get(left + right)):
      i = self._ids.get(symbol)
      if i is not None: out.append(i)
      else: out += self._spelled(symbol)
    return out

  def encode(self, text: str) -> list[int]:
    if text and self.add_space_prefix: text = " " + text
    text = text.replace(" ", SPACE)
    if self._word is None: return self._ids_of(text)
    return self._words.ids(self._word.findall(text))


class Unigram(_Pieces):
  """The segmentation with the largest sum of scores."""
  add_bos, add_eos = False, True

  def __init__(self, values: dict[str, Any], vocabulary: Vocabulary) -> None:
    super().__init__(values, vocabulary, add_space_prefix=False, unknown=2)
    scores = _scores(vocabulary)
    self._merge_spaces = flag(values, "remove_extra_whitespaces", False)
    self._charsmap = Charsmap(values.get("tokenizer.ggml.precompiled_charsmap"))
    self._ids = {text: i for text, i in vocabulary.ids.items() if vocabulary.kinds[i] != UNUSED}
    own = {text: 0.0 if vocabulary.kinds[i] == USER else float(scores[i]) for text, i in self._ids.items()}
    self._segments = Segments(own, min((s for s, k in zip(scores, vocabulary.kinds) if k == NORMAL), default=0.0) - PENALTY)

  def _normal(self, text: str) -> str:
    text = self._charsmap(text)
    if self._merge_spaces: text = " ".join([w for w in text.split(" ") if w])
    if self.add_space_prefix and text.strip(" "): text = " " + text
    return text.replace(" ", SPACE)

  def encode(self, text: str) -> list[int]:
    out: list[int] = []
    for segment in self._segments.of(self._normal(text)):
      known = self._ids.get(segment)
      for token in [known] if known is not None else self._spelled(segment):
        if token != self._unknown or out[-1:] != [token]: out.append(token)  # one unknown token for all unknown characters that follow each other
    return out
