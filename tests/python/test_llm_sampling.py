# SPDX-License-Identifier: MIT
"""The choice of tokens at random, against the distribution in float64, whose words are sorted."""
import dataclasses
import math

import numpy as np
import pytest

pytest.importorskip("gguf")
from llm_files import finish, logits_of, tokens, write_model  # noqa: E402

import uopd  # noqa: E402
from uopd import Tensor, dtypes  # noqa: E402
from uopd.llm.batch import Batch  # noqa: E402
from uopd.llm.model import CHUNK, Model  # noqa: E402
from uopd.llm.sampling import GREEDY, LAST, Sampling, _noise, choose, settings  # noqa: E402

DRAWS = 8192


def penalised(scores, s, before, said):
  out = scores.astype(np.float64).copy()
  for w in set(before[len(before) - min(s.repeat_last, len(before)):]): out[w] = out[w] / s.repeat_penalty if out[w] > 0 else out[w] * s.repeat_penalty
  for w in set(said): out[w] -= said.count(w) * s.frequency_penalty + s.presence_penalty
  return out


def distribution(scores, s, before=(), said=()):
  """The probabilities of all words. Asserts that no part of the probability is so close to top_p that rounding decides."""
  scores = penalised(scores, s, list(before), list(said))
  if s.temperature == 0: return (scores == scores.max()) / (scores == scores.max()).sum()
  p = np.exp((scores - scores.max()) / s.temperature)
  order = np.argsort(-scores, kind="stable")
  keep = np.zeros(len(p), bool)
  n, mass = 0, 0.0
  while n < len(order):  # groups of words that are equally likely
    group = order[n:][scores[order[n:]] == scores[order[n]]]
    if s.top_k and n >= s.top_k: break
    if s.top_p < 1:
      assert not n or abs(mass / p.sum() - s.top_p) > 1e-5
      if n and mass >= s.top_p * p.sum(): break
    if p[group[0]] < s.min_p: break
    keep[group] = True
    n, mass = n + len(group), mass + p[group].sum()
  return np.where(keep, p, 0) / p[keep].sum()


def draws(scores, s, n=DRAWS, before=(), said=()):
  """n draws with seeds from s.seed on."""
  numbers, seeds = settings([dataclasses.replace(s, seed=s.seed + i) for i in range(n)])
  recent = [-1] * (LAST - len(before)) + list(before)
  counts = np.bincount(said, minlength=len(scores)) if len(said) else np.zeros(len(scores))
  def rows(x): return np.broadcast_to(x, (n, len(x))).copy()
  return choose(Tensor(rows(scores.astype(np.float32))), numbers, seeds, Tensor(np.full((n, 1), 7, np.int32)), Tensor(rows(np.array(recent, np.int32))), Tensor(rows(counts.astype(np.float32)))).numpy()


def fits(found, p):
  """Whether words were drawn from a distribution: all of them possible, and a chi-square test of the frequencies that one in 10 million right ones fails."""
  n = np.bincount(found, minlength=len(p))
  if n[p == 0].any(): return False
  expected = p * len(found)
  many = expected >= 5
  groups = [(n[many], expected[many]), ([n[~many].sum()], [expected[~many].sum()])]
  chi = sum(((a - e) ** 2 / e).sum() for a, e in ((np.array(a, float), np.array(e)) for a, e in groups) if e.sum() > 1)
  free = max(int(many.sum()) + (expected[~many].sum() > 1) - 1, 1)
  # By Wilson and Hilferty the cube root of chi / free is nearly normal.
  return (chi / free) ** (1 / 3) < 1 - 2 / (9 * free) + 5.2 * math.sqrt(2 / (9 * free))


SCORES = np.random.default_rng(3).integers(-40, 24, 90) / 8  # exact in float32; many are equal
CASES = [Sampling(1.0), Sampling(0.5), Sampling(4.0), Sampling(1.0, top_k=1), Sampling(1.0, top_k=2), Sampling(1.0, top_k=7), Sampling(2.0, top_k=30), Sampling(1.0, top_k=90), Sampling(1.0, top_k=1 << 20),
         Sampling(1.0, top_p=0.0), Sampling(1.0, top_p=0.2), Sampling(1.0, top_p=0.9), Sampling(2.0, top_p=0.99), Sampling(1.0, min_p=0.3), Sampling(4.0, min_p=0.05), Sampling(1.0, min_p=1.0),
         Sampling(2.0, top_k=25, top_p=0.8, min_p=0.02), Sampling(2.0, top_k=5, top_p=0.95), Sampling(5e5), Sampling(1e-5), Sampling(1.0, seed=-5), Sampling(1.0, seed=1 << 70)]


