# SPDX-License-Identifier: MIT
"""Language models from GGUF files, against the same in float64 (llm_files.py)."""
import signal

import numpy as np
import pytest

pytest.importorskip("gguf")
from llm_files import CONTEXT, WORDS, Type, follows, logits_of, tokens, write_model  # noqa: E402

import uopd  # noqa: E402
from uopd import Tensor, dtypes  # noqa: E402
from uopd.llm.gguf import stored_in  # noqa: E402
from uopd.llm.model import CHUNK, LONG, Model  # noqa: E402
from uopd.llm.packed import Part, packed_of  # noqa: E402

VALUES = {"general.architecture": "llama", "llama.block_count": 1, "llama.embedding_length": 8, "llama.feed_forward_length": 16, "llama.attention.head_count": 2, "llama.context_length": 64,
          "llama.attention.layer_norm_rms_epsilon": 1e-5}
ARCHITECTURES = ["llama", "qwen2", "qwen3", "olmo2", "gemma3"]


@pytest.fixture(scope="module", params=ARCHITECTURES)
def made(request, tmp_path_factory):
  path = tmp_path_factory.mktemp("llm") / f"{request.param}.gguf"
  values = write_model(path, request.param)
  return request.param, path, values, Model.from_gguf(path)[0]


def test_logits(made):
  architecture, _, values, model = made
  prompt = tokens(40)
  for n in (1, 2, 17, 40):
    found = model.logits(Tensor(prompt[:n], dtype=dtypes.int32), 0)
    Tensor.realize(found, *model.caches)
    want = logits_of(values, architecture, prompt[:n])[-1]
    np.testing.assert_allclose(found.numpy(), want, rtol=0, atol=2e-4 * np.abs(want).max())
  model._seen = []  # what this wrote into the cache is no beginning of another prompt


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_queries_keys_and_values_that_are_packed_together(architecture, tmp_path):
  """All matrices have one type here; the types take turns in the other tests. With biases and norms, one token at a time and several."""
  path = tmp_path / "m.gguf"
  values = write_model(path, architecture, layers=2, kinds=[Type.Q4_1])
  model = Model.from_gguf(path)[0]
  assert {name for name, w in model._packed.items() if isinstance(w, Part)} == {f"blk.{i}.attn_{part}.weight" for i in range(2) for part in "qkv"}
  apart = Model(model.config, packed_of(stored_in(path)[1]))
  assert not any(isinstance(w, Part) for w in apart._packed.values())
  prompt = tokens(40, 9)
  for n in (1, 2, 40):
    want = logits_of(values, architecture, prompt[:n])[-1]
    found, other = (m.logits(Tensor(prompt[:n], dtype=dtypes.int32), 0) for m in (model, apart))
    Tensor.realize(found, other, *model.caches, *apart.caches)
    # Every product rounds its vectors to 16 bits here, so the error is larger than where some matrices are floats. Packed apart they give nearly the same numbers.
    np.testing.assert_allclose(found.numpy(), want, rtol=0, atol=4e-4 * np.abs(want).max())
    np.testing.assert_allclose(found.numpy(), other.numpy(), rtol=0, atol=2e-5 * np.abs(want).max())
  model._seen = []
  assert follows(values, architecture, prompt, list(model.generate(prompt, 8)))


@pytest.mark.parametrize("length", [1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 6, LONG - CHUNK + 1, LONG + 3, LONG + 2 * CHUNK])
def test_generation(made, length):
  architecture, _, values, model = made
  prompt = tokens(length, length)
  written = list(model.generate(prompt, 8))
  assert len(written) == 8 and follows(values, architecture, prompt, written)
  assert not follows(values, architecture, prompt, [(t + 1) % WORDS for t in written])


def test_what_is_known_is_not_computed_again(made):
  architecture, path, values, model = made
  prompt = tokens(50, 3)
  first = list(model.generate(prompt, 4))
  longer, other = prompt + first + tokens(5, 4), prompt[:20] + tokens(9, 5)
  fresh = Model.from_gguf(path)[0]
  for next_prompt in (longer, other, prompt, prompt[:1]):
    fresh._seen = []
    assert list(model.generate(next_prompt, 4)) == list(fresh.generate(next_prompt, 4))


def test_no_graph_is_sent_after_the_first_tokens(made):
  model = made[3]
  for n in (CHUNK + 3, 5, LONG, LONG - 1): list(model.generate(tokens(n, n), 4))
  before = uopd.runtime.stats()["graphs_sent"]
  for n in (7, CHUNK + 9, 2, LONG + 3, 3 * CHUNK): list(model.generate(tokens(n, 100 + n), 6))
  assert uopd.runtime.stats()["graphs_sent"] == before


def test_the_context_ends(made):
  architecture, path, values, _ = made
  for most in (CONTEXT, 45):
    model = Model.from_gguf(path, max_context=most)[0]
    prompt = tokens(most - 3, 9)
    written = list(model.generate(prompt))
    assert len(written) == 4 and follows(values, architecture, prompt, written)  # three have room, and the last one is not computed from
    assert len(list(model.generate(tokens(most, 1)))) == 1
    with pytest.raises(ValueError, match=f"has {most + 1} tokens"): list(model.generate(tokens(most + 1)))


