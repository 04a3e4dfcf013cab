# SPDX-License-Identifier: MIT
"""Sizes, positions and values that are made of variables."""
import os
import random

import numpy as np
import pytest

import uopd
from symbolic_programs import Maker, run
from uopd import Tensor, TinyJit, Variable, dtypes

PROGRAMS = int(os.environ.get("UOPD_FUZZ_SYMBOLIC", "40"))
SEED = int(os.environ.get("UOPD_FUZZ_SEED", "1"))


def n(value, low=1, high=10, name="n"): return Variable(name, low, high).bind(value)


def programs():
  seed, made = SEED, 0
  while made < PROGRAMS:
    p = Maker(seed).p
    seed += 1
    rng = random.Random(p.seed)
    calls = [c for c in (p.bindings(rng) for _ in range(4)) if c is not None]
    if calls and p.outputs:
      made += 1
      yield p, calls


def bound(p, call): return {v.name: v.bind(call[v.name]) for v in p.variables}


def check(p, how, call, got, want):
  for k, (g, w) in enumerate(zip(got, want)):
    a = g.numpy()
    assert a.shape == w.shape and np.array_equal(a, w), f"program {p.seed}, {how}, {call}, output {k}: {a} for {w}"


def test_programs_compute_what_numpy_does():
  """Each program with symbolic sizes, with plain ones, and recorded and replayed, gives what NumPy does, bit for bit."""
  for p, calls in programs():
    arrays = [s.copy() for s in p.states]
    leaves = [Tensor(x).realize() for x in p.leaves]
    states, plain, jitted = ([Tensor(s).contiguous().realize() for s in p.states] for _ in range(3))
    wants = []
    for call in calls:
      want = [w.copy() for w in run(p, p.leaves, arrays, call, numpy=True)]
      wants.append((want, [a.copy() for a in arrays]))
      check(p, "symbolic", call, run(p, leaves, states, bound(p, call)), want)
      for s, a in zip(states, arrays): assert np.array_equal(s.numpy(), a), f"program {p.seed}: a state after {call}"
    check(p, "plain", calls[0], run(p, leaves, plain, calls[0]), wants[0][0])
    @TinyJit
    def step(**values):
      out = run(p, leaves, jitted, values)
      Tensor.realize(*out, *jitted)
      return out
    for call, (want, after) in zip(calls, wants):
      check(p, "jit", call, step(**bound(p, call)), want)
      for s, a in zip(jitted, after): assert np.array_equal(s.numpy(), a), f"program {p.seed}: a state of the recording after {call}"


def graphs(f):
  """How many graphs are sent, and kernels compiled, while f runs."""
  before = uopd.runtime.stats()
  f()
  after = uopd.runtime.stats()
  return after["graphs_sent"] - before["graphs_sent"], after["kernels_compiled"] - before["kernels_compiled"]


def test_a_symbolic_tensor_is_a_tensor():
  x = Tensor.arange(10).contiguous().realize()
  for i in (4, 0, 10, 1):
    y = (x[:n(i, 0)] + 1).realize()
    assert y.shape == (n(i, 0),) and y.shape[0].val == i and y.max_shape == (10,)
    assert y.tolist() == list(range(1, i + 1)) and y.numpy().shape == (i,) and y.data().shape == (i,) and (y * 2).sum().item() == i * (i + 1)
    assert y.numel() == n(i, 0) and y._h.is_realized
  assert x[:n(1)].item() == 0 and Tensor(n(4)).item() == 4
  with pytest.raises(ValueError): x[:n(2)].item()
  with pytest.raises(TypeError): len(x[:n(2)])


def test_other_values_need_no_graph_and_no_compile():
  x = Tensor.arange(12).reshape(3, 4).contiguous().realize()
  def f(i, j): return (x[:n(i, 1, 3), n(j, 0, 2, "m"):] * n(i, 1, 3)).sum(1).realize().tolist()
  f(1, 0)
  assert graphs(lambda: [f(i, j) for i in (1, 2, 3) for j in (0, 1, 2)]) == (0, 0)