@pytest.mark.parametrize("s", CASES, ids=str)
def test_frequencies(s):
  p = distribution(SCORES, s)
  found = draws(SCORES, s)
  assert fits(found, p)
  # Every word that stays and comes up in one of 400 draws was drawn; none that does not stay.
  assert set(np.flatnonzero(p > 1 / 400)) <= set(found) <= set(np.flatnonzero(p))
  other = distribution(SCORES, dataclasses.replace(s, temperature=s.temperature * 1.3))
  if abs(other - p).max() > 0.02: assert not fits(found, other)


def test_words_that_are_equally_likely_stay_together():
  scores = np.array([1.0, 3.0, 2.0, 3.0, 2.0, 2.0, 0.0])
  for s, stay in ((Sampling(1.0, top_k=1), {1, 3}), (Sampling(1.0, top_k=3), {1, 3, 2, 4, 5}), (Sampling(1.0, top_p=0.1), {1, 3}), (Sampling(1.0, top_p=0.7), {1, 3, 2, 4, 5}), (Sampling(1.0, min_p=0.36), {1, 3, 2, 4, 5})):
    assert set(draws(scores, s)) == stay and set(np.flatnonzero(distribution(scores, s))) == stay


def test_large_vocabularies():
  """The set of words that stay, exactly: with a high temperature all of them come up."""
  scores = np.random.default_rng(5).normal(size=50_000).astype(np.float32)
  rank = np.argsort(-scores, kind="stable")
  for k in (1, 5, 20): assert set(draws(scores, Sampling(50.0, top_k=k), 600)) == set(rank[:k])
  p = np.exp(scores.astype(np.float64) * 4)
  p /= p.sum()
  mass = p[rank].cumsum()
  n = 12
  top_p = float((mass[n - 2] + mass[n - 1]) / 2)  # n words reach it, n - 1 do not
  found = draws(scores, Sampling(0.25, top_p=top_p), 2000)
  assert set(found) == set(rank[:n])
  assert fits(found, np.where(p >= p[rank[n - 1]], p, 0) / mass[n - 1])


def test_extreme_scores():
  scores = np.array([-np.inf, 3e38, -3e38, 1.0])
  for s in (Sampling(1.0), Sampling(1e-5, top_k=2), Sampling(1e6, top_p=0.5), GREEDY, Sampling(repeat_penalty=2.0)): assert set(draws(scores, s, 64)) == {1}
  assert set(draws(np.array([-np.inf, -np.inf, 0.0, 0.0]), Sampling(1.0, min_p=0.1), 64)) == {2, 3}


@pytest.mark.parametrize("s", [Sampling(1.0, repeat_penalty=1.5), Sampling(1.0, repeat_penalty=1.5, repeat_last=2), Sampling(1.0, repeat_penalty=0.5, repeat_last=0), Sampling(1.0, frequency_penalty=0.5),
                               Sampling(1.0, presence_penalty=-1.0), Sampling(0.5, repeat_penalty=1.25, frequency_penalty=-0.25, presence_penalty=0.5, top_k=40)], ids=str)
def test_penalties(s):
  a, b, c, d, *_, low = (int(w) for w in np.argsort(-SCORES, kind="stable"))
  before, said = [a, low, b, b, low, c], [c, c, c, d]
  p = distribution(SCORES, s, before, said)
  found = draws(SCORES, s, before=before, said=said)
  assert fits(found, p)
  plain = distribution(SCORES, Sampling(s.temperature, top_k=s.top_k))
  assert abs(plain - p).max() < 1e-9 if s.repeat_last == 0 else not fits(found, plain)


def test_the_noise_is_exponential():
  """Also where it is small: the words that win have the smallest."""
  _, seeds = settings([Sampling(1.0, seed=i) for i in range(64)])
  found = _noise(seeds, Tensor(np.arange(64, dtype=np.int32).reshape(-1, 1)), 1 << 16).numpy().astype(np.float64)
  assert found.min() > 0
  for limit in (2e-6, 1e-5, 1e-4, 1e-3, 5e-3, 0.01, 0.015, 0.0157, 0.016, 0.02, 0.1, 0.7, 2.0, 5.0, 9.0):
    p = -math.expm1(-limit)
    assert abs((found < limit).sum() - p * found.size) < 5.2 * math.sqrt(p * (1 - p) * found.size), limit


def test_draws_of_other_positions_and_seeds_are_others():
  def at(seed, position):
    numbers, seeds = settings([Sampling(1.0, seed=seed)])
    x = Tensor.zeros(1, 100_000).contiguous()
    return choose(x, numbers, seeds, Tensor([[position]], dtype=dtypes.int32), Tensor.full((1, LAST), -1, dtype=dtypes.int32), x).item()
  found = {at(seed, position) for seed in (0, 1, 2, (1 << 63) + 1) for position in (0, 1, 2, 77)}
  assert len(found) == 16
  assert at(1, 2) == at(1 - (1 << 64), 2) == at(1, 2)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
  path = tmp_path_factory.mktemp("llm") / "small.gguf"
  values = write_model(path, "qwen3", layers=2)
  return values, Model.from_gguf(path)[0]


