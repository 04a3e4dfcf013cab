# SPDX-License-Identifier: MIT
"""Language models from folders in the layout of the Hugging Face Hub: against float64 (llm_files.py), and against the same model in a GGUF file."""
import json
import math
import os
import random
import tracemalloc

import numpy as np
import pytest

pytest.importorskip("gguf")
from hf_files import PLAIN, config_of, encoded, weights_of, write_folder, write_tensors  # noqa: E402
from llm_files import BASE, CONTEXT, EACH, HEADS, WORDS, logits_of, write_model  # noqa: E402

import uopd  # noqa: E402
from uopd import Tensor, dtypes  # noqa: E402
from uopd.llm.huggingface import Folder, model_from_folder  # noqa: E402
from uopd.llm.huggingface.config import description_of  # noqa: E402
from uopd.llm.huggingface.fields import Fields  # noqa: E402
from uopd.llm.huggingface.weights import weights_of as sent  # noqa: E402
from uopd.llm.model import Model  # noqa: E402

ARCHITECTURES = ["llama", "qwen2", "qwen3", "olmo2", "gemma3"]


def tokens(n, seed=0): return [int(t) for t in np.random.default_rng(seed).integers(0, WORDS, n)]


def logits(model, prompt):
  found = model.logits(Tensor(prompt, dtype=dtypes.int32), 0)
  Tensor.realize(found, *model.caches)
  return found.numpy()


def agree(model, values, architecture, **more):
  """Whether the scores behind a prompt are those of float64."""
  for n in (1, 40):
    want = logits_of(values, architecture, tokens(n), **more)[-1]
    if not np.allclose(logits(model, tokens(n)), want, rtol=0, atol=2e-4 * np.abs(want).max()): return False
  return True


@pytest.fixture(scope="module", params=ARCHITECTURES)
def made(request, tmp_path_factory):
  path = tmp_path_factory.mktemp("folder")
  values = write_model(path / "model.gguf", request.param, kinds=PLAIN)
  return request.param, path, values, write_folder(path / "model", values, request.param)


def test_logits(made):
  architecture, _, values, folder = made
  assert agree(model_from_folder(Folder(folder)), values, architecture)


def test_what_it_writes_is_what_the_gguf_file_writes(made):
  _, path, _, folder = made
  model, other = model_from_folder(Folder(folder)), Model.from_gguf(path / "model.gguf")[0]
  for n in (1, 33, 70): assert list(model.generate(tokens(n, n), 12)) == list(other.generate(tokens(n, n), 12))


def test_weights_keep_their_types(made):
  """The weights that the daemon has are as large as those of the file, but for the norms of Gemma."""
  architecture, _, values, folder = made
  model = model_from_folder(Folder(folder))
  names = {"BF16": dtypes.bfloat16, "F16": dtypes.float16, "F32": dtypes.float32}
  kinds = {name: names[encoded(value)[0]] for name, value in weights_of(values, architecture).items()}
  assert len(set(kinds.values())) == 3
  assert model._w["token_embd.weight"].dtype is kinds["model.embed_tokens.weight"]
  for i in range(7):
    for part, name in (("attn_q", "self_attn.q_proj"), ("ffn_down", "mlp.down_proj")): assert model._w[f"blk.{i}.{part}.weight"].dtype is kinds[f"model.layers.{i}.{name}.weight"]


def test_several_files(made):
  architecture, path, values, folder = made
  shards = write_folder(path / "shards", values, architecture, shards=3)
  assert not (shards / "model.safetensors").exists() and len(list(shards.glob("*.safetensors"))) == 3
  one, several = model_from_folder(Folder(folder)), model_from_folder(Folder(shards))
  assert list(one.generate(tokens(9), 6)) == list(several.generate(tokens(9), 6))


def test_the_client_never_has_all_weights(tmp_path):
  values = write_model(tmp_path / "m.gguf", "llama", layers=40, kinds=PLAIN)
  folder = Folder(write_folder(tmp_path / "model", values, "llama", config=config_of("llama", 40)))
  whole = os.path.getsize(folder.path / "model.safetensors")
  del values
  description, tensors = description_of(folder.json("config.json")), folder.tensors()
  tracemalloc.start()
  try:
    weights = sent(tensors, description)
    peak = tracemalloc.get_traced_memory()[1]
  finally: tracemalloc.stop()
  assert len(weights) == 3 + 40 * 9 and peak < whole / 10


