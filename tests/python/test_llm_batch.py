# SPDX-License-Identifier: MIT
"""Sequences that are computed together, against each of them alone."""
import random
import signal

import pytest

pytest.importorskip("gguf")
from llm_files import CONTEXT, WORDS, finish, follows, tokens, write_model  # noqa: E402

import uopd  # noqa: E402
from uopd.llm.batch import Batch  # noqa: E402
from uopd.llm.model import CHUNK, LONG, Model  # noqa: E402

SLOTS = 3


@pytest.fixture(scope="module", params=["llama", "qwen2", "qwen3", "olmo2", "gemma3"])
def made(request, tmp_path_factory):
  path = tmp_path_factory.mktemp("llm") / f"{request.param}.gguf"
  values = write_model(path, request.param)
  model = Model.from_gguf(path)[0]
  return request.param, values, model, Batch(model, SLOTS)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
  path = tmp_path_factory.mktemp("llm") / "small.gguf"
  values = write_model(path, "llama", layers=2)
  return values, Model.from_gguf(path)[0]


def is_right(architecture, values, model, prompt, said):
  """Whether a sequence has the tokens of float64, as far as float32 can tell, and those that the model writes alone, but for the rounding of sums."""
  alone = list(model.generate(prompt, len(said)))
  return follows(values, architecture, prompt, said) and (said == alone or follows(values, architecture, prompt, alone))


def test_joins_and_leaves_at_random(made):
  architecture, values, model, batch = made
  rng, all_of, left = random.Random(5), [], []
  waiting = [(tokens(rng.choice([1, 2, CHUNK, CHUNK + 1, 50, 2 * CHUNK + 3]), 100 + i), rng.randint(1, 12)) for i in range(14)]
  while waiting or batch.free < SLOTS:
    while waiting and batch.free and rng.random() < 0.7: all_of.append((batch.join(*waiting[0]), *waiting.pop(0)))
    for s, token in batch.step(): assert s.said[-1] == token and not s in left
    running = [s for s, *_ in all_of if not s.done]
    if running and rng.random() < 0.15:
      left.append(rng.choice(running))
      batch.leave(left[-1])
  assert len(all_of) == 14 and 2 <= len(left) <= 10
  assert sum(s.said == list(model.generate(prompt, len(s.said))) for s, prompt, _ in all_of if s.said) >= len([s for s, *_ in all_of if s.said]) - 1
  for s, prompt, most in all_of:
    assert s.done and (len(s.said) == most or s in left)
    if s.said:
      assert is_right(architecture, values, model, prompt, s.said)
      assert not follows(values, architecture, prompt, [*s.said[:-1], (s.said[-1] + 1) % WORDS])


@pytest.mark.parametrize("length", [LONG - CHUNK, LONG - CHUNK + 1, LONG + 9])
def test_long_prompts(made, length):
  """Alone they are computed in long parts, beside another sequence in short ones."""
  architecture, values, model, batch = made
  prompt = tokens(length, length)
  for others in (0, 1):
    other = [batch.join(tokens(2, 3), 20) for _ in range(others)]
    for _ in other: batch.step()
    for slot in batch._slots: slot.seen = []
    s = batch.join(prompt, 4)
    finish(batch)
    assert is_right(architecture, values, model, prompt, s.said)


def test_nothing_is_compiled_and_no_graph_is_sent_after_the_first_steps(made):
  batch = made[3]
  def some(n, seed):
    for i in range(n): batch.join(tokens(7 * i + 3, seed + i), 5 + i)
    finish(batch)
  for n in (1, 2, 3, 1, 2, 3): some(n, 200)
  for seed in (400, 401):
    batch.join(tokens(LONG, seed), 2)
    finish(batch)
  before = uopd.runtime.stats()
  for n in (3, 1, 2): some(n, 300 + 10 * n)
  for n in (2 * CHUNK + 5, LONG + CHUNK + 5):
    batch.join(tokens(n, 500 + n), 3)
    finish(batch)
  after = uopd.runtime.stats()
  assert after["graphs_sent"] == before["graphs_sent"] and after["kernels_compiled"] == before["kernels_compiled"]


def test_a_long_prompt_keeps_nobody_waiting(small):
  """Between two tokens of one sequence at most one part of another one's prompt is computed."""
  batch = Batch(small[1], 2)
  first = batch.join(tokens(3), 40)
  for _ in range(3): batch.step()
  said = len(first.said)
  second = batch.join(tokens(4 * CHUNK + 1, 1), 2)
  while not second.said: batch.step()
  assert len(first.said) - said >= 4
  finish(batch)
  assert len(first.said) == 40


def test_the_context_ends(small):
  values, model = small
  for context in (CONTEXT, CHUNK + 5, CHUNK - 3):
    batch = Batch(model, 2, context)
    prompts = [tokens(context - 3, 9), tokens(context, 10), tokens(context - 1, 11)[:CHUNK + 2]]
    sequences = [batch.join(p) for p in prompts[:2]]
    finish(batch)
    sequences.append(batch.join(prompts[2], 3))
    finish(batch)
    assert [len(s.said) for s in sequences[:2]] == [4, 1]  # three have room, and the last one is not computed from
    for s in sequences: assert is_right("llama", values, model, s.prompt, s.said)
    with pytest.raises(ValueError, match=f"the context has {context}"): batch.join(tokens(context + 1))


