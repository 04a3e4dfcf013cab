# SPDX-License-Identifier: MIT
"""The `added_tokens` of tokenizer.json, and where they are written in a text."""
from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..vocabulary import LONGEST_MARKED, MOST_TOKENS, Finder
from .fields import Fields
from .normalizers import WHITE_SPACE, Normalizer

_MOST = 1 << 17
_WORD = re.compile(r"\w")


class Added(NamedTuple):
  """A token. lstrip, rstrip: takes the white space on that side. single_word: only between characters that are none of a word. normalized: is searched for in
  the normalised text. special: controls."""
  id: int
  text: str
  special: bool
  lstrip: bool
  rstrip: bool
  single_word: bool
  normalized: bool


def _token(fields: Fields, i: Any) -> Added:
  if type(i) is not int or not 0 <= i < MOST_TOKENS: raise fields.wrong("id", f"0 to {MOST_TOKENS - 1} are possible")
  special = fields.flag("special", False)
  lstrip, rstrip, single = (fields.flag(name, False) for name in ("lstrip", "rstrip", "single_word"))
  return Added(i, fields.text("content", most=LONGEST_MARKED), special, lstrip, rstrip, single, fields.flag("normalized", not special))


def added_tokens(file: Fields, settings: Fields | None) -> list[Added]:
  """The tokens of a tokenizer.json. Those that `added_tokens_decoder` of tokenizer_config.json has too are as it says."""
  out: dict[int, Added] = {}
  for fields in file.objects("added_tokens", _MOST, []):
    token = _token(fields, fields.values.get("id"))
    if token.id in out: raise ValueError(f"{fields.where} has the id {token.id} of the added token {out[token.id].text!r}")
    out[token.id] = token
  if settings is None or "added_tokens_decoder" not in settings: return list(out.values())
  more = settings.object("added_tokens_decoder")
  if len(more.values) > _MOST: raise ValueError(f"{more.where} has {len(more.values)} tokens; {_MOST} are possible")
  for name in more.values:
    fields = more.object(name)
    token = _token(fields, int(name) if name.isascii() and name.isdigit() and len(name) < 10 else name)
    if token.id in out and out[token.id].text != token.text: raise fields.wrong("content", f"{file.where} has {out[token.id].text!r} there")
    out[token.id] = token
  return list(out.values())


class _Places:
  """Finds some of the tokens in a text."""
  def __init__(self, tokens: dict[str, Added]) -> None:
    self._finder = Finder({text: t.id for text, t in tokens.items() if text})
    self._tokens = {t.id: t for t in tokens.values()}

  def parts(self, text: str) -> Iterator[tuple[int, int, int | None]]:
    """Begin, end and token (None: the text between tokens), in their order."""
    after = 0
    for begin, end, i in self._finder.places(text):
      token = self._tokens[i]
      if token.single_word and (begin and _WORD.match(text[begin - 1]) or end < len(text) and _WORD.match(text[end])): continue
      if token.lstrip: begin = max(len(text[:begin].rstrip(WHITE_SPACE)), after)
      if token.rstrip: end = len(text) - len(text[end:].lstrip(WHITE_SPACE))
      if begin < after: continue  # white space that the token before has taken
      if after < begin: yield after, begin, None
      yield begin, end, i
      after = end
    if after < len(text): yield after, len(text), None


class Finders:
  """Where added tokens are in a text as it was given, and where in what is normalised. Special tokens are only found in the former, so that no text that
  looks different becomes one. Without `special` they are not found at all."""
  def __init__(self, tokens: list[Added], normalize: Normalizer | None, where: str) -> None:
    late = [t for t in tokens if t.normalized and not t.special] if normalize is not None else []
    if normalize is not None:
      for t in tokens:
        if t.special and t.normalized and normalize(t.text) != t.text: raise ValueError(f"{where} has the special token {t.text!r}, which is normalised and is another text then")
    early = [t for t in tokens if t not in late]
    self._raw = {True: _Places({t.text: t for t in early}), False: _Places({t.text: t for t in early if not t.special})}
    self.normalized: dict[int, str] = {t.id: normalize(t.text) for t in late} if normalize is not None else {}
    self._normal = _Places({self.normalized[t.id]: t for t in late}) if late else None

  def raw(self, text: str, special: bool) -> Iterator[tuple[int, int, int | None]]: return self._raw[special].parts(text)

  def normal(self, text: str) -> Iterator[tuple[int, int, int | None]]:
    return self._normal.parts(text) if self._normal is not None else iter([(0, len(text), None)] if text else [])
