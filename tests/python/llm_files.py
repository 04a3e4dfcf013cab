# SPDX-License-Identifier: MIT
"""Small language models of random weights as GGUF files, and what they compute in float64, written down without uopd."""
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFWriter, quants

WIDTH, HIDDEN, HEADS, SHARED, EACH, LAYERS, WORDS, CONTEXT, WINDOW = 256, 512, 4, 2, 64, 7, 300, 256, 16
EPSILON, BASE = 1e-5, 50000.0
MATRICES = {"attn_q": (HEADS * EACH, WIDTH), "attn_k": (SHARED * EACH, WIDTH), "attn_v": (SHARED * EACH, WIDTH), "attn_output": (WIDTH, HEADS * EACH), "ffn_gate": (HIDDEN, WIDTH),
            "ffn_up": (HIDDEN, WIDTH), "ffn_down": (WIDTH, HIDDEN)}
NORMS = {"llama": ["attn_norm", "ffn_norm"], "qwen2": ["attn_norm", "ffn_norm"], "qwen3": ["attn_norm", "ffn_norm", "attn_q_norm", "attn_k_norm"],
         "olmo2": ["post_attention_norm", "post_ffw_norm", "attn_q_norm", "attn_k_norm"],
         "gemma3": ["attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm", "attn_q_norm", "attn_k_norm"]}


class Sizes(NamedTuple):
  """What the reference needs to know besides the weights."""
  heads: int = HEADS
  shared: int = SHARED
  each: int = EACH
  base: float = BASE
  epsilon: float = EPSILON


# The types of weights take turns. Values are what a reader of the file computes of them.
KINDS = [Type.Q8_0, Type.Q4_0, Type.F16, Type.Q5_1, Type.BF16, Type.Q4_1, Type.F32, Type.Q5_0]


