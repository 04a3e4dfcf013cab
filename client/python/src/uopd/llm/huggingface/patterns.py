# SPDX-License-Identifier: MIT
"""Texts and regular expressions that tokenizer.json searches for. Its expressions are those of Oniguruma; here the package regex runs them."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .fields import Fields

Span = tuple[int, int]
Search = Callable[[str], list[Span]]

_MOST = 1 << 14          # characters of an expression
_SECONDS = 20.0          # for one text
_ESCAPES = "sSdDnrtfvu"
_GROUPS = ("(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:")
# \w of Oniguruma, for the package regex: in a set, and outside of sets.
_IN_SET = "[\\w--[\u200c\u200d]]"
_WORD = "[[\\w\u00b2\u00b3\u00b9\u00bc\u00bd\u00be]--[\u200c\u200d]]"
_FOLDED = ("ss", "ff", "fi", "fl", "st")  # single characters, such as \u00df, are these to Oniguruma where the case does not count


def _translated(source: str, where: str) -> str:
  """The expression for the package regex. What the two read differently, and is not translated here, is refused."""
  out, at, depth = list[str](), 0, 0  # depth: of brackets
  def refused(what: str) -> ValueError: return ValueError(f"{where} has {what!r}, which is not known here")
  if "(?i:" in source and (pair := next((f for f in _FOLDED if f in source.lower()), None)): raise refused(pair)
  while at < len(source):
    c, two = source[at], source[at:at + 2]
    if c == "\\":
      if len(two) < 2: raise ValueError(f"{where} ends with a backslash")
      if two in ("\\p", "\\P"):
        end = source.find("}", at)
        if source[at + 2:at + 3] != "{" or end < 0: raise refused(source[at:at + 3])
        out.append(source[at:end + 1])
        at = end + 1
        continue
      if two[1] == "w": out.append(_IN_SET if depth else _WORD)
      elif two[1].isalnum() and two[1] not in _ESCAPES: raise refused(two)
      else: out.append(two)
      at += 2
      continue
    if depth and two in ("--", "||", "~~"): raise refused(two)
    if c == "[": depth += 1
    elif c == "]" and depth: depth -= 1
    elif not depth:
      if source[at:at + 2] == "(?" and not source.startswith(_GROUPS, at): raise refused(source[at:at + 3])
      if two == "}+": raise refused(two)  # once more, for Oniguruma; without backtracking, for others
    out.append(c)
    at += 1
  return "".join(out)


def regex_search(source: str, where: str) -> Search:
  """Finds where a regular expression matches. A search that takes too long is a ValueError that begins with `where`."""
  if len(source) > _MOST: raise ValueError(f"{where} has {len(source)} characters; {_MOST} are possible")
  try: import regex
  except ImportError: raise ModuleNotFoundError("a tokenizer.json needs the package regex: pip install 'uopd[llm]', or pip install regex", name="regex") from None
  translated = _translated(source, where)
  # Oniguruma's ^ and $ are those of lines, and its sets nest.
  try: compiled: Any = regex.compile(translated, regex.VERSION1 | regex.MULTILINE)
  except (regex.error, RecursionError, OverflowError, MemoryError) as e: raise ValueError(f"{where} is no regular expression: {str(e)[:200]}") from None
  def search(text: str) -> list[Span]:
    try: return [m.span() for m in compiled.finditer(text, timeout=_SECONDS)]
    except TimeoutError: raise ValueError(f"{where} takes more than {_SECONDS:g} s for a text of {len(text)} characters") from None
  return search


def text_search(wanted: str) -> Search:
  """Finds where a text is, from the left."""
  def search(text: str) -> list[Span]:
    out, at = list[Span](), text.find(wanted)
    while at >= 0:
      out.append((at, at + len(wanted)))
      at = text.find(wanted, at + len(wanted))
    return out
  return search if wanted else lambda _: []


def search_of(part: Fields, name: str = "pattern") -> Search:
  """What the field `pattern` of a part of tokenizer.json searches for: {"String": text}, {"Regex": expression}, or a text alone."""
  given = part.get(name)
  if isinstance(given, str): return text_search(part.text(name, most=_MOST))
  fields = part.object(name)
  if set(fields.values) == {"String"}: return text_search(fields.text("String", most=_MOST))
  if set(fields.values) == {"Regex"}: return regex_search(fields.text("Regex"), fields.name("Regex"))
  raise part.wrong(name, "String or Regex is possible")
