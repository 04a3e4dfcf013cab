# SPDX-License-Identifier: MIT
"""TinyJit: replays give what the function gives, and misuse is an error."""
import numpy as np
import pytest
import uopd
from uopd import Tensor, TinyJit, Variable, nn


def test_replays_do_not_run_the_function_and_send_no_graph():
  runs = 0

  @TinyJit
  def f(x, *, pair):
    nonlocal runs
    runs += 1
    return {"sum": (x * 2 + pair[0]).sum(1), "max": pair[1].max()}

  for i in range(6):
    x, a, b = np.arange(6, dtype=np.float32).reshape(2, 3) + i, np.full(3, i, np.float32), np.arange(4, dtype=np.float32) * i
    before = uopd.stats()["graphs_sent"]
    out = f(Tensor(x), pair=[Tensor(a), Tensor(b)])
    np.testing.assert_allclose(out["sum"].numpy(), (x * 2 + a).sum(1))
    assert out["max"].item() == b.max()
    if i > 2: assert uopd.stats()["graphs_sent"] == before
  assert runs == 2 and f.captured


def test_training_is_the_same_with_and_without():
  def losses(wrap):
    Tensor.manual_seed(3)
    layer = nn.Linear(5, 3)
    optimizer = nn.optim.Adam([layer.weight, layer.bias], lr=0.05)

    def step(x, y):
      optimizer.zero_grad()
      loss = layer(x).relu().sparse_categorical_crossentropy(y).backward()
      optimizer.step()
      return loss.realize()  # of the old weights, as in tinygrad's programs
    step, rng = wrap(step), np.random.default_rng(1)
    with Tensor.train():
      return [step(Tensor(rng.standard_normal((6, 5), np.float32)), Tensor(rng.integers(0, 3, 6).astype(np.int32))).item() for _ in range(7)]
  plain = losses(lambda f: f)
  assert losses(TinyJit) == plain and len(set(plain)) == 7


def test_variables_take_their_values_from_the_call():
  table = Tensor.arange(10).contiguous().realize()

  @TinyJit
  def head(n): return table[:n].sum()
  assert [head(Variable("n", 1, 10).bind(n)).item() for n in (3, 5, 1, 10)] == [3, 10, 0, 45]


def test_misuse_is_an_error():
  @TinyJit
  def reads(x): return x + x.sum().item()
  reads(Tensor([1.0]))
  with pytest.raises(uopd.Error, match="is read while a Jit records"): reads(Tensor([1.0]))

  @TinyJit
  def add(x, y): return x + y
  for _ in range(3): add(Tensor([1.0]), Tensor([2.0]))
  with pytest.raises(ValueError, match="input 1 is f32"): add(Tensor([1.0]), Tensor([2.0, 3.0]))
  with pytest.raises(ValueError, match="recorded were"): add(Tensor([1.0]), 2.0)
  assert add(Tensor([5.0]), Tensor([2.0])).item() == 7

  @TinyJit
  def number(x): return x.shape[0]
  with pytest.raises(TypeError, match="returns tensors"): number(Tensor([1.0]))