def test_first_and_second_tokens_of_a_model(small):
  values, model = small
  batch, prompt, s = Batch(model, 4), tokens(5, 1), Sampling(0.7, top_k=20)
  sequences = []
  for seed in range(600):
    while not batch.free: batch.step()
    sequences.append(batch.join(prompt, 2, dataclasses.replace(s, seed=seed)))
  finish(batch)
  p = distribution(logits_of(values, "qwen3", prompt)[-1], s)
  assert fits(np.array([q.said[0] for q in sequences]), p)
  first = int(p.argmax())
  after = [q.said[1] for q in sequences if q.said[0] == first]
  assert len(after) > 20 and fits(np.array(after), distribution(logits_of(values, "qwen3", [*prompt, first])[-1], s))


def test_a_seed_gives_the_same_tokens_in_any_company(small):
  model = small[1]
  s, prompt = Sampling(1.0, top_p=0.95, repeat_penalty=1.1, seed=42), tokens(CHUNK + 9, 2)
  alone = Batch(model, 1)
  want = alone.join(prompt, 30, s)
  finish(alone)
  again = alone.join(prompt[:20] + tokens(3, 9), 4, s)  # part of the prompt is known afterwards
  finish(alone)
  again = alone.join(prompt, 30, s)
  finish(alone)
  assert again.said == want.said and len(set(want.said)) > 10
  batch, found = Batch(model, 4), []
  for i in range(6):
    others = [batch.join(tokens(3 + 20 * j, 50 + i), 4 + 5 * i, [GREEDY, Sampling(0.5, seed=i), Sampling(frequency_penalty=0.5)][j]) for j in range(i % 4)]
    found.append(batch.join(prompt, 30, s))
    while not found[-1].done: batch.step()
    for o in others: batch.leave(o)
  assert all(q.said == want.said for q in found)
  other = batch.join(prompt, 30, dataclasses.replace(s, seed=43))
  finish(batch)
  assert other.said != want.said


@pytest.mark.parametrize("s", [Sampling(repeat_penalty=1.8), Sampling(repeat_penalty=1.8, repeat_last=3), Sampling(frequency_penalty=1.5, presence_penalty=1.0)], ids=str)
def test_penalties_of_a_model(small, s):
  """Without randomness each token is the likeliest one, of scores that know the tokens before."""
  values, model = small
  batch, prompt = Batch(model, 2), tokens(CHUNK + 3, 6)
  batch.join(tokens(4), 9, Sampling(1.0, frequency_penalty=2.0))  # what it leaves behind in its place means nothing to the next one
  finish(batch)
  sequences = [batch.join(prompt, 40, s), batch.join(tokens(7, 8), 40, s)]
  finish(batch)
  plain = batch.join(prompt, 40)
  finish(batch)
  assert plain.said != sequences[0].said
  for q in sequences:
    scores = logits_of(values, "qwen3", q.prompt + q.said)
    for i, t in enumerate(q.said):
      x = penalised(scores[len(q.prompt) + i - 1], s, q.prompt + q.said[:i], q.said[:i])
      assert x.max() - x[t] <= 1e-3 * np.abs(x).max()


def test_other_settings_compile_nothing_and_send_no_graph(small):
  batch = Batch(small[1], 3)
  def some(kinds, seed):
    for i, s in enumerate(kinds): batch.join(tokens(5 * i + 2, seed + i), 6, s)
    finish(batch)
  for n in (1, 2, 3) * 3: some([Sampling(1.0)] * n, n)
  before = uopd.runtime.stats()
  some([Sampling(0.3, top_k=5, seed=9)], 1)
  some([Sampling(1.3, top_p=0.5), Sampling(0.0, repeat_penalty=1.3)], 2)
  some([Sampling(0.9, min_p=0.1, presence_penalty=0.3), Sampling(2.0, seed=77), Sampling(1e-5)], 3)
  after = uopd.runtime.stats()
  assert after["graphs_sent"] == before["graphs_sent"] and after["kernels_compiled"] == before["kernels_compiled"]


@pytest.mark.parametrize("given, says", [
  ({"temperature": -0.1}, "temperature is -0.1"), ({"temperature": math.nan}, "temperature is nan"), ({"temperature": "1"}, "temperature is '1'"), ({"temperature": True}, "temperature is True"),
  ({"top_k": -1}, "top_k is -1"), ({"top_k": 1.5}, "top_k is 1.5"), ({"top_p": 1.1}, "top_p is 1.1"), ({"min_p": -1}, "min_p is -1"), ({"repeat_penalty": 0}, "repeat_penalty is 0"),
  ({"repeat_last": LAST + 1}, f"repeat_last is {LAST + 1}"), ({"frequency_penalty": math.inf}, "frequency_penalty is inf"), ({"seed": 1.5}, "seed is 1.5")])
def test_values_that_cannot_be(given, says):
  with pytest.raises(ValueError, match=says): Sampling(**given)