def small(tmp_path, architecture, layers=2, values=None, **config):
  values = values if values is not None else write_model(tmp_path / "m.gguf", architecture, layers=layers, kinds=PLAIN)
  return values, write_folder(tmp_path / "model", values, architecture, config=config_of(architecture, layers, **config))


def test_the_output_is_the_embedding(tmp_path):
  values, folder = small(tmp_path, "llama", values=write_model(tmp_path / "m.gguf", "llama", layers=2, kinds=PLAIN, tied=True), tie_word_embeddings=True)
  assert agree(model_from_folder(Folder(folder)), values, "llama")
  (folder / "config.json").write_text(json.dumps(config_of("llama", 2)))
  with pytest.raises(ValueError, match="no tensor `lm_head.weight`"): model_from_folder(Folder(folder))
  # An output in the file does not count for a model that has none of its own.
  values, folder = small(tmp_path, "llama", tie_word_embeddings=True)
  assert agree(model_from_folder(Folder(folder)), {k: v for k, v in values.items() if k != "output.weight"}, "llama")


def biased(values, names):
  rng = np.random.default_rng(5)
  return values | {name.replace(".weight", ".bias"): rng.standard_normal(v.shape[0]).astype(np.float16).astype(np.float64) for name, v in values.items() if name.split(".")[-2] in names}


def test_biases(tmp_path):
  """The reference has biases of queries, keys and values alone; so that of the output is 0 where results are compared."""
  plain = write_model(tmp_path / "m.gguf", "qwen3", layers=2, kinds=PLAIN)
  values = biased(plain, ("attn_q", "attn_k", "attn_v", "attn_output"))
  _, folder = small(tmp_path, "qwen3", values=values, attention_bias=True)
  model = model_from_folder(Folder(folder))
  assert not agree(model, plain, "qwen3")
  assert {name for name in model._w if name.endswith(".bias")} == {f"blk.{i}.{p}.bias" for i in range(2) for p in ("attn_q", "attn_k", "attn_v", "attn_output")}
  without = {name: np.zeros_like(v) if "attn_output.bias" in name else v for name, v in values.items()}
  _, folder = small(tmp_path, "qwen3", values=without, attention_bias=True)
  assert agree(model_from_folder(Folder(folder)), without, "qwen3")
  with pytest.raises(ValueError, match=r"has the tensor `model.layers.0.self_attn.\w+.bias`, which qwen3 does not have"):
    (folder / "config.json").write_text(json.dumps(config_of("qwen3", 2)))
    model_from_folder(Folder(folder))


@pytest.mark.parametrize("form", ["rope_scaling", "rope_parameters", "type"])
def test_rotations_of_llama3(tmp_path, form):
  plain = write_model(tmp_path / "m.gguf", "llama", layers=2, kinds=PLAIN)
  given = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64, "type" if form == "type" else "rope_type": "llama3"}
  config = {"rope_parameters": {"rope_theta": BASE, **given}, "rope_theta": None} if form == "rope_parameters" else {"rope_scaling": given}
  _, folder = small(tmp_path, "llama", values=plain, **config)
  factors = []
  for speed in BASE ** (-np.arange(0, EACH, 2) / EACH):
    length = 2 * math.pi / speed
    if length < 64 / 4: factors.append(1.0)
    elif length > 64 / 1: factors.append(8.0)
    else:
      smooth = (64 / length - 1) / (4 - 1)
      factors.append(speed / ((1 - smooth) * speed / 8 + smooth * speed))
  assert len({round(f, 3) for f in factors}) > 3
  model = model_from_folder(Folder(folder))
  assert agree(model, plain | {"rope_freqs.weight": np.array(factors)}, "llama") and not agree(model, plain, "llama")