def test_factors_of_frequencies_and_a_tied_output(tmp_path):
  values = write_model(tmp_path / "m.gguf", "llama", layers=2, tied=True, factors=True)
  model = Model.from_gguf(tmp_path / "m.gguf")[0]
  prompt = tokens(30)
  found, want = model.logits(Tensor(prompt, dtype=dtypes.int32), 0).numpy(), logits_of(values, "llama", prompt)[-1]
  np.testing.assert_allclose(found, want, rtol=0, atol=2e-4 * np.abs(want).max())


def test_another_generation_ends_the_one_before(made):
  _, path, _, model = made
  first = model.generate(tokens(9, 1), 5)
  next(first)
  want = list(Model.from_gguf(path)[0].generate(tokens(7, 2), 4))
  second = model.generate(tokens(7, 2), 4)
  begun = [next(second)]
  with pytest.raises(RuntimeError, match="another generation"): next(first)
  assert begun + list(second) == want


def test_an_interrupt_leaves_nothing_wrong(made):
  """Ctrl-C at any moment: what the cache has then is not used."""
  _, path, _, model = made
  prompt, fresh = tokens(20, 5), Model.from_gguf(path)[0]
  want = list(fresh.generate(prompt, 12))
  def interrupt(*_): raise KeyboardInterrupt
  before = signal.signal(signal.SIGALRM, interrupt)
  try:
    for i in range(10):
      written = []
      try:
        signal.setitimer(signal.ITIMER_REAL, 0.001 + 0.006 * i)
        for t in model.generate(prompt + want[:i], 60): written.append(t)
      except KeyboardInterrupt: pass
      finally: signal.setitimer(signal.ITIMER_REAL, 0)
      longer = prompt + want[:i] + written
      assert list(model.generate(longer[:200], 6)) == list(fresh.generate(longer[:200], 6))
  finally: signal.signal(signal.SIGALRM, before)


def test_late_positions_are_as_exact_as_early_ones(tmp_path):
  from uopd.llm.config import config_of
  from uopd.llm.model import _angles
  config = config_of(VALUES, 10)._replace(rotated=64)
  found = _angles(config, 10000.0, 1.0, 100_000, None).numpy()
  speed = 10000.0 ** (-np.arange(32) / 32)
  for at in (1, 1000, 99_999):
    np.testing.assert_allclose(found[at], [np.cos(at * speed), np.sin(at * speed)], rtol=0, atol=1e-6)


def test_wrong_prompts(made):
  model = made[3]
  with pytest.raises(ValueError, match="no tokens"): list(model.generate([]))
  for bad in (-1, WORDS):
    with pytest.raises(ValueError, match=f"token {bad}"): list(model.generate([1, bad]))
  for bad in ([1.5], ["a"], [None]):
    with pytest.raises(TypeError): model.generate(bad)
  assert list(model.generate(np.array([1, 2]), 3)) == list(model.generate([1, 2], 3))


@pytest.mark.parametrize("key, value, says", [
  ("general.architecture", None, "general.architecture is None"), ("general.architecture", "mamba", "known here: llama, qwen2"), ("llama.block_count", None, "no `llama.block_count`"),
  ("llama.block_count", 0, "block_count is 0"), ("llama.block_count", True, "block_count is True"), ("llama.block_count", 1 << 40, "block_count is"), ("llama.embedding_length", "8", "length is '8'"),
  ("llama.embedding_length", 9, "no multiple of head_count"), ("llama.attention.head_count_kv", 3, "no multiple of head_count_kv"), ("llama.attention.layer_norm_rms_epsilon", float("nan"), "epsilon is nan"),
  ("llama.rope.freq_base", -1.0, "freq_base is -1"), ("llama.rope.dimension_count", 3, "dimension_count is 3"), ("llama.rope.dimension_count", 6, "dimension_count is 6"),
  ("llama.rope.scaling.type", "yarn", "known here: none, linear"), ("llama.rope.freq_base", 1e-300, "rope.freq_base is 1e-300"), ("llama.attention.value_length", 2, "value_length is not")])
def test_values_that_cannot_be(key, value, says):
  from uopd.llm.config import config_of
  assert config_of(VALUES, 10).head_width == 4
  with pytest.raises(ValueError, match=says): config_of({k: v for k, v in {**VALUES, key: value}.items() if v is not None}, 10)
  with pytest.raises(ValueError, match="scaling.factor is 0.5"): config_of({**VALUES, "llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 0.5}, 10)


def test_tensors_that_do_not_fit(tmp_path):
  from uopd.llm.gguf import stored_in
  from uopd.llm.config import config_of
  write_model(tmp_path / "m.gguf", "qwen3", layers=1)
  values, stored = stored_in(tmp_path / "m.gguf")
  config, tensors = config_of(values, WORDS), {name: s.tensor() for name, s in stored.items()}
  for name in ("blk.0.attn_q.weight", "output_norm.weight", "blk.0.ffn_norm.weight"):
    with pytest.raises(ValueError, match=f"no tensor `{name}`"): Model(config, {k: v for k, v in tensors.items() if k != name})
    with pytest.raises(ValueError, match=f"`{name}` has the shape"): Model(config, {**tensors, name: Tensor.zeros(3, 5)})
