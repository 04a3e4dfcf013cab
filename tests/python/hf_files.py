# SPDX-License-Identifier: MIT
"""Small language models as folders in the layout of the Hugging Face Hub, written down without uopd, with the weights of a GGUF file of llm_files.py."""
from __future__ import annotations

import json
import pathlib

import numpy as np
from gguf import GGMLQuantizationType as Type
from llm_files import BASE, CONTEXT, EACH, EPSILON, HEADS, HIDDEN, LAYERS, SHARED, WIDTH, WINDOW, WORDS

PLAIN = [Type.BF16, Type.F16, Type.F32]  # what safetensors files have too
CLASSES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "olmo2": "Olmo2ForCausalLM", "gemma3": "Gemma3ForCausalLM"}
_PARTS = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
          "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
_NORMS = {"llama": {"ffn_norm": "post_attention_layernorm"}, "qwen2": {"ffn_norm": "post_attention_layernorm"}, "qwen3": {"ffn_norm": "post_attention_layernorm"},
          "olmo2": {"post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"},
          "gemma3": {"post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}}


def config_of(architecture, layers=LAYERS, **more):
  """A config.json. Values that are None are left out."""
  config = {"architectures": [CLASSES[architecture]], "hidden_size": WIDTH, "intermediate_size": HIDDEN, "num_hidden_layers": layers, "num_attention_heads": HEADS, "num_key_value_heads": SHARED,
            "head_dim": EACH, "rms_norm_eps": EPSILON, "rope_theta": BASE, "max_position_embeddings": CONTEXT, "vocab_size": WORDS, "tie_word_embeddings": architecture == "gemma3",
            "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": True}
  if architecture == "gemma3":
    config |= {"hidden_activation": "gelu_pytorch_tanh", "sliding_window": WINDOW, "sliding_window_pattern": 6, "rope_local_base_freq": 10000, "query_pre_attn_scalar": EACH}
  else: config["hidden_act"] = "silu"
  return {name: value for name, value in {**config, **more}.items() if value is not None}


def _apart(value, heads):
  """Rows of a matrix whose heads have the two elements of a rotation side by side, as GGUF files of llama, in the order of halves."""
  each = value.shape[0] // heads
  return value.reshape(heads, each // 2, 2, -1).swapaxes(1, 2).reshape(value.shape)


def weights_of(values, architecture):
  """Weights by their names in safetensors files, in float64, of those of a GGUF file."""
  out = {}
  for name, value in values.items():
    if name == "rope_freqs.weight": continue  # config.json has these
    if architecture == "gemma3" and value.ndim == 1: value = value - 1
    if architecture == "llama" and "attn_q." in name: value = _apart(value, HEADS)
    if architecture == "llama" and "attn_k." in name: value = _apart(value, SHARED)
    if name.startswith("blk."):
      _, layer, part, kind = name.split(".")
      name = f"model.layers.{layer}.{(_PARTS | _NORMS[architecture])[part]}.{kind}"
    else: name = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight", "output.weight": "lm_head.weight"}[name]
    out[name] = value
  return out


def encoded(value, dtype=None):
  """The smallest of BF16, F16 and F32, or the given one, that has the values exactly: its name and the bytes."""
  single = value.astype(np.float32)
  bits = single.view(np.uint32)
  forms = {"BF16": (bits >> 16).astype(np.uint16), "F16": single.astype(np.float16), "F32": single}
  exact = {"BF16": not (bits & 0xffff).any(), "F16": (forms["F16"].astype(np.float64) == value).all(), "F32": (single == value).all()}
  dtype = dtype or next(d for d in forms if exact[d])
  assert exact[dtype]
  return dtype, forms[dtype].tobytes()


def write_tensors(path, weights):
  """A safetensors file of (dtype, shape, bytes) by name."""
  header, at = {}, 0
  for name, (dtype, shape, raw) in weights.items():
    header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(raw)]}
    at += len(raw)
  start = json.dumps(header).encode()
  pathlib.Path(path).write_bytes(len(start).to_bytes(8, "little") + start + b"".join(raw for _, _, raw in weights.values()))


def write_folder(folder, values, architecture, shards=1, config=None):
  """A folder with the weights that a GGUF file of llm_files.py has, in one file or in several ones with an index."""
  folder = pathlib.Path(folder)
  folder.mkdir(exist_ok=True)
  weights = {name: (*encoded(v)[:1], v.shape, encoded(v)[1]) for name, v in weights_of(values, architecture).items()}
  (folder / "config.json").write_text(json.dumps(config or config_of(architecture)))
  if shards == 1: write_tensors(folder / "model.safetensors", weights)
  else:
    index = {}
    for i in range(shards):
      name = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
      part = dict(list(weights.items())[i::shards])
      write_tensors(folder / name, part)
      index |= {tensor: name for tensor in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": index}))
  return folder


def write_tokenizer(folder, gguf, template=None):
  """The tokenizer of a GGUF file of llm_files.py, which is byte-level BPE of GPT-2, as the files of a folder. gguf: its values."""
  folder = pathlib.Path(folder)
  tokens, kinds = gguf["tokenizer.ggml.tokens"], gguf["tokenizer.ggml.token_type"]
  added = [{"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for i, kind in enumerate(kinds) if kind == 3]
  by_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
  file = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None, "pre_tokenizer": by_bytes, "post_processor": by_bytes, "decoder": by_bytes,
          "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                    "vocab": {t: i for i, t in enumerate(tokens) if kinds[i] == 1}, "merges": gguf["tokenizer.ggml.merges"]}}
  (folder / "tokenizer.json").write_text(json.dumps(file))
  settings = {"eos_token": tokens[gguf["tokenizer.ggml.eos_token_id"]], "bos_token": tokens[gguf["tokenizer.ggml.bos_token_id"]], "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 1e30}
  if template is not None: settings["chat_template"] = template
  (folder / "tokenizer_config.json").write_text(json.dumps(settings))
  (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [gguf["tokenizer.ggml.eos_token_id"]], "do_sample": True}))
