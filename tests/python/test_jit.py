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


def test_arguments_that_replays_do_not_see_are_errors():
  scale = TinyJit(lambda x, n: (x * n).realize())
  assert [scale(Tensor([3]), 2).item() for _ in range(4)] == [6] * 4
  with pytest.raises(ValueError, match="argument 1 is 3"): scale(Tensor([3]), 3)
  with pytest.raises(ValueError, match="argument 1 is 2.0"): scale(Tensor([3]), 2.0)
  assert scale(Tensor([4]), 2).item() == 8
  array = TinyJit(lambda a: (Tensor(a) + 1).realize())
  array(np.array([1]))
  with pytest.raises(TypeError, match="argument 0 is an array"): array(np.array([2]))

  class Box:
    def __init__(self, v): self.x = Tensor(v).realize()
  boxed = TinyJit(lambda b: (b.x * 2).realize())
  box = Box([1.0])
  assert [boxed(box).item() for _ in range(3)] == [2, 2, 2]
  box.x.assign(Tensor([5.0]))
  assert boxed(box).item() == 10
  box.x = Tensor([7.0]).realize()
  with pytest.raises(ValueError, match="0.x is another tensor"): boxed(box)
  with pytest.raises(ValueError, match="argument 0 is"): boxed(Box([1.0]))


def test_tensors_within_containers_are_arguments():
  nested = TinyJit(lambda ts: (ts[0]["x"] + ts[1][0][0]).realize())
  assert [nested([{"x": Tensor([i])}, ((Tensor([10 * i]),),)]).item() for i in range(5)] == [0, 11, 22, 33, 44]


def test_methods_of_several_objects_have_their_own_recordings():
  class Model:
    def __init__(self, scale): self.scale = Tensor([float(scale)]).realize()
    @TinyJit
    def __call__(self, x): return (x * self.scale).realize()
  a, b = Model(10), Model(20)
  for i in range(4): assert (a(Tensor([1.0 * i])).item(), b(Tensor([1.0 * i])).item()) == (10 * i, 20 * i)
  del a
  assert len(Model.__dict__["__call__"]._of) == 1


def test_state_and_arguments_that_are_assigned():
  add = TinyJit(lambda x: x.assign(x + 1).realize())
  for first in (lambda: Tensor([0]), lambda: Tensor([0]).realize(), lambda: Tensor.zeros(1, dtype="int32").contiguous().realize()):
    add.reset()
    x, y = first(), Tensor([10])
    for _ in range(5): assert add(x) is x
    assert x.tolist() == [5]
    for _ in range(3): add(y)
    assert y.tolist() == [13] and x.tolist() == [5]

  state = Tensor.zeros(2).contiguous().realize()

  @TinyJit
  def step(x):
    state.assign(state + x)
    return (state * 2).realize()
  for i in range(1, 6):
    assert step(Tensor([1.0, 2.0]).realize()).tolist() == [2 * i, 4 * i] and state.tolist() == [i, 2 * i]


def test_a_cache_that_is_written_through_a_view():
  cache = Tensor.zeros(2, 8).contiguous().realize()

  @TinyJit
  def step(x, at):
    cache[:, at:at + 1].assign(x).realize()
    return cache[:, :at + 1].sum(1).realize()
  expected = np.zeros((2, 8), np.float32)
  for i in range(8):
    x = np.array([[i + 1], [10 * i]], np.float32)
    expected[:, i:i + 1] = x
    assert step(Tensor(x), Variable("at", 0, 7).bind(i)).tolist() == expected.sum(1).tolist()
    np.testing.assert_array_equal(cache.numpy(), expected)


def test_one_draw_is_one_value():
  @TinyJit
  def f():
    r = Tensor.randn(2)
    return (r + 1).realize(), (r + 2).realize()
  seen = set()
  for _ in range(5):
    a, b = (t.numpy() for t in f())
    np.testing.assert_allclose(b - a, 1, atol=1e-5)
    seen.add(float(a[0]))
  assert len(seen) == 5


def test_one_tensor_as_two_arguments():
  f = TinyJit(lambda x, y: x + 2 * y)
  for i in range(3): f(Tensor([1.0]), Tensor([2.0]))
  x = Tensor(np.array([5.0], np.float32))
  assert f(x, x).item() == 15 and f(x, x).item() == 15
  both = TinyJit(lambda x, y: (x.assign(x + 1).realize(), (y * 2).realize()))
  for i in range(3): both(Tensor([1.0]), Tensor([2.0]))
  x = Tensor([5.0]).realize()
  assert both(x, x)[1].item() == 10


def test_pickle_and_keywords():
  import pickle
  jit = pickle.loads(pickle.dumps(TinyJit(np.negative, prune=True)))
  assert jit.fxn is np.negative and jit.prune and not jit.captured
