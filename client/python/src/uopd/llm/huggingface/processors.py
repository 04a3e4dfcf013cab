# SPDX-License-Identifier: MIT
"""The `post_processor` of tokenizer.json: the tokens that begin and end a text."""
from __future__ import annotations

from .fields import Fields
from .normalizers import MOST_DEPTH, MOST_PARTS

Ends = tuple[int | None, int | None]


def _template(part: Fields) -> Ends:
  """`single` is a list such as <s> A: special tokens, and the text."""
  sides: list[list[int]] = [[], []]
  was_text = 0
  specials = part.object("special_tokens")
  for piece in part.objects("single", MOST_PARTS):
    if set(piece.values) == {"Sequence"}:
      was_text += 1
      continue
    if set(piece.values) != {"SpecialToken"}: raise ValueError(f"{piece.where} is neither a Sequence nor a SpecialToken")
    name = piece.object("SpecialToken").text("id")
    ids = specials.object(name).items("ids", 16)
    if not all(type(i) is int and i >= 0 for i in ids): raise specials.object(name).wrong("ids")
    sides[min(was_text, 1)] += ids
  if was_text != 1: raise ValueError(f"{part.name('single')} has the text {was_text} times")
  if max(map(len, sides)) > 1: raise ValueError(f"{part.name('single')} has more than one token on one side of the text, which is not known here")
  begin, end = (side[0] if side else None for side in sides)
  return begin, end


def ends_of(part: Fields, depth: int = 0) -> Ends:
  """The token that a text begins with, and the one that it ends with. ValueError names a post-processor that is not known here."""
  kind = part.one_of("type", ("TemplateProcessing", "ByteLevel", "Sequence"))
  if kind == "ByteLevel": return None, None  # that is about places in the text
  if kind == "TemplateProcessing": return _template(part)
  if depth > MOST_DEPTH: raise ValueError(f"{part.where[:200]} is nested too deeply")
  found = [ends for p in part.objects("processors", MOST_PARTS) if (ends := ends_of(p, depth + 1)) != (None, None)]
  if len(found) > 1: raise ValueError(f"{part.where} adds tokens more than once, which is not known here")
  return found[0] if found else (None, None)
