# SPDX-License-Identifier: MIT
"""The parts of an answer, found in the text that a model writes: text, reasoning in <think>, calls of tools in <tool_call>."""
from __future__ import annotations

import json
import secrets
from typing import Any, NamedTuple

from .marks import begun

THINK, END_OF_THINK, CALL, END_OF_CALL = "<think>", "</think>", "<tool_call>", "</tool_call>"
MOST_CALLS = 128  # of an answer; what else looks like a call is text


class Part(NamedTuple):
  """A piece of the field `kind` of a message: content, reasoning_content, or tool_calls, of which it is a whole call."""
  kind: str
  text: str = ""
  call: dict[str, Any] | None = None


def _call_of(text: str) -> dict[str, Any] | None:
  """A call as Hermes models write it, {"name": ..., "arguments": {...}}; None if the text is none."""
  try: found = json.loads(text)
  except (ValueError, RecursionError): return None
  if not isinstance(found, dict) or not isinstance(found.get("name"), str): return None
  arguments = found.get("arguments", {})
  if not isinstance(arguments, dict): return None
  return {"id": f"call_{secrets.token_hex(12)}", "type": "function", "function": {"name": found["name"], "arguments": json.dumps(arguments, ensure_ascii=False)}}


class Answer:
  """Takes an answer piece by piece, and gives its parts. White space around reasoning and calls is left out. Reasoning is only at the beginning of an answer."""
  def __init__(self, has_tools: bool, in_reasoning: bool) -> None:
    """in_reasoning: whether the prompt ends with <think>."""
    self.calls = 0
    self._has_tools = has_tools
    self._text = ""  # what has come and was not given yet
    self._behind_space = self._in_reasoning  # the state that follows _in_space
    self._state = self._in_space if in_reasoning else self._at_beginning
    self._out: list[Part] = []

  def feed(self, piece: str) -> list[Part]:
    """The parts that are known with one more piece."""
    self._text += piece
    return self._known(False)

  def end(self) -> list[Part]:
    """The parts that were held back, where nothing follows."""
    return self._known(True)

  def _known(self, ends: bool) -> list[Part]:
    while self._state(ends): pass
    out, self._out = self._out, []
    return out

  # Each state gives what it knows of the text. True: another state goes on with the rest.

  def _at_beginning(self, ends: bool) -> bool:
    text = self._text.lstrip()
    if text.startswith(THINK): self._text, self._state = text[len(THINK):], self._in_space
    elif THINK.startswith(text) and not ends: return False
    else: self._state = self._in_content
    return True

  def _in_reasoning(self, ends: bool) -> bool:
    before, mark, rest = self._text.partition(END_OF_THINK)
    self._give("reasoning_content", before, END_OF_THINK, ends or bool(mark))
    if not mark: return False
    self._text, self._state, self._behind_space = rest, self._in_space, self._in_content
    return True

  def _in_content(self, ends: bool) -> bool:
    if not self._has_tools:
      if self._text: self._out.append(Part("content", self._text))
      self._text = ""
      return False
    before, mark, rest = self._text.partition(CALL)
    self._give("content", before, CALL, ends or bool(mark))
    if not mark: return False
    self._text, self._state = rest, self._in_call
    return True

  def _in_call(self, ends: bool) -> bool:
    inside, mark, rest = self._text.partition(END_OF_CALL)
    if not mark and not ends: return False
    call = _call_of(inside) if self.calls < MOST_CALLS else None
    if call is not None:
      self.calls += 1
      self._out.append(Part("tool_calls", call=call))
    else: self._out.append(Part("content", CALL + inside + mark))
    self._text, self._state, self._behind_space = rest, self._in_space, self._in_content
    return bool(mark)

  def _in_space(self, ends: bool) -> bool:
    self._text = self._text.lstrip()
    if not self._text: return False
    self._state = self._behind_space
    return True

  def _give(self, kind: str, text: str, mark: str, whole: bool) -> None:
    """Gives a text but for white space at its end, which may stand before a mark. whole: nothing of its kind follows."""
    kept = text if whole else text[:len(text) - begun(text, [mark])]
    kept = kept.rstrip()
    self._text = text[len(kept):]
    if kept: self._out.append(Part(kind, kept))
