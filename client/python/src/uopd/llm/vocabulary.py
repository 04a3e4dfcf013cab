# SPDX-License-Identifier: MIT
"""Vocabularies: texts and kinds of the tokens, checked, with their scores in a GGUF file, and where tokens are written in a text."""
from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
MOST_TOKENS = 10_000_000
LONGEST_MARKED = 256  # characters of a control token or one that a user defined
# Texts of the tokens that end what a model says. A token of this text counts if the file calls it a control token or a user's, not as an ordinary word.
ENDS = frozenset(("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>",
                  "<EOT>", "[EOT]", "[EOS]", "<end_of_utterance>", "<turn|>", "<\uff5cend\u2581of\u2581sentence\uff5c>"))
_KEY = "tokenizer.ggml."


def number(values: dict[str, Any], name: str, tokens: int) -> int | None:
  """The id of a token that the file gives a role, or None without one."""
  v = values.get(_KEY + name)
  if v is None: return None
  if type(v) is not int or not 0 <= v < tokens: raise ValueError(f"{_KEY}{name} is {v!r}; the vocabulary has {tokens} tokens")
  return v


def flag(values: dict[str, Any], name: str, default: bool) -> bool:
  v = values.get(_KEY + name, default)
  if type(v) is not bool: raise ValueError(f"{_KEY}{name} is {v!r}, which is no bool")
  return v


def strings(values: dict[str, Any], name: str) -> list[str]:
  v = values.get(_KEY + name)
  if v is None: raise ValueError(f"the file has no {_KEY}{name}")
  if not isinstance(v, list) or not all(type(s) is str for s in v): raise ValueError(f"{_KEY}{name} is no list of texts")
  return v


class Tokens:
  """Tokens by id and by text. Control tokens and the unknown token are never made of ordinary text: `ids` does not have them. A token without a text is none of any text."""
  def __init__(self, tokens: list[str], kinds: list[int], where: str) -> None:
    """where: what errors name. One entry of `kinds` for each token."""
    self.tokens, self.kinds, self._where = tokens, kinds, where
    by_text: dict[str, int] = {}
    for i, text in enumerate(tokens):
      if text and by_text.setdefault(text, i) != i: raise ValueError(f"{where} has the token {text!r} twice, as {by_text[text]} and {i}")
    self.by_text = by_text
    # An end that the file has as a user's token is a control token all the same: else any user's text could end a turn.
    for text in ENDS:
      if text in by_text and kinds[by_text[text]] == USER: kinds[by_text[text]] = CONTROL
    self.ends = {by_text[text] for text in ENDS if text in by_text and kinds[by_text[text]] == CONTROL}
    if {"<|return|>", "<|call|>"} <= by_text.keys(): self.ends.discard(by_text.get("<|end|>", -1))  # there, <|end|> ends one message of several
    self.ids = {text: i for text, i in by_text.items() if kinds[i] in (NORMAL, USER, UNUSED)}
    self.control = self._finder((CONTROL, UNKNOWN, USER))
    self.user = self._finder((USER,))

  def _finder(self, kinds: tuple[int, ...]) -> Finder:
    texts = {self.tokens[i]: i for i, k in enumerate(self.kinds) if k in kinds and self.tokens[i]}
    longest = max(texts, key=len, default="")
    if len(longest) > LONGEST_MARKED: raise ValueError(f"{self._where} has a control token of {len(longest)} characters; {LONGEST_MARKED} are possible")
    return Finder(texts)


class Vocabulary(Tokens):
  """The tokens of a GGUF file, with their scores."""
  def __init__(self, values: dict[str, Any]) -> None:
    tokens = strings(values, "tokens")
    n = len(tokens)
    if not 0 < n <= MOST_TOKENS: raise ValueError(f"{_KEY}tokens has {n} tokens; 1 to {MOST_TOKENS} are possible")
    kinds = self._kinds(values.get(_KEY + "token_type"), n)
    self.scores = self._scores(values.get(_KEY + "scores"), n)
    super().__init__(tokens, kinds, f"{_KEY}tokens")

  @staticmethod
  def _kinds(kinds: Any, n: int) -> list[int]:
    if kinds is None: return [NORMAL] * n
    if not isinstance(kinds, list) or len(kinds) != n: raise ValueError(f"{_KEY}token_type is no list of {n} numbers, one for each token")
    wrong = [k for k in kinds if type(k) is not int or not 0 <= k <= BYTE]
    if wrong: raise ValueError(f"{_KEY}token_type has {wrong[0]!r}; the kinds are 1 to {BYTE}")
    return [k or NORMAL for k in kinds]

  @staticmethod
  def _scores(scores: Any, n: int) -> list[float] | None:
    if scores is None: return None
    if not isinstance(scores, list) or len(scores) != n: raise ValueError(f"{_KEY}scores is no list of {n} numbers, one for each token")
    wrong = [s for s in scores if type(s) not in (int, float) or not math.isfinite(s)]
    if wrong: raise ValueError(f"{_KEY}scores has {wrong[0]!r}, which is no finite number")
    return scores

  def byte_ids(self) -> list[int | None]:
    """The tokens <0x00> to <0xFF>, where there are such."""
    found = [self.by_text.get(f"<0x{b:02X}>") for b in range(256)]
    return [i if i is not None and self.kinds[i] == BYTE else None for i in found]


class Finder:
  """Finds where tokens are written in a text: the leftmost one, and of these the longest."""
  def __init__(self, texts: dict[str, int]) -> None:
    self._texts = texts
    lengths: dict[str, set[int]] = {}
    for text in texts: lengths.setdefault(text[0], set()).add(len(text))
    self._lengths = {c: sorted(n, reverse=True) for c, n in lengths.items()}
    self._first = re.compile("[" + "".join(map(re.escape, sorted(lengths))) + "]") if lengths else None
    self._pairs = {text[:2] for text in texts}

  def places(self, text: str) -> Iterator[tuple[int, int, int]]:
    """Where tokens are: begin, end and token, in their order."""
    at = 0
    while self._first is not None and (m := self._first.search(text, at)):
      at = m.start()
      for n in self._lengths[text[at]]:
        found = self._texts.get(text[at:at + n])
        if found is not None:
          yield at, at + n, found
          at += n
          break
      else: at += 1

  def parts(self, text: str) -> Iterator[str | int]:
    """Tokens, and the texts between them, in their order."""
    after = 0
    for begin, end, token in self.places(text):
      if after < begin: yield text[after:begin]
      yield token
      after = end
    if after < len(text): yield text[after:]

  def broken(self, text: str, mark: str) -> str:
    """The text with a mark in all that a token could begin with, so that none is found in it, nor in what is left when something is cut out of it."""
    if self._first is None: return text
    out: list[str] = []
    at = 0
    for m in self._first.finditer(text):
      i = m.end()
      following = text[i:i + 1]
      if text[i - 1:i + 1] in self._pairs or following in self._lengths:
        out += text[at:i], mark
        at = i
    return "".join(out) + text[at:]
