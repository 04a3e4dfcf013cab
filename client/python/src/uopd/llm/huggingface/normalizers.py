# SPDX-License-Identifier: MIT
"""The `normalizer` of tokenizer.json: what is done to a text before it is divided."""
from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Literal

from .fields import Fields
from .patterns import search_of

Normalizer = Callable[[str], str]

WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"  # of Unicode; Python's strip() takes more
MOST_PARTS = 64        # of a sequence
MOST_DEPTH = 8         # of sequences in each other
_MOST_GROWTH = 32      # what a text may become longer by: the longest of Unicode's normal forms of a character has 18
_MOST_ADDED = 1 << 12  # characters, besides
_LONGEST = 256         # characters of a replacement


def _bounded(length: int, text: str, where: str) -> None:
  if length > _MOST_GROWTH * len(text) + _MOST_ADDED: raise ValueError(f"{where} makes {length} characters of a text of {len(text)}")


def _form(name: Literal["NFC", "NFD", "NFKC", "NFKD"]) -> Normalizer: return lambda text: unicodedata.normalize(name, text)


def _replace(part: Fields) -> Normalizer:
  search, content, where = search_of(part), part.text("content", most=_LONGEST), part.where
  def replaced(text: str) -> str:
    spans = search(text)
    _bounded(len(text) + len(spans) * len(content), text, where)
    out, at = list[str](), 0
    for begin, end in spans:
      out += text[at:begin], content
      at = end
    return "".join(out) + text[at:]
  return replaced


def _strip(part: Fields) -> Normalizer:
  left, right = part.flag("strip_left"), part.flag("strip_right")
  def stripped(text: str) -> str:
    if left: text = text.lstrip(WHITE_SPACE)
    return text.rstrip(WHITE_SPACE) if right else text
  return stripped


def _prepend(part: Fields) -> Normalizer:
  start = part.text("prepend", most=_LONGEST)
  return lambda text: text and start + text


def _lowercase(part: Fields) -> Normalizer:
  return lambda text: text.lower() if text.isascii() else "".join([c.lower() for c in text])  # each by itself: a sigma at the end of a word is no other one


def _strip_accents(part: Fields) -> Normalizer: return lambda text: "".join([c for c in text if unicodedata.category(c)[0] != "M"])


def _sequence(part: Fields, depth: int) -> Normalizer:
  steps = [normalizer_of(p, depth + 1) for p in part.objects("normalizers", MOST_PARTS)]
  def all_of(text: str) -> str:
    out = text
    for step in steps:
      out = step(out)
      _bounded(len(out), text, part.where)
    return out
  return all_of


_KNOWN: dict[str, Callable[[Fields], Normalizer]] = {
  "NFC": lambda _: _form("NFC"), "NFD": lambda _: _form("NFD"), "NFKC": lambda _: _form("NFKC"), "NFKD": lambda _: _form("NFKD"), "Replace": _replace, "Strip": _strip, "Prepend": _prepend,
  "Lowercase": _lowercase, "StripAccents": _strip_accents}


def normalizer_of(part: Fields, depth: int = 0) -> Normalizer:
  """What a normalizer does. ValueError names the part that is not known here."""
  kind = part.one_of("type", (*_KNOWN, "Sequence"))
  if depth > MOST_DEPTH: raise ValueError(f"{part.where[:200]} is nested too deeply")
  return _sequence(part, depth) if kind == "Sequence" else _KNOWN[kind](part)


def keeps_beginning(part: Fields | None) -> bool:
  """Whether the first character of the result always comes from the first one of the text."""
  if part is None: return True
  kind = part.get("type")
  if kind == "Sequence": return all(keeps_beginning(p) for p in part.objects("normalizers", MOST_PARTS))
  return kind not in ("Strip", "StripAccents") and not (kind == "Replace" and not part.get("content"))
