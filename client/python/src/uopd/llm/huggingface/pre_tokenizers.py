# SPDX-License-Identifier: MIT
"""The `pre_tokenizer` of tokenizer.json: what divides a text into words, and writes them as the vocabulary does."""
from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..bpe import written
from .fields import Fields
from .normalizers import MOST_DEPTH, MOST_PARTS, WHITE_SPACE
from .patterns import Search, Span, regex_search, search_of


class Word(NamedTuple):
  """A part of a text. is_first: whether it begins where the whole text does."""
  text: str
  is_first: bool


PreTokenizer = Callable[[list[Word]], list[Word]]

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_BEHAVIORS = ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")


def _divided(text: str, spans: list[Span], invert: bool) -> list[tuple[int, int, bool]]:
  """All of a text: what was searched for (or, inverted, what lies between), and the rest."""
  out, at = list[tuple[int, int, bool]](), 0
  for begin, end in spans:
    if at < begin: out.append((at, begin, invert))
    out.append((begin, end, not invert))
    at = end
  if at < len(text): out.append((at, len(text), invert))
  return out


def _joined(parts: list[tuple[int, int, bool]], behavior: str) -> Iterator[Span]:
  """The parts of a text that become words."""
  if behavior == "Removed": return iter([(begin, end) for begin, end, found in parts if not found])
  if behavior == "Isolated": return iter([(begin, end) for begin, end, _ in parts])
  out, before = list[Span](), False
  if behavior == "MergedWithNext":
    for begin, end, found in reversed(parts):
      if found and not before and out: out[-1] = begin, out[-1][1]
      else: out.append((begin, end))
      before = found
    return reversed(out)
  for i, (begin, end, found) in enumerate(parts):
    joins = found and not before if behavior == "MergedWithPrevious" else i > 0 and found == before
    if joins and out: out[-1] = out[-1][0], end
    else: out.append((begin, end))
    before = found
  return iter(out)


def _splitter(search: Search, behavior: str, invert: bool = False) -> PreTokenizer:
  def split(words: list[Word]) -> list[Word]:
    return [Word(text[begin:end], is_first and begin == 0) for text, is_first in words for begin, end in _joined(_divided(text, search(text), invert), behavior) if begin < end]
  return split


def _by_character(belongs: Callable[[str], bool]) -> Search:
  return lambda text: [(i, i + 1) for i, c in enumerate(text) if belongs(c)]


def _is_punctuation(c: str) -> bool:
  return 0x21 <= ord(c) < 0x7f and not c.isalnum() or unicodedata.category(c)[0] == "P"


def _split(part: Fields) -> PreTokenizer:
  return _splitter(search_of(part), part.one_of("behavior", _BEHAVIORS), part.flag("invert", False))


def _byte_level(part: Fields) -> PreTokenizer:
  prefix, use_regex = part.flag("add_prefix_space"), part.flag("use_regex", True)
  split = _splitter(regex_search(_GPT2, part.where), "Isolated") if use_regex else None
  def apply(words: list[Word]) -> list[Word]:
    if prefix: words = [w if w.text.startswith(" ") else Word(" " + w.text, w.is_first) for w in words]
    return [Word(written(w.text), w.is_first) for w in (words if split is None else split(words))]
  return apply


def _digits(part: Fields) -> PreTokenizer:
  return _splitter(_by_character(lambda c: unicodedata.category(c)[0] == "N"), "Isolated" if part.flag("individual_digits") else "Contiguous")


def scheme_of(part: Fields) -> tuple[str, str]:
  """The character that Metaspace writes for a space, and where it puts one more: always, never, or at the first word of a text."""
  mark = part.text("replacement", most=1)
  if len(mark) != 1: raise part.wrong("replacement", "one character is possible")
  old = part.flag("add_prefix_space", True)  # of old files, which have no prepend_scheme
  scheme = part.one_of("prepend_scheme", ("always", "never", "first"), "always" if old else "never")
  if not old and scheme != "never": raise part.wrong("add_prefix_space", f"prepend_scheme is {scheme!r}")
  return mark, scheme


def _metaspace(part: Fields) -> PreTokenizer:
  mark, scheme = scheme_of(part)
  split = _splitter(lambda text: [(i, i + 1) for i, c in enumerate(text) if c == mark], "MergedWithNext") if part.flag("split", True) else None
  def apply(words: list[Word]) -> list[Word]:
    out = []
    for text, is_first in words:
      text = text.replace(" ", mark)
      if (scheme == "always" or scheme == "first" and is_first) and not text.startswith(mark): text = mark + text
      out.append(Word(text, is_first))
    return out if split is None else split(out)
  return apply


def _whitespace(part: Fields) -> PreTokenizer: return _splitter(regex_search(r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}\s]+", part.where), "Removed", True)
def _whitespace_split(part: Fields) -> PreTokenizer: return _splitter(_by_character(lambda c: c in WHITE_SPACE), "Removed")
def _punctuation(part: Fields) -> PreTokenizer: return _splitter(_by_character(_is_punctuation), part.one_of("behavior", _BEHAVIORS, "Isolated"))


def _delimiter(part: Fields) -> PreTokenizer:
  if len(part.text("delimiter")) != 1: raise part.wrong("delimiter", "one character is possible")
  return _splitter(_by_character(lambda c: c == part.get("delimiter")), "Removed")


_KNOWN: dict[str, Callable[[Fields], PreTokenizer]] = {
  "Split": _split, "ByteLevel": _byte_level, "Digits": _digits, "Metaspace": _metaspace, "Whitespace": _whitespace, "WhitespaceSplit": _whitespace_split, "Punctuation": _punctuation,
  "CharDelimiterSplit": _delimiter}


def parts_of(part: Fields, depth: int = 0) -> list[Fields]:
  """The pre-tokenizers in sequences, one behind the other. ValueError names one that is not known here."""
  kind = part.one_of("type", (*_KNOWN, "Sequence"))
  if kind != "Sequence": return [part]
  if depth > MOST_DEPTH: raise ValueError(f"{part.where[:200]} is nested too deeply")
  out = [q for p in part.objects("pretokenizers", MOST_PARTS) for q in parts_of(p, depth + 1)]
  if len(out) > MOST_PARTS: raise ValueError(f"{part.where[:200]} has {len(out)} parts; {MOST_PARTS} are possible")
  return out


def pre_tokenizer_of(part: Fields) -> PreTokenizer:
  """What a pre-tokenizer does."""
  parts = parts_of(part)
  if sum(p.get("type") == "ByteLevel" for p in parts) > 1: raise ValueError(f"{part.where} has ByteLevel twice")  # each makes a text longer
  steps = [_KNOWN[p.get("type")](p) for p in parts]
  def apply(words: list[Word]) -> list[Word]:
    for step in steps: words = step(words)
    return words
  return apply
