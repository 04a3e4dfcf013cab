# SPDX-License-Identifier: MIT
"""The description of a model from its config.json. What changes results and is not known here is refused by its name."""
from __future__ import annotations

from typing import Any, NamedTuple

from ..config import MOST, Config, config_of
from ..vocabulary import MOST_TOKENS
from .fields import Fields
from .rope import Rope, rope_of

# The fields with sizes, by the names that GGUF files have for them.
_SIZES = {"num_hidden_layers": "block_count", "hidden_size": "embedding_length", "intermediate_size": "feed_forward_length", "num_attention_heads": "attention.head_count",
          "num_key_value_heads": "attention.head_count_kv", "head_dim": "attention.key_length", "max_position_embeddings": "context_length", "sliding_window": "attention.sliding_window"}
# Fields that change results, and their values that are computed here. Other architectures than those below have more of them.
_FIXED: dict[str, tuple[Any, ...]] = {
  "attn_logit_softcapping": (), "final_logit_softcapping": (), "quantization_config": (), "clip_qkv": (), "partial_rotary_factor": (1,), "use_bidirectional_attention": (False,), "add_cross_attention": (False,),
  "is_encoder_decoder": (False,), "embedding_multiplier": (1,), "residual_multiplier": (1,), "logits_scaling": (1,), "logit_scale": (1,), "attention_multiplier": (), "num_experts": (), "num_local_experts": (),
  "vision_config": (), "no_rope_layers": (), "num_kv_shared_layers": (0,)}


class _Architecture(NamedTuple):
  """What differs from Llama in config.json. Defaults are those of the classes in transformers."""
  name: str                      # in GGUF files
  bias: bool | None = None       # of queries, keys and values; None: as attention_bias says, and then that of the output too
  explicit: tuple[str, ...] = () # fields that have no simple default
  tied: bool = False             # if tie_word_embeddings is missing
  activation: tuple[str, str] = ("hidden_act", "silu")
  base: float = 10000.0
  windows: bool = False          # whether sliding_window counts


ARCHITECTURES = {
  "LlamaForCausalLM": _Architecture("llama"),
  "MistralForCausalLM": _Architecture("llama", bias=False, windows=True),
  "Qwen2ForCausalLM": _Architecture("qwen2", bias=True, explicit=("num_key_value_heads",), windows=True),
  "Qwen3ForCausalLM": _Architecture("qwen3", explicit=("num_key_value_heads", "head_dim"), windows=True),
  "Olmo2ForCausalLM": _Architecture("olmo2"),
  "Gemma3ForCausalLM": _Architecture("gemma3", explicit=("num_key_value_heads", "head_dim", "sliding_window"), tied=True, activation=("hidden_activation", "gelu_pytorch_tanh"), base=1e6, windows=True)}


class Description(NamedTuple):
  """config: of the model. tied: the output has the weights of the embedding. biases: the matrices with a bias, by the names of GGUF files. query_scale: times it,
  normalised queries give the scores that the model was trained with."""
  config: Config
  tied: bool
  biases: tuple[str, ...]
  factors: tuple[float, ...] | None
  query_scale: float


def _architecture(fields: Fields) -> tuple[str, _Architecture]:
  names = fields.items("architectures", 16)
  if len(names) != 1 or type(names[0]) is not str or names[0] not in ARCHITECTURES:
    raise fields.wrong("architectures", f"known here: {', '.join(ARCHITECTURES)}")
  return names[0], ARCHITECTURES[names[0]]


def _local_layers(fields: Fields, architecture: _Architecture, layers: int, window: int | None) -> list[bool]:
  """Which layers see a sliding window."""
  none = [False] * layers
  if not architecture.windows: return none
  if "layer_types" in fields:
    types = fields.items("layer_types", layers)
    if len(types) != layers or any(t not in ("full_attention", "sliding_attention") for t in types if type(t) is str) or any(type(t) is not str for t in types):
      raise fields.wrong("layer_types", f"{layers} texts are possible, each full_attention or sliding_attention")
    local = [t == "sliding_attention" for t in types]
    if window is None and any(local): raise ValueError(f"{fields.where} has no `sliding_window`, which layer_types needs")
    if any(local) and not fields.flag("use_sliding_window", True): raise fields.wrong("use_sliding_window", "layer_types has layers with sliding_attention")
    return local
  if window is None: return none
  if architecture.name == "gemma3":
    period = fields.size("sliding_window_pattern", 1 << 10, fields.get("_sliding_window_pattern", 6))
    return [(i + 1) % period != 0 for i in range(layers)]
  if architecture.name == "llama": return [True] * layers
  if not fields.flag("use_sliding_window", False): return none
  first = fields.get("max_window_layers", 28)
  if type(first) is not int or not 0 <= first <= MOST["block_count"]: raise fields.wrong("max_window_layers")
  return [i >= first for i in range(layers)]


