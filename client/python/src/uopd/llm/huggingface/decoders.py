# SPDX-License-Identifier: MIT
"""The `decoder` of tokenizer.json: what makes a text of the texts of tokens, token by token."""
from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from typing import Protocol

from ..bpe import BYTES
from .fields import Fields
from .normalizers import MOST_DEPTH, MOST_PARTS
from .patterns import Search, search_of
from .pre_tokenizers import scheme_of

_BYTE = re.compile("<0x([0-9A-Fa-f]{2})>")
_LONGEST = 256        # characters of a replacement
_MOST_TEXT = 1 << 20  # characters that replacements may make of a token


class Step(Protocol):
  """One step for one text. What one step gives is what the next one gets; at the end, the first step ends first."""
  def feed(self, token: str) -> list[str]: ...
  def end(self) -> list[str]: ...


# Makes a step for a text, which begins a text or goes on with one.
MakeStep = Callable[[bool], Step]


class _Each:
  """A step that knows nothing of other tokens."""
  def __init__(self, change: Callable[[str], str]) -> None: self._change = change
  def feed(self, token: str) -> list[str]: return [self._change(token)]
  def end(self) -> list[str]: return []


class _ByteLevel:
  """Tokens are bytes. What is no UTF-8 becomes U+FFFD."""
  def __init__(self) -> None: self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
  def feed(self, token: str) -> list[str]:
    known = [BYTES.get(c) for c in token]
    return [self._utf8.decode(b"".join([b for b in known if b is not None]) if None not in known else token.encode())]
  def end(self) -> list[str]: return [self._utf8.decode(b"", final=True)]


class _ByteFallback:
  """Tokens such as <0xE2> that follow each other are bytes. If together they are no UTF-8, each becomes U+FFFD, so they are held back until another token comes."""
  def __init__(self) -> None: self._held = bytearray()
  def feed(self, token: str) -> list[str]:
    m = _BYTE.fullmatch(token)
    if m is None: return [*self.end(), token]
    self._held += bytes.fromhex(m[1])
    return []
  def end(self) -> list[str]:
    if not self._held: return []
    raw, self._held = self._held, bytearray()
    try: return [raw.decode()]
    except UnicodeDecodeError: return ["\ufffd" * len(raw)]


class _Metaspace:
  """Marks are spaces, but for those of the first token if one was put before the text."""
  def __init__(self, mark: str, drops: bool) -> None: self._mark, self._drops = mark, drops
  def feed(self, token: str) -> list[str]:
    by, self._drops = "" if self._drops else " ", False
    return [token.replace(self._mark, by)]
  def end(self) -> list[str]: return []


class _Spaces:
  """Tokens are divided by spaces: what is done without a decoder."""
  def __init__(self, begins: bool) -> None: self._begins = begins
  def feed(self, token: str) -> list[str]:
    out, self._begins = token if self._begins else " " + token, False
    return [out]
  def end(self) -> list[str]: return []


class _StripWhole:
  """Takes characters off the beginning and the end of a whole text."""
  def __init__(self, content: str, start: int, stop: int) -> None: self._content, self._start, self._stop, self._held = content, start, stop, ""
  def feed(self, token: str) -> list[str]:
    while self._start and token:
      if token[0] != self._content: self._start = 0
      else: token, self._start = token[1:], self._start - 1
    token = self._held + token
    kept = max(len(token.rstrip(self._content)), len(token) - self._stop)
    self._held = token[kept:]
    return [token[:kept]]
  def end(self) -> list[str]: return []


def _stripped(token: str, content: str, start: int, stop: int) -> str:
  begin = min(len(token) - len(token.lstrip(content)), start)
  return token[begin:max(begin, len(token.rstrip(content)), len(token) - stop)]


def _replaced(token: str, search: Search, content: str, where: str) -> str:
  spans = search(token)
  if len(token) + len(spans) * len(content) > _MOST_TEXT: raise ValueError(f"{where} makes more than {_MOST_TEXT} characters of a token")
  out, at = list[str](), 0
  for begin, end in spans:
    out += token[at:begin], content
    at = end
  return "".join(out) + token[at:]


def _strip(part: Fields, is_whole: bool) -> MakeStep:
  content = part.text("content", most=1)
  if len(content) != 1: raise part.wrong("content", "one character is possible")
  def count(name: str) -> int:
    n = part.get(name)
    if type(n) is not int or not 0 <= n <= 1 << 10: raise part.wrong(name)
    return n
  start, stop = count("start"), count("stop")
  if is_whole: return lambda begins: _StripWhole(content, start if begins else 0, stop)
  return lambda _: _Each(lambda token: _stripped(token, content, start, stop))


def _replace(part: Fields) -> MakeStep:
  search, content = search_of(part), part.text("content", most=_LONGEST)
  return lambda _: _Each(lambda token: _replaced(token, search, content, part.where))


def _metaspace(part: Fields) -> MakeStep:
  mark, scheme = scheme_of(part)
  return lambda begins: _Metaspace(mark, begins and scheme != "never")


def _one(part: Fields, is_whole: bool) -> MakeStep:
  kind = part.get("type")
  if kind == "Strip": return _strip(part, is_whole)
  if kind == "Fuse": return lambda _: _Each(lambda token: token)
  # These see tokens. Behind a step that made one text of all of them they would see that.
  if is_whole: raise ValueError(f"{part.where} is {kind} behind Fuse or ByteLevel, which is not known here")
  if kind == "ByteLevel": return lambda _: _ByteLevel()
  if kind == "ByteFallback": return lambda _: _ByteFallback()
  return _metaspace(part) if kind == "Metaspace" else _replace(part)


def _parts(part: Fields, depth: int) -> list[Fields]:
  kind = part.one_of("type", ("ByteLevel", "ByteFallback", "Fuse", "Metaspace", "Replace", "Strip", "Sequence"))
  if kind != "Sequence": return [part]
  if depth > MOST_DEPTH: raise ValueError(f"{part.where[:200]} is nested too deeply")
  return [q for p in part.objects("decoders", MOST_PARTS) for q in _parts(p, depth + 1)]


def decoder_of(part: Fields | None) -> list[MakeStep]:
  """The steps of a decoder. ValueError names one that is not known here."""
  if part is None: return [_Spaces]
  parts = _parts(part, 0)
  if len(parts) > MOST_PARTS: raise ValueError(f"{part.where} has {len(parts)} parts; {MOST_PARTS} are possible")
  out, is_whole = list[MakeStep](), False
  for p in parts:
    out.append(_one(p, is_whole))
    is_whole = is_whole or p.get("type") in ("Fuse", "ByteLevel")
  return out


class Chain:
  """All steps for one text."""
  def __init__(self, makers: list[MakeStep], begins: bool) -> None: self._steps = [make(begins) for make in makers]

  def _through(self, tokens: list[str], first: int) -> list[str]:
    for step in self._steps[first:]: tokens = [made for token in tokens for made in step.feed(token)]
    return tokens

  def feed(self, token: str) -> str: return "".join(self._through([token], 0))

  def end(self) -> str: return "".join([s for i, step in enumerate(self._steps) for s in self._through(step.end(), i + 1)])
