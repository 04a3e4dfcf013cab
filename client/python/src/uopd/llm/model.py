# SPDX-License-Identifier: MIT
"""Language models from GGUF files. The weights stay in the blocks of the file on the daemon; kernels compute from these."""
from __future__ import annotations

import collections
import functools
import math
import operator
import os
from typing import Any, Iterator, Mapping

from .. import _core
from ..dtype import dtypes
from ..jit import TinyJit
from ..tensor import Tensor
from ..variable import Size, Variable
from .config import Config, config_of
from .gguf import stored_in
from .packed import Factor, Packed, Part, packed_of
from .places import Places, Span

# Tokens of a prompt that are computed at once: the larger parts read the weights less often. Where a prompt has fewer tokens, the others of a part are computed in vain.
LONG, CHUNK = 128, 32
FEW = 8     # so many tokens are computed one by one
AHEAD = 2   # tokens that are asked for before the one that is waited for has come


def part_for(left: int, room: int) -> int:
  """How many tokens a part of a prompt has, of which `left` tokens are left. It takes no more positions than `room`; 1: the tokens are computed one by one."""
  if left <= FEW: return 1
  return next((n for n in (LONG, CHUNK) if n - CHUNK < left and n <= room), 1)


def _angles(config: Config, base: float, scale: float, length: int, factors: Tensor | None) -> Tensor:
  """Cosines and sines of each position, (length, 2, rotated / 2). Angles are counted in parts of a turn with 64 bits, so that those of late positions are as exact as the first."""
  by = [1.0] * (config.rotated // 2) if factors is None else [float(f) for f in factors.tolist()]
  if not all(0 < f < math.inf for f in by): raise ValueError("tensor `rope_freqs.weight` has a number that is not above 0")
  steps = [int(base ** (-2 * i / config.rotated) / scale / f / math.tau * 2 ** 64) % 2 ** 64 for i, f in enumerate(by)]
  turns = Tensor.arange(length, dtype=dtypes.uint64).reshape(-1, 1) * Tensor(steps, dtype=dtypes.uint64)
  angles = (turns >> 40).float() * (math.tau / 2 ** 24)
  return Tensor.stack(angles.cos(), angles.sin(), dim=1).contiguous().realize()


def shapes_of(c: Config) -> dict[str, tuple[int, ...]]:
  """The names and shapes of the tensors that a model must have, by the names of GGUF files."""
  heads, shared = c.heads * c.head_width, c.shared_heads * c.head_width
  layer: dict[str, tuple[int, ...]] = {
    "attn_q": (heads, c.width), "attn_k": (shared, c.width), "attn_v": (shared, c.width), "attn_output": (c.width, heads), "ffn_gate": (c.hidden, c.width), "ffn_up": (c.hidden, c.width),
    "ffn_down": (c.width, c.hidden)}
  if c.kind.norm_before: layer |= {"attn_norm": (c.width,), "ffn_norm": (c.width,)}
  if c.kind.norm_after: layer |= {"post_attention_norm": (c.width,), "post_ffw_norm": (c.width,)}
  if c.kind.norm_heads: layer |= {"attn_q_norm": (c.head_width,), "attn_k_norm": (c.head_width,)}
  if c.kind.norm_all: layer |= {"attn_q_norm": (heads,), "attn_k_norm": (shared,)}
  return ({"token_embd.weight": (c.words, c.width), "output_norm.weight": (c.width,)}
          | {f"blk.{i}.{name}.weight": shape for i in range(c.layers) for name, shape in layer.items()})


def _multiplied_together(c: Config) -> list[tuple[str, ...]]:
  """The names of matrices that are multiplied by the same vectors, and are quicker as one matrix. Those of the feed-forward network are one kernel with its activation as they are."""
  return [tuple(f"blk.{i}.{name}.weight" for name in ("attn_q", "attn_k", "attn_v")) for i in range(c.layers)]


class Model:
  """A decoder. It holds a cache of keys and values for one sequence of at most `max_context` tokens.

  Not for several threads at once.
  """
  def __init__(self, config: Config, weights: Mapping[str, Tensor | Packed | Part], max_context: int = 4096) -> None:
    """weights: by the names of GGUF files. ValueError names a tensor that is missing or has another shape than the description says."""
    if max_context < 1: raise ValueError(f"max_context is {max_context}")
    self.config = config
    self._w = {name: w for name, w in weights.items() if isinstance(w, Tensor)}
    self._packed = {name: w for name, w in weights.items() if isinstance(w, (Packed, Part))}
    self.max_context = min(max_context, config.context)
    c = config
    for name, shape in shapes_of(c).items():
      if name not in weights: raise ValueError(f"the model has no tensor `{name}`")
      self._must_be(name, shape)
    self._words_by = "output.weight" if "output.weight" in weights else "token_embd.weight"
    if "output.weight" in weights: self._must_be("output.weight", (c.words, c.width))
    for i in range(c.layers):
      for name, n in {"attn_q": c.heads * c.head_width, "attn_k": c.shared_heads * c.head_width, "attn_v": c.shared_heads * c.head_width}.items():
        if f"blk.{i}.{name}.bias" in weights: self._must_be(f"blk.{i}.{name}.bias", (n,))
    factors = self._w.get("rope_freqs.weight")
    if factors is not None: self._must_be("rope_freqs.weight", (c.rotated // 2,))
    self._global = _angles(c, c.base, c.scale, self.max_context, factors)
    self._local = _angles(c, c.kind.local_base, 1.0, self.max_context, None) if c.window and c.kind.period else self._global
    self._seen: list[int] = []  # the tokens whose keys and values the cache has
    self._is_whole = True  # whether the caches have contents: the daemon loses those that a run wrote as it was cut off
    self._turn = 0  # the number of the generation that the cache belongs to
    # Recordings of parts of a prompt by their lengths, of which a variable says how many tokens count, and of a single token.
    self._parts = {n: TinyJit(self._greedy) for n in (LONG, CHUNK)}
    self._single = TinyJit(self._greedy)

  @staticmethod
  def from_gguf(path: str | os.PathLike[str], max_context: int = 4096, device: Any = None) -> tuple[Model, dict[str, Any]]:
    """The model of a file, and the file's values. Every tensor is sent to the daemon once, as it is in the file."""
    values, stored = stored_in(path)
    words = stored.get("token_embd.weight")
    if words is None: raise ValueError("the GGUF file has no tensor `token_embd.weight`")
    config = config_of(values, words.shape[0])
    return Model(config, packed_of(stored, device, _multiplied_together(config)), max_context), values

  def _must_be(self, name: str, shape: tuple[int, ...]) -> None:
    found = self._packed[name].shape if name in self._packed else self._w[name].shape
    if found != shape: raise ValueError(f"tensor `{name}` has the shape {found}; {self.config.architecture} has {shape} there")

  def _norm(self, x: Tensor, name: str) -> Tensor: return x * (x.square().mean(-1, keepdim=True) + self.config.epsilon).rsqrt() * self._w[name].float()
  def _product(self, x: Factor, name: str) -> Tensor:
    packed = self._packed.get(name)
    y = x.x.matmul(self._w[name].transpose()) if packed is None else packed.product(x)
    return y if x.x.shape[0] == 1 or isinstance(packed, Part) else y.contiguous()  # a kernel that multiplies several rows by several matrices has too few registers
  def _linear(self, x: Factor, name: str) -> Tensor:
    y = self._product(x, f"{name}.weight")
    bias = self._w.get(f"{name}.bias")
    return y if bias is None else y + bias

  def _turned(self, x: Tensor, at: Tensor) -> Tensor:
    """Rotates each head of x (tokens, heads, elements) by the angles of its token."""
    n = self.config.rotated
    cos, sin = at[:, 0].unsqueeze(1), at[:, 1].unsqueeze(1)
    part = x[..., :n]
    if self.config.kind.interleaved:
      pairs = part.reshape(*part.shape[:-1], n // 2, 2)
      a, b = pairs[..., 0], pairs[..., 1]
      turned = Tensor.stack(a * cos - b * sin, a * sin + b * cos, dim=-1).flatten(-2)
    else:
      a, b = part[..., :n // 2], part[..., n // 2:]
      turned = (a * cos - b * sin).cat(a * sin + b * cos, dim=-1)
    return turned if n == self.config.head_width else turned.cat(x[..., n:], dim=-1)

  def _attention(self, x: Tensor, layer: int, places: Places) -> Tensor:
    c, name, count = self.config, f"blk.{layer}.", x.shape[0]
    factor = Factor(x)
    q, k, v = (self._linear(factor, name + part) for part in ("attn_q", "attn_k", "attn_v"))
    if c.kind.norm_all: q, k = self._norm(q, name + "attn_q_norm.weight"), self._norm(k, name + "attn_k_norm.weight")
    q, k, v = q.reshape(count, c.heads, c.head_width), k.reshape(count, c.shared_heads, c.head_width), v.reshape(count, c.shared_heads, c.head_width)
    if c.kind.norm_heads: q, k = self._norm(q, name + "attn_q_norm.weight"), self._norm(k, name + "attn_k_norm.weight")
    angles = places.angles(self._local if c.is_local(layer) else self._global)
    q, k = self._turned(q, angles), self._turned(k, angles)
    return self._linear(Factor(places.attend(layer, q, k, v)), name + "attn_output")

  def _layer(self, x: Tensor, layer: int, places: Places) -> Tensor:
    c, name = self.config, f"blk.{layer}."
    def after(y: Tensor, norm: str) -> Tensor: return self._norm(y, name + norm) if c.kind.norm_after else y
    h = self._norm(x, name + "attn_norm.weight") if c.kind.norm_before else x
    x = x + after(self._attention(h, layer, places), "post_attention_norm.weight")
    factor = Factor(self._norm(x, name + "ffn_norm.weight") if c.kind.norm_before else x)
    gate = self._linear(factor, name + "ffn_gate")
    h = (gate.gelu() if c.kind.gelu else gate.silu()) * self._linear(factor, name + "ffn_up")
    return x + after(self._linear(Factor(h), name + "ffn_down"), "post_ffw_norm.weight")

  def logits(self, tokens: Tensor, at: Size | int, count: Size | int | None = None) -> Tensor:
    """The scores of all words behind the last of the first `count` tokens (all of them if None), of which the first is at position `at`, as (words,). The keys and values
    of the tokens go to the cache, which must have those of all positions before; realise `caches` with the result. Tokens behind the first `count` leave nothing of use there."""
    places = Span(self.config, self.caches, 0, at, tokens.shape[0])
    return self.scores(tokens, places, tokens.shape[0] if count is None else count).reshape(self.config.words)

  def scores(self, tokens: Tensor, places: Places, behind: Size | int | None = None) -> Tensor:
    """The scores of all words behind each of the tokens (count,), as (count, words), or behind the first `behind` tokens alone, as (1, words). `places` stores keys and values:
    realise its caches with the result."""
    c = self.config
    embedding = self._packed["token_embd.weight"].tensor() if "token_embd.weight" in self._packed else self._w["token_embd.weight"]
    x = embedding[tokens].float().contiguous()
    if c.kind.scaled_embedding: x = x * math.sqrt(c.width)
    for layer in range(c.layers): x = self._layer(x, layer, places)
    if behind is not None: x = x[behind - 1:behind]
    return self._product(Factor(self._norm(x, "output_norm.weight")), self._words_by)

  @functools.cached_property
  def caches(self) -> list[Tensor]:
    """Keys and values of each layer, (1, 2, shared heads, max_context, elements of a head). The first use makes them: a model that a Batch computes with needs none of its own."""
    c = self.config
    return [Tensor.zeros(1, 2, c.shared_heads, self.max_context, c.head_width).contiguous().realize() for _ in range(c.layers)]

  def _greedy(self, tokens: Tensor, at: Size | int, count: Size | int | None = None) -> Tensor:
    token = self.logits(tokens, at, count).argmax(-1).cast(dtypes.int32).reshape(1)
    Tensor.realize(token, *self.caches)
    return token

  def _repair(self) -> None:
    """Gives the caches contents again, in the memory that the recordings use."""
    if self._is_whole: return
    for cache in self.caches: cache.assign(Tensor.zeros(*cache.shape))
    Tensor.realize(*self.caches)
    self._is_whole = True

  def _prefill(self, prompt: list[int]) -> Tensor:
    """Computes the tokens of the prompt that the cache does not have; the last one always. Gives the next token."""
    known = 0
    while known < min(len(prompt) - 1, len(self._seen)) and self._seen[known] == prompt[known]: known += 1
    self._seen = self._seen[:known]
    at = Variable("at", 0, self.max_context - 1)
    token = None
    while known < len(prompt):
      size = part_for(len(prompt) - known, self.max_context - known)
      if size > 1:
        part = prompt[known:known + size]
        n, count = len(part), Variable("count", 1, size)
        token = self._parts[size](Tensor(part + [0] * (size - n), dtype=dtypes.int32).realize(), at.bind(known), count.bind(n))
      else:
        n = 1
        token = self._single(Tensor([prompt[known]], dtype=dtypes.int32).realize(), at.bind(known))
      known += n
      self._seen = prompt[:known]
    assert token is not None
    return token

  def generate(self, prompt: list[int], most: int | None = None) -> Iterator[int]:
    """The tokens that follow the prompt, each the likeliest one: at most `most` of them, and no more than the context has room for. Tokens at the beginning that the prompt
    has in common with what was computed before are not computed again. ValueError for a prompt that is empty, does not fit, or has tokens that are no words; TypeError for what is no integer.

    The model has one cache: the next call ends this one, whose iterator is a RuntimeError then.
    """
    prompt = [operator.index(t) for t in prompt]
    if not prompt: raise ValueError("the prompt has no tokens")
    if len(prompt) > self.max_context: raise ValueError(f"the prompt has {len(prompt)} tokens; the context has {self.max_context}")
    wrong = [t for t in prompt if not 0 <= t < self.config.words]
    if wrong: raise ValueError(f"the prompt has the token {wrong[0]}; the model has {self.config.words} words")
    return self._generated(prompt, most)

  def _generated(self, prompt: list[int], most: int | None) -> Iterator[int]:
    self._turn += 1
    mine, at = self._turn, Variable("at", 0, self.max_context - 1)
    coming: collections.deque[_core.Reading] = collections.deque()  # tokens that are computed, or will be, and not known yet
    try:
      self._repair()
      token, asked = self._prefill(prompt), len(prompt)  # asked: the tokens that the cache has or is about to have
      if most is None or most > 0: coming.append(_core.begin_read(token._h))
      said = 0
      while coming:
        while len(coming) <= AHEAD and asked < self.max_context and (most is None or said + len(coming) < most):
          token = self._single(token, at.bind(asked))
          asked += 1
          coming.append(_core.begin_read(token._h))
        word = int.from_bytes(coming.popleft().contents(), "little", signed=True)
        said += 1
        if len(prompt) + said <= asked: self._seen.append(word)
        yield word
        if self._turn != mine: raise RuntimeError("the model began another generation, which ended this one")
    except GeneratorExit: raise  # the caller has enough; what was asked for is computed
    except BaseException:  # Ctrl-C too, which cancels what was asked for
      if self._turn == mine: self._seen, self._is_whole = [], False
      raise