def test_linear_rotations(tmp_path):
  plain, folder = small(tmp_path, "qwen3", rope_scaling={"type": "linear", "factor": 4.0})
  assert agree(model_from_folder(Folder(folder)), plain | {"rope_freqs.weight": np.full(EACH // 2, 4.0)}, "qwen3")
  for default in ({"rope_type": "default"}, {"type": "default"}, None):
    _, folder = small(tmp_path, "qwen3", values=plain, rope_scaling=default)
    assert agree(model_from_folder(Folder(folder)), plain, "qwen3")


def test_gemma_with_another_scale_of_scores(tmp_path):
  """A scalar of 4 times the elements of a head halves the scores, as halved weights of the norm of queries do."""
  plain, folder = small(tmp_path, "gemma3", query_pre_attn_scalar=4 * EACH)
  half = {name: v / 2 if "attn_q_norm" in name else v for name, v in plain.items()}
  assert agree(model_from_folder(Folder(folder)), half, "gemma3")


def test_gemma_in_the_form_of_transformers_5(tmp_path):
  rope = {"full_attention": {"rope_type": "default", "rope_theta": BASE}, "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}
  types = ["sliding_attention"] * 5 + ["full_attention"] + ["sliding_attention"]
  values, folder = small(tmp_path, "gemma3", layers=7, rope_theta=None, rope_local_base_freq=None, rope_parameters=rope, layer_types=types, sliding_window_pattern=None)
  assert agree(model_from_folder(Folder(folder)), values, "gemma3")


def test_mistral_sees_a_window_in_every_layer(tmp_path):
  window = 5
  config = {"architectures": ["MistralForCausalLM"], "sliding_window": window}
  values, folder = small(tmp_path, "llama", layers=1, **config)
  model = model_from_folder(Folder(folder))
  # One layer sees no more than the window; so what is before does not count, but for the positions, of which only differences count.
  np.testing.assert_allclose(logits(model, tokens(30)), logits_of(values, "llama", tokens(30)[-window:])[-1], rtol=0, atol=2e-3)
  assert not agree(model, values, "llama")
  for none in (None, CONTEXT):
    (folder / "config.json").write_text(json.dumps(config_of("llama", 1, **{**config, "sliding_window": none})))
    assert agree(model_from_folder(Folder(folder)), values, "llama")


def test_no_graph_is_sent_after_the_first_tokens(made):
  model = model_from_folder(Folder(made[3]))
  for n in (35, 5): list(model.generate(tokens(n, n), 4))
  before = uopd.runtime.stats()["graphs_sent"]
  for n in (7, 41, 2): list(model.generate(tokens(n, 100 + n), 6))
  assert uopd.runtime.stats()["graphs_sent"] == before


# A field, its value (None: missing), and what the message says.
WRONG = [
  ("llama", "architectures", ["MambaForCausalLM"], "architectures is .'MambaForCausalLM'.; known here: LlamaForCausalLM"), ("llama", "architectures", "LlamaForCausalLM", "architectures is 'Llama"),
  ("llama", "architectures", [["LlamaForCausalLM"]], "architectures is"), ("llama", "architectures", None, "no `architectures`"),
  ("llama", "hidden_size", None, "config.json has no `hidden_size`"), ("llama", "hidden_size", "256", "hidden_size is '256'"), ("llama", "hidden_size", 256.0, "hidden_size is 256.0"),
  ("llama", "hidden_size", True, "hidden_size is True"), ("llama", "num_hidden_layers", 0, "num_hidden_layers is 0"), ("llama", "num_hidden_layers", 1 << 60, "num_hidden_layers is 1152921504606846976; 1 to"),
  ("llama", "num_attention_heads", -4, "num_attention_heads is -4"), ("llama", "num_key_value_heads", 3, "no multiple of num_key_value_heads, 3"), ("llama", "head_dim", 63, "heads have 63 elements"),
  ("llama", "vocab_size", [300], "vocab_size is"), ("llama", "rms_norm_eps", "1e-5", "rms_norm_eps is '1e-5'"), ("llama", "rms_norm_eps", 0, "rms_norm_eps is 0"), ("llama", "rms_norm_eps", None, "no `rms_norm_eps`"),
  ("llama", "rope_theta", [], "rope_theta is"), ("llama", "rope_theta", 5e-324, "rope_theta is 5e-324; a number from 1 to"), ("llama", "rope_scaling", {"type": "linear", "factor": 1e-320}, "factor is 1e-320"), ("llama", "rope_theta", 10 ** 400, "rope_theta is"), ("llama", "max_position_embeddings", {}, "max_position_embeddings is {}"),
  ("llama", "hidden_act", "relu", "hidden_act is 'relu'; known here: silu"), ("llama", "attention_bias", 1, "attention_bias is 1"), ("llama", "tie_word_embeddings", "yes", "tie_word_embeddings is 'yes'"),
  ("llama", "rope_scaling", {"rope_type": "yarn", "factor": 4.0}, "rope_scaling: rope_type is 'yarn'; known here: default, linear, llama3"), ("llama", "rope_scaling", [1], "rope_scaling is .1., which is no JSON object"),
  ("llama", "rope_scaling", {"type": "dynamic", "factor": 4.0}, "known here: default, linear, llama3"), ("llama", "rope_scaling", {"type": "linear"}, "rope_scaling has no `factor`"),
  ("llama", "rope_scaling", {"type": "linear", "factor": 2.0, "attention_factor": 3.0}, "has the field 'attention_factor'"), ("llama", "rope_scaling", {"type": "linear", "rope_type": "default", "factor": 2.0}, "type is 'linear'"),
  ("llama", "rope_scaling", {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}, "high_freq_factor is 4.0"),
  ("llama", "rope_parameters", {"rope_type": "default"}, "both rope_parameters and rope_theta"), ("llama", "quantization_config", {"bits": 4}, "quantization_config is .*; not known here"),
  ("llama", "final_logit_softcapping", 30.0, "final_logit_softcapping is 30.0"), ("llama", "partial_rotary_factor", 0.5, "partial_rotary_factor is 0.5; known here: 1"),
  ("qwen2", "use_sliding_window", True, "no `sliding_window`|layers"), ("qwen3", "head_dim", None, "no `head_dim`"), ("qwen3", "layer_types", ["full_attention"], "layer_types is"), ("qwen3", "layer_types", [[]] * 7, "layer_types is"),
  ("gemma3", "sliding_window", None, "no `sliding_window`"), ("gemma3", "query_pre_attn_scalar", 0, "query_pre_attn_scalar is 0"), ("gemma3", "attn_logit_softcapping", 50.0, "attn_logit_softcapping is 50.0"),
  ("gemma3", "hidden_activation", "gelu", "hidden_activation is 'gelu'"), ("gemma3", "layer_types", ["full_attention", *["sliding_attention"] * 6], "see a sliding window"), ("gemma3", "use_bidirectional_attention", True, "use_bidirectional"),
]


@pytest.mark.parametrize("architecture, field, value, says", WRONG)
def test_fields_that_cannot_be(architecture, field, value, says):
  more = {"sliding_window": 16, "max_window_layers": 2} if field == "use_sliding_window" else {}
  description_of(Fields(config_of(architecture), "config.json"))
  with pytest.raises(ValueError, match=says) as e: description_of(Fields(config_of(architecture, **more, **{field: value}), "config.json"))
  assert "config.json" in str(e.value) and len(str(e.value)) < 500


def rewrite(folder, name, value=None, new_name=None):
  """Replaces a tensor in the only file of a folder, gives it another name, or takes it out."""
  raw = (folder / "model.safetensors").read_bytes()
  end = 8 + int.from_bytes(raw[:8], "little")
  tensors = {n: (e["dtype"], e["shape"], raw[end + e["data_offsets"][0]:end + e["data_offsets"][1]]) for n, e in json.loads(raw[8:end]).items()}
  old = tensors.pop(name)
  if value is not None or new_name is not None: tensors[new_name or name] = value or old
  write_tensors(folder / "model.safetensors", tensors)


@pytest.mark.parametrize("name, value, new_name, says", [
  ("model.layers.1.mlp.up_proj.weight", None, None, "no tensor `model.layers.1.mlp.up_proj.weight`"), ("model.norm.weight", None, "norm.weight", "no tensor `model.norm.weight`"),
  ("model.norm.weight", ("F32", [3], bytes(12)), None, r"`model.norm.weight` has the shape \(3,\); llama has \(256,\)"), ("model.norm.weight", ("F64", [256], bytes(2048)), None, "`model.norm.weight` is of"),
  ("model.layers.0.self_attn.q_proj.weight", ("I8", [256, 256], bytes(65536)), None, "`model.layers.0.self_attn.q_proj.weight` is of"),
  ("lm_head.weight", ("BF16", [300, 255], bytes(300 * 255 * 2)), None, r"`lm_head.weight` has the shape \(300, 255\)")])
def test_tensors_that_do_not_fit(tmp_path, name, value, new_name, says):
  _, folder = small(tmp_path, "llama")
  rewrite(folder, name, value, new_name)
  with pytest.raises(ValueError, match=says): model_from_folder(Folder(folder))


def test_tensors_that_nothing_reads(tmp_path):
  values, folder = small(tmp_path, "llama")
  raw = encoded(np.ones(4))
  weights = {name: (*encoded(v)[:1], v.shape, encoded(v)[1]) for name, v in weights_of(values, "llama").items()}
  write_tensors(folder / "model.safetensors", {**weights, "model.layers.0.self_attn.rotary_emb.inv_freq": (raw[0], (4,), raw[1])})
  assert agree(model_from_folder(Folder(folder)), values, "llama")
  write_tensors(folder / "model.safetensors", {**weights, "model.layers.0.self_attn.q_proj.lora": (raw[0], (4,), raw[1])})
  with pytest.raises(ValueError, match="has the tensor `model.layers.0.self_attn.q_proj.lora`, which llama does not have"): model_from_folder(Folder(folder))


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
  path = tmp_path_factory.mktemp("shards")
  return write_folder(path / "model", write_model(path / "m.gguf", "llama", layers=1, kinds=PLAIN), "llama", shards=2)


NAME = "model-00001-of-00002.safetensors"


@pytest.mark.parametrize("change, says", [
  (lambda m: m | {"model.norm.weight": "../x.safetensors"}, "'../x.safetensors'; only a name of a safetensors file in the same folder"), (lambda m: m | {"model.norm.weight": "/etc/passwd"}, "'/etc/passwd'; only a name"),
  (lambda m: m | {"model.norm.weight": "a/b.safetensors"}, "only a name"), (lambda m: m | {"model.norm.weight": ".hidden.safetensors"}, "only a name"), (lambda m: m | {"model.norm.weight": "a\0.safetensors"}, "only a name"),
  (lambda m: m | {"model.norm.weight": 5}, "in the file 5; only"), (lambda m: m | {"model.norm.weight": "x" * 10_000 + ".safetensors"}, "only a name"), (lambda m: m | {"other": NAME}, "has no tensor `other`, which model.safetensors.index.json has there"),
  (lambda m: {k: v for k, v in m.items() if k != "model.norm.weight"}, "has the tensor `model.norm.weight`, which model.safetensors.index.json does not have"),
  (lambda m: m | {f"t{i}": f"s{i}.safetensors" for i in range(1000)}, "names more than 500 files"), (lambda m: list(m), "weight_map is .*, which is no JSON object"), (lambda m: None, "has no `weight_map`")])
def test_an_index_that_lies(shards, change, says):
  index = shards / "model.safetensors.index.json"
  before = index.read_text()
  try:
    index.write_text(json.dumps({"weight_map": change(json.loads(before)["weight_map"])}))
    with pytest.raises(ValueError, match=says) as e: Folder(shards).tensors()
    assert len(str(e.value)) < 500
  finally: index.write_text(before)


def test_a_shard_is_missing(shards):
  os.rename(shards / NAME, shards / "away")
  try:
    with pytest.raises(FileNotFoundError, match=NAME): Folder(shards).tensors()
  finally: os.rename(shards / "away", shards / NAME)


def test_a_safetensors_file_that_is_broken(tmp_path):
  _, folder = small(tmp_path, "llama", layers=1)
  path = folder / "model.safetensors"
  raw = path.read_bytes()
  for broken in (raw[:-10], raw[:4], b"", (1 << 60).to_bytes(8, "little") + raw[8:]):
    path.write_bytes(broken)
    with pytest.raises((ValueError, uopd.Error)): model_from_folder(Folder(folder))
  path.unlink()
  with pytest.raises(ValueError, match="has neither model.safetensors nor model.safetensors.index.json"): model_from_folder(Folder(folder))


@pytest.mark.parametrize("text, says", [
  ('{"a": 1, "a": 2}', "the key 'a' is there twice"), ('{"a": NaN}', "NaN is no number"), ('{"a": Infinity}', "Infinity is no number"), ("[]", "which is no JSON object"), ("", "config.json: Expecting value"),
  ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"), ('{"a": ' + "1" * 5000 + "}", "config.json: "), ('{"a"', "config.json: "), ("\ufeff{}", "config.json: "), ('{"a": "' + "x" * (1 << 20) + '"}', "more than 1048576 bytes")])
def test_json_that_is_none(tmp_path, text, says):
  (tmp_path / "config.json").write_text(text)
  with pytest.raises(ValueError, match=says) as e: Folder(tmp_path).json("config.json")
  assert len(str(e.value)) < 500
  (tmp_path / "config.json").write_bytes(b'{"a": "\xff"}')
  with pytest.raises(ValueError, match="no UTF-8 at byte 7"): Folder(tmp_path).json("config.json")


def test_files_that_lie_elsewhere(tmp_path):
  folder, outside = tmp_path / "model", tmp_path / "outside.json"
  folder.mkdir()
  outside.write_text("{}")
  (folder / "inside.json").write_text("{}")
  for name, target in (("config.json", outside), ("up.json", "../outside.json"), ("loop.json", "loop.json"), ("good.json", "inside.json")): (folder / name).symlink_to(target)
  for name in ("config.json", "up.json"):
    with pytest.raises(ValueError, match="a link that leads out of its folder"): Folder(folder).json(name)
  with pytest.raises((ValueError, OSError), match="loop.json"): Folder(folder).json("loop.json")
  assert Folder(folder).json("good.json").values == {}
  os.mkfifo(folder / "pipe.json")
  (folder / "folder.json").mkdir()
  for name in ("pipe.json", "folder.json"):
    with pytest.raises(ValueError, match="no regular file"): Folder(folder).json(name)
  with pytest.raises(FileNotFoundError): Folder(folder).json("none.json")
  with pytest.raises(NotADirectoryError): Folder(outside)
  with pytest.raises(FileNotFoundError): Folder(tmp_path / "none")


def test_a_snapshot_in_the_cache_of_the_hub(tmp_path):
  """There, files are links to the folder `blobs` beside the snapshots, and only to it."""
  snapshot, blobs = tmp_path / "models--a--b" / "snapshots" / "0123", tmp_path / "models--a--b" / "blobs"
  snapshot.mkdir(parents=True)
  blobs.mkdir()
  (blobs / "4567").write_text('{"x": 1}')
  (tmp_path / "models--a--b" / "secret").write_text("{}")
  (snapshot / "config.json").symlink_to("../../blobs/4567")
  (snapshot / "other.json").symlink_to("../../secret")
  assert Folder(snapshot).json("config.json").values == {"x": 1}
  with pytest.raises(ValueError, match="leads out of its folder"): Folder(snapshot).json("other.json")


def test_a_scaled_window_is_refused():
  with pytest.raises(ValueError, match="scaled rotations of layers with a sliding window"):
    description_of(Fields(config_of("llama", architectures=["MistralForCausalLM"], sliding_window=16, rope_scaling={"type": "linear", "factor": 2.0}), "config.json"))
  assert description_of(Fields(config_of("llama", head_dim=None), "config.json")).config.head_width == 256 // HEADS


JUNK = [None, True, False, 0, -1, 1, 3, 7, 5e-324, 1 << 31, 1 << 70, -(1 << 70), 1.5, 1e308, -0.0, "", "x", "linear", "llama3", [], {}, [[]], [0], {"factor": 2}, ["full_attention"], ["sliding_attention"] * 7]


def test_descriptions_of_any_junk():
  """Every field with every value: it is described, or a ValueError says why not."""
  r, described = random.Random(1), 0
  fields = ["rope_scaling", "rope_parameters", "layer_types", "sliding_window", "use_sliding_window", "max_window_layers", "attention_bias", "mlp_bias", "query_pre_attn_scalar", "sliding_window_pattern", "rope_local_base_freq"]
  rope = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
  for _ in range(20_000):
    config = config_of(r.choice(ARCHITECTURES))
    if r.random() < 0.2: config["architectures"] = ["MistralForCausalLM"]
    if r.random() < 0.5: config["rope_scaling"] = dict(rope)
    where = config["rope_scaling"] if "rope_scaling" in config and r.random() < 0.3 else config
    where[r.choice([*where, *fields])] = r.choice(JUNK)
    try: description_of(Fields(config, "config.json"))
    except ValueError as e: assert str(e).startswith("config.json") and len(str(e)) < 600, e
    else: described += 1
  assert 2_000 < described < 15_000
