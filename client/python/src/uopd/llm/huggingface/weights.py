# SPDX-License-Identifier: MIT
"""The weights of a folder by the names of GGUF files, which the model has for them. All are checked before the first one is sent."""
from __future__ import annotations

from typing import Any

from ...disk import constants_of
from ...dtype import dtypes
from ...tensor import Tensor
from ..model import shapes_of
from .config import Description

_PLAIN = (dtypes.bfloat16, dtypes.float16, dtypes.float32)
_OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
_IN_LAYER = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
             "attn_k_norm": "self_attn.k_norm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
             "post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}


def _name_of(gguf: str, norm_after: bool) -> str:
  """The name in a safetensors file of a tensor of a GGUF file."""
  stem, kind = gguf.rsplit(".", 1)
  if stem in _OUTSIDE: return f"{_OUTSIDE[stem]}.{kind}"
  _, layer, part = stem.split(".")
  # The norm in front of the feed-forward layer is the one behind attention, for models that normalise once.
  inside = ("pre_feedforward_layernorm" if norm_after else "post_attention_layernorm") if part == "ffn_norm" else _IN_LAYER[part]
  return f"model.layers.{layer}.{inside}.{kind}"


def _wanted(d: Description) -> dict[str, tuple[str, tuple[int, ...]]]:
  """For each tensor that the files must have: its name in GGUF files, and its shape."""
  c, shapes = d.config, shapes_of(d.config)
  for i in range(c.layers):
    for part in d.biases: shapes[f"blk.{i}.{part}.bias"] = shapes[f"blk.{i}.{part}.weight"][:1]
  out = {_name_of(name, c.kind.norm_after): (name, shape) for name, shape in shapes.items()}
  if not d.tied: out["lm_head.weight"] = ("output.weight", (c.words, c.width))
  return out


def _is_ignored(name: str, d: Description) -> bool:
  """Whether a tensor has nothing that the model reads: angles, which old files have, and an output that is the embedding."""
  return name.endswith(".rotary_emb.inv_freq") or (d.tied and name == "lm_head.weight")


def _check(tensors: dict[str, Tensor], wanted: dict[str, tuple[str, tuple[int, ...]]], d: Description) -> None:
  architecture = d.config.architecture
  for name, (_, shape) in wanted.items():
    t = tensors.get(name)
    if t is None: raise ValueError(f"the model has no tensor `{name}`")
    if t.shape != shape: raise ValueError(f"tensor `{name}` has the shape {t.shape}; {architecture} has {shape} there by config.json")
    if t.dtype not in _PLAIN: raise ValueError(f"tensor `{name}` is of {t.dtype.name}; bfloat16, float16 and float32 are possible")
  for name in tensors:
    if name not in wanted and not _is_ignored(name, d): raise ValueError(f"the model has the tensor `{name[:200]}`, which {architecture} does not have by config.json")


def weights_of(tensors: dict[str, Tensor], d: Description, device: Any = None) -> dict[str, Tensor]:
  """Sends the weights that the daemon does not have yet, as they are in the files. Gemma's norms, which files have less 1, are made whole; they are small."""
  wanted = _wanted(d)
  _check(tensors, wanted, d)
  out: dict[str, Tensor] = {}
  for (gguf, shape), t in zip(wanted.values(), constants_of([tensors[name] for name in wanted], device)):
    if d.config.architecture == "gemma3" and len(shape) == 1:
      t = t.float() + 1
      if gguf.endswith("attn_q_norm.weight"): t = t * d.query_scale
      t = t.contiguous().realize()
    out[gguf] = t
  if d.factors is not None: out["rope_freqs.weight"] = Tensor(list(d.factors), dtype=dtypes.float32)
  return out
