# SPDX-License-Identifier: MIT
"""What config.json says about rotations of queries and keys, in the form of transformers 4 (`rope_theta`, `rope_scaling`) and of 5 (`rope_parameters`)."""
from __future__ import annotations

import math
from typing import NamedTuple

from .fields import Fields, shown

_KNOWN = ("default", "linear", "llama3")
_NUMBERS = {"default": (), "linear": ("factor",), "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")}


class Rope(NamedTuple):
  """Angles are position * base ** (-2 i / elements) / scale / factors[i]."""
  base: float
  scale: float = 1.0
  factors: tuple[float, ...] | None = None


def _llama3(given: Fields, base: float, rotated: int) -> tuple[float, ...]:
  """Rotations that turn less than `low` times in the length of the first training are slowed by `factor`, those that turn more than `high` times are not, and those
  between them in proportion (Llama 3.1, "The Llama 3 Herd of Models")."""
  factor, low, high = given.number("factor", least=1), given.number("low_freq_factor"), given.number("high_freq_factor")
  length = given.number("original_max_position_embeddings", least=1)
  if high <= low: raise given.wrong("high_freq_factor", f"it is above low_freq_factor, {low:g}")
  out = []
  for i in range(rotated // 2):
    turns = length * base ** (-2 * i / rotated) / math.tau
    kept = min(max((turns - low) / (high - low), 0.0), 1.0)
    out.append(1 / (kept + (1 - kept) / factor))
  return tuple(out)


def _read(given: Fields, base: float, rotated: int) -> Rope:
  kind = given.one_of("rope_type", _KNOWN, given.get("type", "default"))
  if "type" in given and given.get("type") != kind: raise given.wrong("type", f"rope_type is {kind!r}")
  given.only(("type", "rope_type", "rope_theta", "partial_rotary_factor", *_NUMBERS[kind]))
  if given.get("partial_rotary_factor", 1) != 1: raise given.wrong("partial_rotary_factor", "known here: 1")
  if kind == "linear": return Rope(base, given.number("factor", least=1))
  if kind == "llama3": return Rope(base, 1.0, _llama3(given, base, rotated))
  return Rope(base)


def rope_of(config: Fields, rotated: int, base: float, kind: str | None = None) -> Rope:
  """The rotations. base: if the file names none. kind: of the layers, for a model that has several kinds (`full_attention`)."""
  if "rope_parameters" in config:
    given = config.object("rope_parameters")
    if kind is not None and kind in given: given = given.object(kind)
    for other in ("rope_theta", "rope_scaling"):
      if other in config: raise ValueError(f"{config.where} has both rope_parameters and {other}: {shown(config.get(other))}")
    return _read(given, given.number("rope_theta", base, least=1), rotated)
  theta = config.number("rope_theta", base, least=1)
  return _read(config.object("rope_scaling"), theta, rotated) if "rope_scaling" in config else Rope(theta)
