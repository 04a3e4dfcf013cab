# SPDX-License-Identifier: MIT
"""Texts that are looked for in a text that comes piece by piece."""
from __future__ import annotations


def begun(text: str, marks: list[str]) -> int:
  """How many characters at the end of a text may be the beginning of a mark."""
  longest = max(map(len, marks), default=1) - 1
  return next((n for n in range(min(longest, len(text)), 0, -1) if any(m.startswith(text[-n:]) for m in marks)), 0)


class Stops:
  """Ends a text before the first of some texts, also where it is spread over pieces."""
  def __init__(self, stops: list[str]) -> None: self._stops, self._held = stops, ""

  def feed(self, piece: str) -> tuple[str, bool]:
    """What is known to belong to the text, and whether the text has ended."""
    text = self._held + piece
    at = min((at for s in self._stops if (at := text.find(s)) >= 0), default=None)
    if at is not None:
      self._held = ""
      return text[:at], True
    n = len(text) - begun(text, self._stops)
    self._held = text[n:]
    return text[:n], False

  def end(self) -> str:
    """What was held back, where nothing follows."""
    held, self._held = self._held, ""
    return held