def write_model(path, architecture, layers=LAYERS, seed=1, kinds=KINDS, tied=None, factors=False):
  """A file with random weights; returns their values by name, in float64."""
  rng = np.random.default_rng(seed)
  writer, values = GGUFWriter(path, architecture), {}
  writer.add_block_count(layers)
  writer.add_embedding_length(WIDTH)
  writer.add_feed_forward_length(HIDDEN)
  writer.add_head_count(HEADS)
  writer.add_head_count_kv(SHARED)
  writer.add_key_length(EACH)
  writer.add_value_length(EACH)
  writer.add_context_length(CONTEXT)
  writer.add_layer_norm_rms_eps(EPSILON)
  writer.add_rope_freq_base(BASE)
  writer.add_rope_dimension_count(EACH)
  if architecture == "gemma3": writer.add_sliding_window(WINDOW)
  writer.add_vocab_size(WORDS)
  # Words: the bytes, then pairs of letters, then two that control.
  letters = [chr(b) if 33 <= b < 127 or 161 <= b < 173 or 174 <= b else None for b in range(256)]
  extra = iter(range(256, 512))
  words = [c if c is not None else chr(next(extra)) for c in letters]
  words += [f"a{c}" for c in words[97:97 + WORDS - 258]]
  writer.add_tokenizer_model("gpt2")
  writer.add_tokenizer_pre("gpt-2")
  writer.add_token_list(words + ["<|im_start|>", "<|im_end|>"])
  writer.add_token_types([1] * (WORDS - 2) + [3] * 2)
  writer.add_token_merges([f"a {w[1:]}" for w in words[256:]])
  writer.add_bos_token_id(0)
  writer.add_eos_token_id(WORDS - 1)
  writer.add_add_bos_token(False)
  turn = 0

  def add(name, value, kind):
    raw = quants.quantize(value.astype(np.float32), kind)
    writer.add_tensor(name, raw, raw_dtype=kind)
    values[name] = quants.dequantize(raw, kind).reshape(value.shape).astype(np.float64)

  def matrix(name, shape):
    nonlocal turn
    add(name, rng.standard_normal(shape) / math.sqrt(shape[1]), kinds[turn % len(kinds)])
    turn += 1

  matrix("token_embd.weight", (WORDS, WIDTH))
  add("output_norm.weight", rng.uniform(0.5, 1.5, WIDTH), Type.F32)
  if not (architecture == "gemma3" if tied is None else tied): matrix("output.weight", (WORDS, WIDTH))
  if factors: add("rope_freqs.weight", rng.uniform(1, 8, EACH // 2), Type.F32)
  for i in range(layers):
    for name, shape in MATRICES.items():
      matrix(f"blk.{i}.{name}.weight", shape)
      if architecture == "qwen2" and name in ("attn_q", "attn_k", "attn_v"): add(f"blk.{i}.{name}.bias", rng.standard_normal(shape[0]), Type.F32)
    for name in NORMS[architecture]:
      length = WIDTH if "_norm" in name and name not in ("attn_q_norm", "attn_k_norm") else EACH
      if architecture == "olmo2" and length == EACH: length = HEADS * EACH if name == "attn_q_norm" else SHARED * EACH
      add(f"blk.{i}.{name}.weight", rng.uniform(0.5, 1.5, length), Type.F32)
  writer.write_header_to_file()
  writer.write_kv_data_to_file()
  writer.write_tensors_to_file()
  writer.close()
  return values


def _rms(x, weight, epsilon): return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weight


def _rotate(x, architecture, base, factors):
  """Rotates x (tokens, heads, elements), of which the first token is at position 0."""
  each = x.shape[-1]
  speed = base ** (-np.arange(0, each, 2) / each) / factors
  turn = np.exp(1j * np.arange(len(x))[:, None] * speed)[:, None, :]
  if architecture == "llama":
    z = (x[..., 0::2] + 1j * x[..., 1::2]) * turn
    return np.stack([z.real, z.imag], -1).reshape(x.shape)
  z = (x[..., :each // 2] + 1j * x[..., each // 2:]) * turn
  return np.concatenate([z.real, z.imag], -1)


def _attention(q, k, v, window):
  """Heads of queries (tokens, heads, elements), those of keys and values for several of them; a token sees `window` positions, or all before it."""
  n, heads, each = q.shape
  out = []
  for head in range(heads):
    shared = head // (heads // k.shape[1])
    scores = q[:, head] @ k[:, shared].T / math.sqrt(each)
    distance = np.arange(n)[:, None] - np.arange(n)
    scores[(distance < 0) | (distance >= (window or n))] = -np.inf
    e = np.exp(scores - scores.max(-1, keepdims=True))
    out.append(e / e.sum(-1, keepdims=True) @ v[:, shared])
  return np.concatenate(out, -1)


def logits_of(values, architecture, tokens, sizes=Sizes()):
  """The scores of all words behind each of the tokens, (tokens, words), all tokens at once."""
  w, n = values, len(tokens)
  def rms(x, weight): return _rms(x, weight, sizes.epsilon)
  x = w["token_embd.weight"][tokens]
  if architecture == "gemma3": x = x * math.sqrt(x.shape[1])
  for i in range(sum(name.endswith("attn_q.weight") for name in w)):
    def get(name, default=None, i=i): return w.get(f"blk.{i}.{name}", default)
    local = architecture == "gemma3" and i % 6 != 5
    h = rms(x, get("attn_norm.weight")) if architecture != "olmo2" else x
    q, k, v = (h @ get(f"attn_{p}.weight").T + get(f"attn_{p}.bias", 0.0) for p in "qkv")
    if architecture == "olmo2": q, k = rms(q, get("attn_q_norm.weight")), rms(k, get("attn_k_norm.weight"))
    q, k, v = (y.reshape(n, -1, sizes.each) for y in (q, k, v))
    if architecture in ("qwen3", "gemma3"): q, k = rms(q, get("attn_q_norm.weight")), rms(k, get("attn_k_norm.weight"))
    base, factors = (10000.0, 1.0) if local else (sizes.base, w.get("rope_freqs.weight", 1.0))
    q, k = _rotate(q, architecture, base, factors), _rotate(k, architecture, base, factors)
    a = _attention(q, k, v, WINDOW if local else 0) @ get("attn_output.weight").T
    x = x + (rms(a, get("post_attention_norm.weight")) if architecture in ("olmo2", "gemma3") else a)
    h = rms(x, get("ffn_norm.weight")) if architecture != "olmo2" else x
    gate, up = h @ get("ffn_gate.weight").T, h @ get("ffn_up.weight").T
    if architecture == "gemma3": gate = 0.5 * gate * (1 + np.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate ** 3)))
    else: gate = gate / (1 + np.exp(-gate))
    y = (gate * up) @ get("ffn_down.weight").T
    x = x + (rms(y, get("post_ffw_norm.weight")) if architecture in ("olmo2", "gemma3") else y)
  return rms(x, w["output_norm.weight"]) @ w.get("output.weight", w["token_embd.weight"]).T


def tokens(n, seed=0): return [int(t) for t in np.random.default_rng(seed).integers(0, WORDS, n)]


def finish(batch):
  while batch.step(): pass


def follows(values, architecture, prompt, written):
  """Whether each written token is the likeliest one, or less likely by no more than float32 can tell."""
  scores = logits_of(values, architecture, prompt + written)
  for i, t in enumerate(written):
    s = scores[len(prompt) + i - 1]
    if s.max() - s[t] > 1e-3 * np.abs(s).max(): return False
  return True