def test_sizes_are_sums_of_products():
  a, b = n(3), n(2, name="m")
  assert a + b == b + a and 2 * a - a == a and (a + 1) * 2 == 2 * a + 2 and a * b == b * a and (4 * a + 8) // 4 == a + 2 and 6 * a % 3 == 0
  assert a != b and a != 3 and a - a == 0 and a + b - b == a and hash(a + b) == hash(b + a)
  assert (a + b).val == 5 and (a * b - 1).val == 5 and ((a + b) // 2).val == 2 and ((a + 4) % 3).val == 1 and (a - b).maximum(0).val == 1 and a.minimum(b).val == 2
  assert a + 1 > a and a >= 1 and 11 > a and not a > 10 and bool(a)
  for ask in (lambda: a > b, lambda: a < 5, lambda: bool(a - 1)):
    with pytest.raises(ValueError, match="depends on the values"): ask()
  assert (a + b).variables() == [b, a] and repr(a + 2 * b + 1) == "2*m + n + 1"


def test_boxes_are_checked_with_the_values_of_now():
  x = Tensor.arange(8).contiguous().realize()
  start, length = Variable("start", 0, 8), Variable("length", 0, 8)
  assert x.shrink(((start.bind(5), start.bind(5) + length.bind(3)),)).tolist() == [5, 6, 7]
  with pytest.raises(ValueError, match=r"where .*length = 4.*start = 5|where .*start = 5.*length = 4"): x.shrink(((start.bind(5), start.bind(5) + length.bind(4)),))
  kept = Tensor.zeros(8).contiguous().realize()
  @TinyJit
  def step(at, count):
    kept[at:at + count].assign(Tensor.ones(count))
    return kept[:at + count].sum().realize()
  for at, count, total in ((2, 3, 3), (1, 2, 2), (6, 2, 6)): assert step(start.bind(at), length.bind(count)).item() == total
  before = kept.tolist()
  with pytest.raises(ValueError, match="start = 7"): step(start.bind(7), length.bind(2))
  assert kept.tolist() == before == [0, 1, 1, 1, 1, 0, 1, 1]
  assert step(start.bind(7), length.bind(1)).item() == 6


def test_values_take_the_dtype_of_the_tensor():
  v = n(2)
  for kind in ("int8", "uint8", "int64", "float32", "bfloat16", "float16"):
    t = Tensor([1, 2, 3]).cast(kind)
    assert (t * v).dtype is t.dtype and (v + t).dtype is t.dtype and (t * v).tolist() == [2, 4, 6]
  assert Tensor(v).dtype is dtypes.int32 and Tensor(n(2, 0, 2**40)).dtype is dtypes.int64 and Tensor(Variable("b", 0, 9, dtype="uint8").bind(3)).dtype is dtypes.uint8
  assert Tensor(Variable("b", 0, 2**40).bind(2**35) + 1).item() == 2**35 + 1 and (Tensor([1, 2, 3]) / v).tolist() == [0.5, 1.0, 1.5]
  assert (v * 0.5).item() == 1.0 and (1 / v).item() == 0.5 and (v / 4 + 1).item() == 1.5 and (0.5 ** v).item() == 0.25 and v**2 == v * v
  assert (Tensor([4.0]) * (v / 4)).tolist() == [2.0] and (v - 0.5).dtype is dtypes.float32
  with pytest.raises(ValueError, match="unbound"): Tensor(Variable("u", 1, 10)).item()


def test_variables_without_a_value_make_shapes():
  u = Variable("u", 1, 10)
  part, empty = Tensor.ones(10)[:u], Tensor.empty(2, u, 4)
  assert part.shape == (u,) and empty.max_shape == (2, 10, 4) and empty.max_numel() == 80 and repr(empty) == "<Tensor (2, Variable('u', 1, 10), 4) float32 realized>"
  for f in (lambda: part.numpy(), lambda: (part + 1).sum().item(), lambda: empty.tolist(), lambda: part.realize().tolist(), lambda: TinyJit(lambda x: x + 1)(part).numpy()):
    with pytest.raises(ValueError, match="unbound"): f()


def test_lists_with_variables():
  v = n(5)
  assert Tensor([v, 2]).tolist() == [5, 2] and Tensor([[v, 1], [2, v + 1]]).tolist() == [[5, 1], [2, 6]] and Tensor([1.5, v]).tolist() == [1.5, 5.0]
  assert Tensor([v, 2]).dtype is dtypes.int32 and Tensor([v, 2], dtype="uint8").dtype is dtypes.uint8


def attention_step(cache, x, at, scale):
  """One head: the new rows go into the cache, and see what came before them and themselves."""
  count = x.shape[0]
  cache[:, at:at + count].assign(Tensor.stack(x * 2, x + 1))
  keys, values = cache[0, :at + count], cache[1, :at + count]
  mask = Tensor.full((count, at + count), float("-inf")).triu(at + 1)
  return ((x @ keys.T * scale + mask).softmax(-1) @ values).realize()


def test_a_cache_of_keys_and_values_is_decoded_in_one_graph():
  """Chunks of any length, then single rows, each recorded once."""
  rng = np.random.default_rng(0)
  rows, most, width = rng.standard_normal((32, 8)).astype(np.float32), 32, 8
  keys, values = rows.astype(np.float64) * 2, rows.astype(np.float64) + 1
  scores = rows @ keys.T / 4 + np.triu(np.full((32, 32), -np.inf), 1)
  weights = np.exp(scores - scores.max(1, keepdims=True))
  want = weights / weights.sum(1, keepdims=True) @ values
  cache, whole = Tensor.zeros(2, most, width).contiguous().realize(), Tensor(rows).realize()
  at, count = Variable("at", 0, most - 1), Variable("count", 1, most)
  chunk = TinyJit(lambda x, a: attention_step(cache, x, a, 0.25))
  single = TinyJit(lambda x, a: attention_step(cache, x, a, 0.25))
  done = 0
  def go(c):
    nonlocal done
    a = at.bind(done)
    part = whole[a:a + (count.bind(c) if c > 1 else 1)].contiguous().realize()
    got = (chunk if c > 1 else single)(part, a)
    assert got.numpy().shape == (c, width)
    np.testing.assert_allclose(got.numpy(), want[done:done + c], rtol=1e-5, atol=1e-5)
    done += c
  for c in (5, 3, 2): go(c)
  for _ in range(3): go(1)
  def rest():
    go(4)
    go(7)
    while done < most: go(1)
  assert graphs(rest) == (0, 0)


def test_assignments_at_positions_beside_variables():
  v, w = Variable("v", 1, 4), Variable("w", 0, 3)
  for n, at in ((2, 1), (4, 0), (1, 3)):
    a, b = v.bind(n), w.bind(at)
    x, want = Tensor.arange(16).reshape(4, 4).contiguous().realize(), np.arange(16).reshape(4, 4)
    view = x.T
    x[Tensor([0, -2]), :a] = 50
    want[[0, -2], :n] = 50
    x[b, ::2] = Tensor([60, 61])
    want[at, ::2] = [60, 61]
    x[:, :a][Tensor([3, 9, 3])] = Tensor([[70], [71], [72]])  # the last of two counts, and nothing is written beyond the axis
    want[3, :n] = 72
    rows = Tensor.arange(a)
    x[:a, b][rows] = rows + 80
    want[:n, at] = np.arange(n) + 80
    np.testing.assert_array_equal(x.numpy(), want)
    np.testing.assert_array_equal(view.numpy(), np.arange(16).reshape(4, 4).T)
    with pytest.raises(ValueError): x[Tensor([0, 1]), :a] = Tensor([1, 2, 3, 4, 5])
    with pytest.raises(IndexError): x[Tensor([0.5]), :a] = 1
    np.testing.assert_array_equal(x.numpy(), want)


@pytest.mark.parametrize("cut", [slice(None, None, 2), slice(1, None, 2), slice(None, None, 4), slice(None, None, -2), slice(-2, 0, -3), slice(1, 6, 9), slice(5, 1, 2)], ids=str)
def test_steps_beside_variables_are_views(cut):
  v = Variable("v", 1, 4)
  for n in (3, 1, 4):
    x, want = Tensor.arange(4 * 7).reshape(4, 7).contiguous().realize(), np.arange(4 * 7).reshape(4, 7)
    part, right = x[:v.bind(n)][:, cut], want[:n][:, cut]
    np.testing.assert_array_equal(part.numpy(), right)
    part.assign(part + 100)
    right += 100
    part[0] = 7
    right[0] = 7
    x[:v.bind(n), cut] *= 2
    right *= 2
    x.T[cut, :v.bind(n)].assign(x.T[cut, :v.bind(n)] - 1)
    right -= 1
    np.testing.assert_array_equal(x.numpy(), want)
  w = Tensor.arange(28.0).reshape(4, 7).contiguous().realize()
  (w[:v.bind(3)][:, cut] ** 2).sum().backward()
  slopes = np.zeros((4, 7))
  slopes[:3][:, cut] = 2 * np.arange(28.0).reshape(4, 7)[:3][:, cut]
  np.testing.assert_array_equal(np.zeros((4, 7)) if w.grad is None else w.grad.numpy(), slopes)


def test_masks_beside_variables():
  v = Variable("v", 1, 4)
  for n in (3, 1, 4):
    x, want = Tensor.arange(4 * 5).reshape(4, 5).contiguous().realize(), np.arange(4 * 5).reshape(4, 5)
    part, rows = x[:v.bind(n)], np.arange(4)[:n] % 2 == 0
    part[part % 3 == 0] = 50
    want[:n][want[:n] % 3 == 0] = 50
    part[Tensor.arange(v.bind(n)) % 2 == 0] += 7
    want[:n][rows] += 7
    np.testing.assert_array_equal(x.numpy(), want)
  s = Tensor(5.0).realize()
  s[s > 1] = 2.0
  s[s > 2] = 3.0
  assert s.item() == 2.0


def test_scatter_with_symbolic_sizes():
  rng = np.random.default_rng(3)
  x, y = rng.standard_normal((10, 4)).astype(np.float32), rng.standard_normal((10, 4)).astype(np.float32)
  at = rng.integers(-4, 4, (10, 4)).astype(np.int32)
  tensors = [Tensor(a).realize() for a in (x, at, y)]

  @TinyJit
  def step(rows):
    a, i, b = (t[:rows] for t in tensors)
    return a.scatter(1, i, b).realize(), a.scatter_reduce(1, i, b, "sum").realize(), a.scatter(0, i.abs().minimum(0), 5.0).realize()
  for k in (3, 10, 1, 7):
    put, added, row = x[:k].copy(), x[:k].copy(), x[:k].copy()
    for r in range(k):
      for c in range(4): put[r, at[r, c]], added[r, at[r, c]] = y[r, c], added[r, at[r, c]] + y[r, c]
    row[0] = 5
    for got, want in zip(step(n(k)), (put, added, row)): np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-6)


