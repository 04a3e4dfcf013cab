# SPDX-License-Identifier: MIT
"""What a language model computes, read from the values of its GGUF file: one description for all architectures that are known here."""
from __future__ import annotations

from typing import Any, NamedTuple

MOST = {"block_count": 1 << 10, "embedding_length": 1 << 17, "feed_forward_length": 1 << 20, "attention.head_count": 1 << 12, "attention.head_count_kv": 1 << 12,
        "attention.key_length": 1 << 12, "context_length": 1 << 27, "attention.sliding_window": 1 << 27}


class _Kind(NamedTuple):
  """How an architecture differs from the others."""
  interleaved: bool = False     # a rotation turns neighbours, element 2 i with 2 i + 1; else element i with i + half
  norm_before: bool = True      # attention and the feed-forward layer read normalised values
  norm_after: bool = False      # what the two give is normalised
  norm_heads: bool = False      # each head of queries and keys is normalised
  norm_all: bool = False        # all heads of queries are normalised together, and those of keys
  scaled_embedding: bool = False  # the embedding is multiplied by the square root of the width
  gelu: bool = False            # the gate of the feed-forward layer is gelu, by tanh; else silu
  period: int = 0               # of `period` layers all but the last one see a sliding window; 0: no layer does
  local_base: float = 0.0       # the base of rotations in layers with a sliding window


KINDS = {"llama": _Kind(interleaved=True), "qwen2": _Kind(), "qwen3": _Kind(norm_heads=True),
         "olmo2": _Kind(norm_before=False, norm_after=True, norm_all=True),
         "gemma3": _Kind(norm_after=True, norm_heads=True, scaled_embedding=True, gelu=True, period=6, local_base=10000.0)}


class Config(NamedTuple):
  """Sizes are numbers of elements. A head of keys serves heads // shared_heads heads of queries."""
  architecture: str
  kind: _Kind
  layers: int
  width: int
  hidden: int
  heads: int
  shared_heads: int
  head_width: int
  rotated: int            # elements of a head that are rotated, the first ones
  base: float             # of the angles
  scale: float            # angles are divided by it
  epsilon: float          # of normalisation
  window: int             # positions that a layer with a sliding window sees; 0: all
  context: int            # the most positions that the model was trained for
  words: int              # of the vocabulary

  def is_local(self, layer: int) -> bool:
    """Whether the layer sees a sliding window."""
    return self.window > 0 and self.kind.period > 0 and (layer + 1) % self.kind.period != 0


def config_of(values: dict[str, Any], words: int) -> Config:
  """The description in the values of a GGUF file. words: rows of the embedding. ValueError names a key that is missing or has no possible value."""
  architecture = values.get("general.architecture")
  if not isinstance(architecture, str) or architecture not in KINDS:
    raise ValueError(f"general.architecture is {architecture!r}; known here: {', '.join(KINDS)}")
  def value(key: str, default: Any = None) -> Any:
    found = values.get(f"{architecture}.{key}", default)
    if found is None: raise ValueError(f"the GGUF file has no `{architecture}.{key}`")
    return found
  def size(key: str, default: int | None = None) -> int:
    n = value(key, default)
    if isinstance(n, bool) or not isinstance(n, int) or not 0 < n <= MOST[key]: raise ValueError(f"{architecture}.{key} is {n!r}")
    return n
  def number(key: str, default: float | None = None, least: float = 0) -> float:
    x = value(key, default)
    if isinstance(x, bool) or not isinstance(x, (int, float)) or not 0 < x < 1e9 or x < least: raise ValueError(f"{architecture}.{key} is {x!r}")
    return float(x)
  kind = KINDS[architecture]
  width, heads = size("embedding_length"), size("attention.head_count")
  shared = size("attention.head_count_kv", heads)
  if heads % shared: raise ValueError(f"{architecture}.attention.head_count is {heads}, no multiple of head_count_kv, {shared}")
  if f"{architecture}.attention.key_length" not in values and width % heads:
    raise ValueError(f"{architecture}.embedding_length is {width}, no multiple of head_count, {heads}")
  each = size("attention.key_length", width // heads)
  if value("attention.value_length", each) != each: raise ValueError(f"{architecture}.attention.value_length is not key_length, {each}")
  rotated = value("rope.dimension_count", each)
  if isinstance(rotated, bool) or not isinstance(rotated, int) or rotated % 2 or not 0 < rotated <= each:
    raise ValueError(f"{architecture}.rope.dimension_count is {rotated!r}; heads have {each} elements")
  scaling = value("rope.scaling.type", "none")
  if scaling not in ("none", "linear"): raise ValueError(f"{architecture}.rope.scaling.type is {scaling!r}; known here: none, linear")
  return Config(architecture, kind, size("block_count"), width, size("feed_forward_length"), heads, shared, each, rotated, number("rope.freq_base", 10000.0, least=1),
                number("rope.scaling.factor", 1.0, least=1) if scaling == "linear" else 1.0, number("attention.layer_norm_rms_epsilon"),
                size("attention.sliding_window") if kind.period else 0, size("context_length"), words)