def test_what_is_known_is_not_computed_again(small):
  values, model = small
  batch = Batch(model, 2)
  parts = []
  ask, batch._ask_part = batch._ask_part, lambda s: (parts.append(1), ask(s))[1]
  first = batch.join(tokens(3 * CHUNK, 2), 6)
  finish(batch)
  assert len(parts) == 3
  longer = first.prompt + first.said + tokens(4, 3)
  for prompt, n in ((longer, 1), (longer[:70] + tokens(3, 4), 1), (longer, 2), (tokens(40, 5), 2)):
    parts.clear()
    s = batch.join(prompt, 5)
    finish(batch)
    assert len(parts) == n and is_right("llama", values, model, prompt, s.said)
  # One that leaves early, whose place the next one takes.
  s = batch.join(longer, 9)
  while len(s.said) < 4: batch.step()
  batch.leave(s)
  again = batch.join(longer + s.said, 5)
  finish(batch)
  assert is_right("llama", values, model, again.prompt, again.said)


def test_places(small):
  batch = Batch(small[1], 2)
  a, b = batch.join(tokens(2)), batch.join(tokens(3))
  with pytest.raises(RuntimeError, match="all 2 places of the batch are taken"): batch.join(tokens(2))
  batch.leave(a)
  batch.leave(a)
  assert batch.free == 1 and a.done and not b.done
  c = batch.join(tokens(4), 1)
  while not c.done: batch.step()
  batch.leave(b)
  assert batch.free == 2 and batch.step() == [] and c.said and a.said == []


def test_wrong_sequences(small):
  batch = Batch(small[1], 1)
  with pytest.raises(ValueError, match="no tokens"): batch.join([])
  for bad in (-1, WORDS):
    with pytest.raises(ValueError, match=f"token {bad}"): batch.join([1, bad])
  with pytest.raises(TypeError): batch.join(["a"])
  with pytest.raises(ValueError, match="most is 0"): batch.join([1], 0)
  for bad in (0, 65):
    with pytest.raises(ValueError, match=f"slots is {bad}"): Batch(small[1], bad)
  with pytest.raises(ValueError, match="context is -1"): Batch(small[1], 1, -1)
  assert batch.free == 1 and batch.step() == []


def test_an_interrupt_ends_all_sequences_and_leaves_the_batch_usable(small):
  values, model = small
  batch = Batch(model, 2)
  want = [(p := tokens(n, n), list(model.generate(p, 8))) for n in (5, 45)]
  def interrupt(*_): raise KeyboardInterrupt
  before = signal.signal(signal.SIGALRM, interrupt)
  interrupted = 0
  try:
    for i in range(12):
      sequences = [batch.join(p, 60) for p, _ in want]
      try:
        signal.setitimer(signal.ITIMER_REAL, 0.002 + 0.004 * i)
        finish(batch)
      except KeyboardInterrupt: interrupted += 1
      finally: signal.setitimer(signal.ITIMER_REAL, 0)
      assert all(s.done for s in sequences)
      assert batch.free == 2
      sequences = [batch.join(p, 8) for p, _ in want]
      finish(batch)
      for s, (p, w) in zip(sequences, want): assert s.done and (s.said == w or follows(values, "llama", p, s.said))
  finally: signal.signal(signal.SIGALRM, before)
  assert interrupted > 5


@pytest.mark.parametrize("steps,part", [(3, 1), (12, 6), (40, 20), (9, 9)])
def test_sequences_end_where_the_device_says_however_far_steps_are_ahead(small, steps, part):
  """Loops that end by themselves, and those behind them that are not run, change nothing but what is computed in vain."""
  values, model = small
  prompts = [tokens(n, 300 + n) for n in (1, 7, CHUNK + 2, 3, 12, 50, 2)]
  plain = Batch(model, SLOTS)

  def said_by(batch, rng, ends=frozenset()):
    waiting, running, all_of = list(prompts), [], []
    while waiting or any(not s.done for s in running):
      while waiting and batch.free and rng.random() < 0.6:
        running.append(batch.join(waiting.pop(0), 30))
        all_of.append(running[-1])
      for s, token in batch.step(): assert s.said[-1] == token
    for s in all_of: assert len(s.said) == 30 or s.said[-1] in ends
    return [s.said for s in all_of]
  whole = said_by(plain, random.Random(1))
  counts = {t: sum(t in said for said in whole) for said in whole for t in said[3:20]}
  ends = {t for t, n in sorted(counts.items(), key=lambda x: -x[1])[:2]}
  want = [said[:next((i + 1 for i, t in enumerate(said) if t in ends), len(said))] for said in whole]
  assert any(len(a) < len(b) for a, b in zip(want, whole))
  batch = Batch(model, SLOTS, ends=ends)
  batch.warm_up()
  class Fixed:
    def came(self): pass
  batch._ahead = Fixed()
  batch._ahead.steps, batch._ahead.part = steps, part
  for seed in range(3):
    before = uopd.stats()["graphs_sent"]
    found = said_by(batch, random.Random(seed), ends)
    assert uopd.stats()["graphs_sent"] == before
    # Sums of several rows may be rounded in another order, which may choose another word.
    assert sum(a == b for a, b in zip(found, want)) >= len(want) - 1, (found, want)
    for prompt, said in zip(prompts, found): assert is_right("llama", values, model, prompt, said)
