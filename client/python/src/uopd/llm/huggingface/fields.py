# SPDX-License-Identifier: MIT
"""Checked access to the values of a JSON object, which names the file and the field in every error."""
from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Any

_MISSING = object()


def shown(value: Any) -> str:
  """A value in a message, cut to a length that a message can have."""
  try: text = repr(value if not isinstance(value, str) else value[:200])
  except RecursionError: return "a value that is nested too deeply"
  except ValueError: return "a number with too many digits"
  return text if len(text) <= 100 else f"{text[:97]}..."


class Fields:
  """The fields of a JSON object. A field that is null counts as missing. A field that has no possible value is a ValueError with `where` and its name."""
  def __init__(self, values: Any, where: str) -> None:
    if not isinstance(values, dict): raise ValueError(f"{where} is {shown(values)}, which is no JSON object")
    self.values: dict[str, Any] = values
    self.where = where

  def __contains__(self, name: str) -> bool: return self.values.get(name) is not None

  def name(self, name: str) -> str:
    """How a field is called in messages."""
    return f"{self.where}: {name}"

  def wrong(self, name: str, why: str = "") -> ValueError:
    return ValueError(f"{self.name(name)} is {shown(self.values.get(name))}{why and '; ' + why}")

  def get(self, name: str, default: Any = _MISSING) -> Any:
    found = self.values.get(name)
    if found is not None: return found
    if default is _MISSING: raise ValueError(f"{self.where} has no `{name}`")
    return default

  def size(self, name: str, most: int, default: Any = _MISSING) -> int:
    """A whole number from 1 to `most`."""
    n = self.get(name, default)
    if type(n) is not int or not 0 < n <= most: raise self.wrong(name, f"1 to {most} is possible")
    return n

  def number(self, name: str, default: Any = _MISSING, least: float = 1e-30) -> float:
    """A number from `least` to 10^9."""
    x = self.get(name, default)
    if type(x) not in (int, float) or not least <= x <= 1e9: raise self.wrong(name, f"a number from {least:g} to 1e+09 is possible")
    return float(x)

  def flag(self, name: str, default: Any = _MISSING) -> bool:
    v = self.get(name, default)
    if type(v) is not bool: raise self.wrong(name, "true and false are possible")
    return v

  def text(self, name: str, default: Any = _MISSING, most: int = 1 << 16) -> str:
    """A text without halves of surrogates, of at most `most` characters."""
    v = self.get(name, default)
    if type(v) is not str or len(v) > most or not is_text(v): raise self.wrong(name, f"a text of at most {most} characters is possible")
    return v

  def one_of(self, name: str, known: Collection[str], default: Any = _MISSING) -> str:
    v = self.get(name, default)
    if type(v) is not str or v not in known: raise self.wrong(name, f"known here: {', '.join(known)}")
    return v

  def items(self, name: str, most: int, default: Any = _MISSING) -> list[Any]:
    v = self.get(name, default)
    if type(v) is not list or len(v) > most: raise self.wrong(name, f"a list of at most {most} elements is possible")
    return v

  def object(self, name: str) -> Fields: return Fields(self.get(name), self.name(name))

  def objects(self, name: str, most: int, default: Any = _MISSING) -> Iterator[Fields]:
    """The elements of a list of objects."""
    for i, v in enumerate(self.items(name, most, default)): yield Fields(v, f"{self.name(name)}[{i}]")

  def only(self, known: Collection[str]) -> None:
    """Refuses the first field that is none of these: it could change a result."""
    for name, value in self.values.items():
      if name not in known and value is not None: raise ValueError(f"{self.where} has the field {shown(name)}, which is not known here")


def is_text(s: str) -> bool:
  """Whether a text has no half of a surrogate, which JSON can write and UTF-8 cannot."""
  if s.isascii(): return True
  try: s.encode()
  except UnicodeEncodeError: return False
  return True


def finite(x: Any) -> bool:
  """Whether a value is a finite number."""
  try: return type(x) in (int, float) and math.isfinite(x)
  except OverflowError: return False