def test_products_of_vectors_of_variable_length():
  array, n = np.arange(12.0, dtype=np.float32).reshape(6, 2), Variable("n", 1, 5)
  for k in (3, 5, 1):
    s, want = Tensor(array)[:n.bind(k)], array[:k]
    v, w = s[:, 0], want[:, 0]
    for got, right in ((s.T @ v, want.T @ w), (v @ s, w @ want), (v @ v, w @ w), (v.dot(v), w @ w), (s.T.stack(s.T) @ v, np.stack([want.T, want.T]) @ w),
                       (v @ s.stack(s), w @ np.stack([want, want])), (s @ Tensor([1.0, 2.0]), want @ [1, 2])):
      assert np.array_equal(got.numpy(), right)


def test_long_products_of_variable_length_are_accurate():
  n = 100_000
  x = Tensor.full((n, 4), 0.1).contiguous()[:Variable("n", 1, n).bind(n - 1)]
  want = float(np.float32(0.1)) ** 2 * (n - 1)
  assert np.abs((x.T @ x).numpy() / want - 1).max() < 1e-4


def test_shapes_of_what_fits_only_with_the_values_of_now():
  whole = np.arange(64, dtype=np.float32).reshape(8, 8)
  x = Tensor(whole).realize()
  for m, k in ((5, 2), (8, 8), (4, 1)):
    part, want = x[:n(m, 1, 8, "m"), :n(k, 1, 8)][4:], whole[:m, :k][4:]
    assert part.flatten().tolist() == want.flatten().tolist()
    assert part.flatten().cumsum(0).tolist() == np.cumsum(want.flatten()).tolist()
    assert part.cat(x[:n(m, 1, 8, "m"), :n(k, 1, 8)]).tolist() == np.concatenate([want, whole[:m, :k]]).tolist()
    g, = part.flatten().sum().gradient(x)
    mask = np.zeros_like(whole)
    mask[4:m, :k] = 1
    assert np.array_equal(g.numpy(), mask)
  f = TinyJit(lambda t: t[4:].flatten() * 2)
  for m in (6, 5, 7, 4): assert f(x[:n(m, 1, 8, "m")]).tolist() == (whole[4:m] * 2).flatten().tolist()
  with pytest.raises(ValueError, match=r"m \(3\) is outside 4 to 8"): f(x[:n(3, 1, 8, "m")])