def _period(fields: Fields, local: list[bool]) -> int:
  """The number of layers of which the last one sees all; 0: all layers do."""
  if not any(local): return 0
  for period in range(2, len(local) + 2):
    if all(((i + 1) % period != 0) == is_local for i, is_local in enumerate(local)): return period
  which = [i for i, is_local in enumerate(local) if is_local]
  raise ValueError(f"{fields.where}: layers {str(which)[:100]} see a sliding window; known here is that of each few layers all but the last one do")


def description_of(fields: Fields) -> Description:
  """The description in a config.json. ValueError names a field that is missing, has no possible value, or has one that is not computed here."""
  name, architecture = _architecture(fields)
  for field, possible in _FIXED.items():
    if field in fields and not any(fields.get(field) == v and isinstance(fields.get(field), bool) == isinstance(v, bool) for v in possible):
      raise fields.wrong(field, "not known here" if not possible else f"known here: {possible[0]}")
  activation = architecture.activation
  fields.one_of(activation[0], activation[1:], activation[1])
  gguf = architecture.name
  values: dict[str, Any] = {"general.architecture": gguf}
  for field in architecture.explicit: fields.get(field)
  for field in ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "max_position_embeddings"): fields.get(field)
  for field, key in _SIZES.items():
    if field in fields: values[f"{gguf}.{key}"] = fields.size(field, MOST[key])
  layers, width, heads = (values[f"{gguf}.{_SIZES[f]}"] for f in ("num_hidden_layers", "hidden_size", "num_attention_heads"))
  shared = values.get(f"{gguf}.attention.head_count_kv", heads)
  if heads % shared: raise fields.wrong("num_attention_heads", f"it is no multiple of num_key_value_heads, {shared}")
  if "head_dim" not in fields and width % heads: raise fields.wrong("hidden_size", f"it is no multiple of num_attention_heads, {heads}")
  each = values.get(f"{gguf}.attention.key_length", width // heads)
  if each % 2: raise ValueError(f"{fields.where}: heads have {each} elements, and rotations need an even number")
  rope = rope_of(fields, each, architecture.base, "full_attention")
  values |= {f"{gguf}.rope.freq_base": rope.base, f"{gguf}.rope.scaling.type": "linear", f"{gguf}.rope.scaling.factor": rope.scale,
             f"{gguf}.attention.layer_norm_rms_epsilon": fields.number("rms_norm_eps")}
  words = fields.size("vocab_size", MOST_TOKENS)
  config = config_of(values, words)
  context, window = config.context, values.get(f"{gguf}.attention.sliding_window")
  local = _local_layers(fields, architecture, layers, window)
  period = _period(fields, local if window is not None and window < context else [False] * layers)
  # Weights in this layout have the halves of a rotation apart, also where those of GGUF files have them side by side.
  kind = config.kind._replace(interleaved=False, period=period, local_base=_local_base(fields, gguf, rope) if period else 0.0)
  config = config._replace(kind=kind, window=window if period and window is not None else 0)
  return Description(config, fields.flag("tie_word_embeddings", architecture.tied), _biases(fields, architecture), rope.factors, _query_scale(fields, gguf, each))


def _local_base(fields: Fields, gguf: str, rope: Rope) -> float:
  """The base of rotations in layers with a sliding window, which are never scaled here."""
  if gguf == "gemma3":
    if "rope_parameters" not in fields: return fields.number("rope_local_base_freq", 10000.0, least=1)
    local = rope_of(fields, 2, 10000.0, "sliding_attention") if "sliding_attention" in fields.object("rope_parameters") else None
    if local is None: raise ValueError(f"{fields.name('rope_parameters')} has no `sliding_attention`")
    rope = local
  if rope.scale != 1 or rope.factors is not None: raise ValueError(f"{fields.where}: scaled rotations of layers with a sliding window are not known here")
  return rope.base


def _biases(fields: Fields, architecture: _Architecture) -> tuple[str, ...]:
  attention = fields.flag("attention_bias", False)
  if architecture.bias is not None: out: tuple[str, ...] = ("attn_q", "attn_k", "attn_v") if architecture.bias else ()
  else: out = ("attn_q", "attn_k", "attn_v", "attn_output") if attention else ()
  if architecture.name == "llama" and fields.flag("mlp_bias", False): out += ("ffn_gate", "ffn_up", "ffn_down")
  return out


def _query_scale(fields: Fields, gguf: str, each: int) -> float:
  """Gemma divides scores by the root of query_pre_attn_scalar, and the model here by that of the elements of a head."""
  return float((each / fields.number("query_pre_attn_scalar")) ** 0.5) if gguf == "gemma3" else 1.0
