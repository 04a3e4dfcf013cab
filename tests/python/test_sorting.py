# SPDX-License-Identifier: MIT
"""sort, argsort and topk against NumPy's stable sorts: many ties, every dtype, all lengths, both directions."""
import numpy as np
import pytest
from a_device import of_device
from uopd import Tensor, dtypes

DTYPES = [d for d in dtypes.all if d not in dtypes.fp8s]


def values(shape, dtype, seed=0):
  """Few different values: the smallest and largest ones of integers; both zeros, infinities and NaN among floats."""
  random = np.random.default_rng(seed)
  if dtype is dtypes.bool: return random.integers(0, 2, shape).astype(bool)
  if dtypes.is_int(dtype):
    pool = np.array([dtype.min, dtype.min + 1, 0, 1, 5, dtype.max - 1, dtype.max], dtype.numpy_name)
    return random.choice(pool, shape)
  out = random.integers(-9, 10, shape).astype(np.float64) / 4
  special = random.uniform(size=shape)
  for k, v in enumerate((np.nan, np.inf, -np.inf, -0.0)): out[(special > .02 * k) & (special < .02 * k + .01)] = v
  return out.astype(dtype.numpy_name or "float32")


def order(x, axis=-1, descending=False):
  """NumPy's stable argsort. NaN is the largest, so that descending order begins with it."""
  if not descending: return np.argsort(x, axis, kind="stable")
  x = np.flip(x, axis)
  return np.flip(x.shape[axis] - 1 - np.argsort(x, axis, kind="stable"), axis)


def bits(x): return x.view(np.uint8) if x.size else x


def check(x, t, axis=-1, descending=False):
  want = order(x, axis, descending)
  got, where = t.sort(axis, descending)
  assert where.dtype is dtypes.int32 and got.dtype is t.dtype
  np.testing.assert_array_equal(where.numpy(), want)
  sorted_ = np.take_along_axis(x, want, axis)
  np.testing.assert_array_equal(bits(got.numpy()), bits(np.ascontiguousarray(sorted_)))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_dtypes(dtype):
  # The dtypes differ in the keys alone, which short rows have too.
  many = dtype in (dtypes.bfloat16, dtypes.float64, dtypes.uint8)
  for n in of_device((1, 2, 3, 63, 64, 65, 1025, 3000), CL=(1, 3, 65, 1025) if many else (3, 65)):
    x = values((n,), dtype, n)
    for descending in (False, True): check(x, Tensor(x, dtype=dtype), 0, descending)


def test_axes_and_shapes():
  shapes = ((0,), (0, 3), (3, 0), (5, 7, 3), (2, 1, 130), (130, 2), (1, 1500), (1500, 1), (1200, 3), (3, 1200), (20, 1100), (1100, 20))
  for shape in of_device(shapes, CL=(*shapes[:5], (3, 1200))):
    x = values(shape, dtypes.float32)
    for axis in range(len(shape)):
      for descending in (False, True): check(x, Tensor(x), axis, descending)
  assert Tensor([3.0, 1.0, 2.0]).argsort().tolist() == [1, 2, 0]


# Comparing all pairs of these would take 10^11 comparisons.
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_many_elements(dtype):
  x = np.random.default_rng(4).integers(-2**20, 2**20, of_device(300_000, INTERP=20_000, CL=20_000)).astype(dtype)
  check(x, Tensor(x))
  check(x, Tensor(x), descending=True)
  got, where = Tensor(x).topk(9)
  want = order(x, descending=True)[:9]
  assert where.tolist() == want.tolist() and got.tolist() == x[want].tolist()


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d in (dtypes.float32, dtypes.float16, dtypes.bfloat16, dtypes.int64, dtypes.uint8, dtypes.bool)],
                         ids=lambda d: d.name)
def test_topk(dtype):
  for shape in of_device(((5,), (3, 40), (2, 1200), (600, 32), (4, 3, 70), (30, 300)), CL=((5,), (600, 32), (30, 300))):
    x = values(shape, dtype)
    for k in {0, 1, 4, shape[-1] // 2, shape[-1]}:
      if k > shape[-1]: continue
      for largest in (False, True):
        want = order(x, descending=largest)[..., :k]
        got, where = Tensor(x, dtype=dtype).topk(k, largest=largest)
        np.testing.assert_array_equal(where.numpy(), want)
        np.testing.assert_array_equal(bits(got.numpy()), bits(np.ascontiguousarray(np.take_along_axis(x, want, -1))))


def test_computed_values_are_sorted_once():
  """An element that was computed in two ways could come before itself."""
  x = np.random.default_rng(3).standard_normal((600, 32)).astype(np.float32)
  for dtype in ("float16", "bfloat16"):
    t = (Tensor(x).cast(dtype) * 1.7).exp()
    where = t.topk(4)[1].numpy()
    assert ((where >= 0) & (where < 32)).all() and all(len(set(row)) == 4 for row in where.tolist())
    np.testing.assert_array_equal(where, order(t.realize().float().numpy(), descending=True)[:, :4])


def test_gradients():
  for n in (6, 2000):
    x, w = np.random.default_rng(1).permutation(n).astype(np.float64), np.random.default_rng(2).standard_normal(n)
    t = Tensor(x)
    (t.sort(descending=True)[0] * Tensor(w)).sum().backward()
    want = np.empty(n)
    want[order(x, descending=True)] = w
    np.testing.assert_array_equal(t.grad.numpy(), want)
    g, = (t.topk(3)[0] * Tensor(w[:3])).sum().gradient(t)
    want = np.zeros(n)
    want[order(x, descending=True)[:3]] = w[:3]
    np.testing.assert_array_equal(g.numpy(), want)


def test_medians_and_permutations_of_many():
  x = np.random.default_rng(5).standard_normal((3, 5000))
  for q in (0.0, 0.3, 0.5, 1.0): np.testing.assert_allclose(Tensor(x).quantile(q, 1).numpy(), np.quantile(x, q, axis=1), rtol=1e-12)
  assert sorted(Tensor.randperm(5000).tolist()) == list(range(5000))
