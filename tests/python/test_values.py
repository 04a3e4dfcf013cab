# SPDX-License-Identifier: MIT
"""Values that are easily wrong: positions that are running sums, one value in several loops, remainders, functions and gradients at extremes."""
import math
from fractions import Fraction

import numpy as np
import pytest

from uopd import Tensor, dtypes

INTS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"]


# Positions.
def running(kind, ints, rng, n):
  """Positions below 8 as a running sum, product or maximum, and NumPy's."""
  if kind == "sum":
    x = (rng.random(n) < .4).astype(ints)
    return Tensor(x).cumsum(0), np.cumsum(x) % 8
  if kind == "product":
    x = np.where(rng.random(n) < .2, 2, 1).astype(ints)
    return Tensor(x).cumprod(0), np.cumprod(x) % 8
  x = rng.integers(0, 8, n).astype(ints)
  return Tensor(x).cummax(0)[0], np.maximum.accumulate(x)


@pytest.mark.parametrize("ints", INTS)
@pytest.mark.parametrize("kind", ["sum", "product", "maximum"])
def test_running_values_are_positions(kind, ints):
  rng = np.random.default_rng(len(kind) * 100 + len(ints))
  table = rng.integers(-99, 99, (8, 3)).astype(np.float32)
  for n in (1, 4, 7, 33, 300):
    at, want = running(kind, ints, rng, n)
    at = at if kind == "maximum" else at % 8
    want = want.astype(np.int64)
    t, column = Tensor(table), Tensor(table[:, 0].copy())
    assert column[at].tolist() == table[want, 0].tolist()
    assert column.gather(0, at).tolist() == table[want, 0].tolist()
    assert t[at].tolist() == table[want].tolist()
    assert t[at, at % 3].tolist() == table[want, want % 3].tolist()
    assert (column[at] + at.float()).sum().item() == pytest.approx(float((table[want, 0] + want).sum()))
    assert column[(at + 1) % 8].cumsum(0).tolist() == np.cumsum(table[(want + 1) % 8, 0]).tolist()
    assert Tensor.zeros(8).scatter(0, at, 1.0).tolist() == np.isin(np.arange(8), want).astype(float).tolist()
    assert at.one_hot(8).argmax(-1).tolist() == want.tolist()


def test_running_values_beyond_the_tensor_read_nothing():
  t = Tensor([9, 8, 7, 6])
  assert t[Tensor([1, 1, 1, 1]).cumsum(0)].tolist() == [8, 7, 6, 0]
  assert t[Tensor([-1, -1, -1, -1, -1]).cumsum(0)].tolist() == [6, 7, 8, 9, 0]


# One value, one rounding.
def twice(x):
  """Whether all elements of a matrix equal themselves where they are computed for two places of one kernel."""
  rows, columns = x.shape
  same = x.unsqueeze(1) == x.unsqueeze(0)  # (rows, rows, columns)
  eye = Tensor.eye(rows).bool().unsqueeze(-1)
  return (same | eye.logical_not()).all().item()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_one_value_has_one_rounding(dtype):
  rng = np.random.default_rng(5)
  for rows, columns, terms in ((4, 1, 8), (7, 3, 5), (16, 16, 33), (33, 5, 100), (3, 8, 2)):
    a = Tensor(rng.standard_normal((rows, terms))).cast(dtype)
    b = Tensor(rng.standard_normal((terms, columns))).cast(dtype)
    for x in (a @ b, (a.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * (a @ b), ((a.unsqueeze(-1) * b).sum(1) * 0.1).exp().sin(), a.softmax() @ b,
              (a @ b).softmax(0), a.layernorm() @ b, a.var(-1, keepdim=True) + b.std(0)):
      assert twice(x), (rows, columns, terms)
      # Each maximum is one of the elements, and its position is in range.
      best = x.argmax(1).numpy()
      assert ((best >= 0) & (best < columns)).all()
      assert (x == x.max(1, keepdim=True)).sum(1).min().item() >= 1


@pytest.mark.parametrize("f", [Tensor.exp2, Tensor.exp, Tensor.log2, Tensor.log, Tensor.sin, Tensor.cos, Tensor.tanh, Tensor.erf, lambda t: t ** 1.7])
def test_a_constant_and_a_computed_element_are_equal(f):
  x = f(Tensor.arange(1, 40).float() * 0.37)
  for i in (0, 3, 38): assert (x[i] == x).tolist()[i] and x[i].item() == x.tolist()[i]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_positions_of_sorted_rows_are_a_permutation(dtype):
  rows = Tensor(np.random.default_rng(3).standard_normal((600, 32)).astype(np.float32) * 4).cast(dtype)
  positions = rows.topk(4)[1].numpy()
  assert ((positions >= 0) & (positions < 32)).all() and all(len(set(r)) == 4 for r in positions.tolist())
  values = rows.float().numpy()
  assert (np.sort(rows.argsort().numpy(), 1) == np.arange(32)).all()
  assert (np.take_along_axis(values, rows.argsort().numpy(), 1) == np.sort(values, 1)).all()


# Functions and gradients at extremes.
@pytest.mark.parametrize("dtype, limit", [("float32", 1e-6), ("float64", 1e-14), ("bfloat16", 5e-3), ("float16", 6e-4)])
def test_gradients_of_large_angles_are_those_of_the_angle(dtype, limit):
  v = np.array([3.0, 1e3, 5e4, 1e6, 1e7, 1e9, 1e20, -2e6] if dtype != "float16" else [3.0, 1e3, 5e4, -6e4])
  x = Tensor(v).cast(dtype)
  angle = x.double().numpy()
  for f, want in ((Tensor.sin, np.cos(angle)), (Tensor.cos, -np.sin(angle)), (Tensor.tan, 1 / np.cos(angle) ** 2)):
    got = f(x).sum().gradient(x)[0].double().numpy()
    assert np.allclose(got, want, 4 * limit, limit), (f.__name__, got, want)


def test_gradients_of_exponentials_of_large_numbers():
  v = np.array([-87.0, -60, -20, 0, 20, 60, 88])
  x = Tensor(v.astype(np.float32))
  assert np.allclose(x.exp().sum().gradient(x)[0].numpy(), np.exp(v), 2e-7)
  assert np.allclose(x.sigmoid().sum().gradient(x)[0].numpy(), np.exp(-np.abs(v)) / (1 + np.exp(-np.abs(v))) ** 2, 1e-6)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_sigmoids_as_users_write_them(dtype):
  v = [-300.0, -80, -5, 0, 5, 80, 300]
  want = np.array([math.exp(min(a, 0)) / (1 + math.exp(-abs(a))) for a in v])
  slope = np.array([math.exp(-abs(a)) / (1 + math.exp(-abs(a))) ** 2 for a in v])
  limit = {"float64": 1e-14, "float32": 1e-6, "bfloat16": 2e-2, "float16": 2e-3}[dtype]
  for f in (lambda t: t.exp() / (1 + t.exp()), lambda t: t.exp() / (t.exp() + 1), lambda t: 1 / (1 + (-t).exp()), lambda t: 1.0 / ((-t).exp() + 1.0), lambda t: t.sigmoid()):
    x = Tensor(v).cast(dtype)
    assert np.allclose(f(x).double().numpy(), want, limit, 6e-8)
    assert np.allclose(f(x).sum().gradient(x)[0].double().numpy(), slope, 2 * limit, 6e-8)
  # Beside other quotients, which stay what they are.
  x = Tensor([2.0])
  assert (x.exp() / (2 + x.exp())).item() == pytest.approx(math.e ** 2 / (2 + math.e ** 2)) and (2 / (1 + x.exp())).item() == pytest.approx(2 / (1 + math.e ** 2))


def test_zero_to_a_power():
  v = [-2.0, -1, -0.0, 0.0, 0.5, 1, 3]
  x = Tensor(v)
  with np.errstate(all="ignore"): assert (0 ** x).tolist() == np.power(0.0, v).tolist() == (Tensor(0.0) ** x).tolist()
  assert (0 ** x).sum().gradient(x)[0].tolist() == [-math.inf, -math.inf, 0, 0, 0, 0, 0]
  base = Tensor([0.0, 0.0, 0.0, 2.0])
  assert (base ** Tensor([0.0, 1.0, 2.0, 3.0])).sum().gradient(base)[0].tolist() == [0, 1, 0, 12]


def test_softmax_of_small_floats_is_rounded_once():
  rng = np.random.default_rng(1)
  for dtype, digits in (("bfloat16", 2**-8), ("float16", 2**-11)):
    x = Tensor(rng.standard_normal((9, 50)) * 6).cast(dtype)
    v = x.double().numpy()
    e = np.exp(v - v.max(1, keepdims=True))
    want = e / e.sum(1, keepdims=True)
    assert np.allclose(x.softmax().double().numpy(), want, digits * 1.01, 1e-7)
    assert np.allclose(x.log_softmax().double().numpy(), np.log(want), digits * 1.01, 1e-6)


# Remainders.
def exact(x, y):
  """floor(x / y), x - floor(x / y) y and fmod for finite x and y, as fractions."""
  a, b = Fraction(float(x)), Fraction(float(y))
  q = a / b
  down, toward = Fraction(math.floor(q)), Fraction(math.trunc(q))
  return down, a - down * b, a - toward * b


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_remainders_are_exact(dtype):
  rng = np.random.default_rng(7)
  spread = {"float64": 60, "float32": 120, "float16": 14, "bfloat16": 120}[dtype]
  n = 600
  x = Tensor(rng.choice([-1, 1], n) * rng.uniform(1, 2, n) * 2.0 ** rng.uniform(-spread, spread, n)).cast(dtype)
  y = Tensor(rng.choice([-1, 1], n) * rng.uniform(1, 2, n) * 2.0 ** rng.uniform(-spread, spread, n)).cast(dtype)
  x, y = Tensor.cat(x, Tensor([5.5, 1.0, 1e4, 6.0, -6.0, 7.5, 0.3]).cast(dtype)), Tensor.cat(y, Tensor([2.0, .1, 3.0, .1, 3.0, -2.5, .1]).cast(dtype))
  a, b = x.double().numpy(), y.double().numpy()
  as_dtype = lambda values: Tensor(np.array([float(v) for v in values])).cast(dtype).double().numpy()
  down, mod, fmod = zip(*(exact(u, v) for u, v in zip(a, b)))
  assert np.array_equal((x % y).double().numpy(), as_dtype(mod))
  assert np.array_equal(x.fmod(y).double().numpy(), as_dtype(fmod))
  got, want = (x // y).double().numpy(), as_dtype(down)
  assert np.allclose(got, want, {"float64": 2.0**-51}.get(dtype, 0), 0), (got - want)
  assert np.array_equal(x.div(y, rounding_mode="floor").double().numpy(), got)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_remainders_of_special_values_are_numpys(dtype):
  v = np.array([0.0, -0.0, 1, -1, 2.5, -2.5, 5.5, .1, np.inf, -np.inf, np.nan, 1e30, -1e-30, 3, -3, 6, -6, np.finfo(dtype).max, np.finfo(dtype).tiny], dtype)
  a, b = (m.reshape(-1) for m in np.meshgrid(v, v))
  x, y = Tensor(a), Tensor(b)
  with np.errstate(all="ignore"):
    for name, got, want in (("%", x % y, np.remainder(a, b)), ("fmod", x.fmod(y), np.fmod(a, b)), ("//", x // y, np.floor_divide(a, b))):
      got = got.numpy()
      known = np.abs(a.astype(np.longdouble) / b) < 2.0**200 if dtype is np.float64 else np.ones(len(a), bool)
      known |= ~np.isfinite(a) | ~np.isfinite(b) | (b == 0)
      off = known & ~((got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want))
      if name == "//": off &= ~(np.abs(got / want - 1) <= np.finfo(dtype).eps)
      assert not off.any(), [(name, a[i], b[i], got[i], want[i]) for i in np.flatnonzero(off)[:5]]


def test_gradients_of_remainders():
  x, y = Tensor([5.5, -5.5, 6.0, 0.0, 7.25]), Tensor([2.0, 2.0, 3.0, 3.0, -2.0])
  for f, slopes in ((lambda a, b: a % b, [-2, 3, -2, 0, 4]), (lambda a, b: a.fmod(b), [-2, 2, -2, 0, 3])):
    dx, dy = f(x, y).sum().gradient(x, y)
    assert dx.tolist() == [1] * 5 and dy.tolist() == slopes
  assert (Tensor([7]) % Tensor([-3])).tolist() == [-2] and (Tensor([7]) // Tensor([-3])).tolist() == [-3]


def test_copysign():
  v = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, 3e-39, np.nan], np.float32)
  a, b = (m.reshape(-1) for m in np.meshgrid(v, v))
  for dtype in ("float32", "float64", "float16", "bfloat16"):
    got = Tensor(a).cast(dtype).copysign(Tensor(b).cast(dtype)).float().numpy()
    want = np.copysign(Tensor(a).cast(dtype).float().numpy(), b)
    real = ~np.isnan(a) & ~np.isnan(b)
    assert np.array_equal(got[real], want[real]) and np.array_equal(np.signbit(got)[real], np.signbit(want)[real])
    assert np.isnan(got[np.isnan(a)]).all()
  x = Tensor([1.0, -2.0, 3.0])
  assert x.copysign(Tensor([-1.0, -1.0, 1.0])).sum().gradient(x)[0].tolist() == [-1, 1, 1]
  assert Tensor([3, -3]).copysign(-1).tolist() == [-3, -3]


def test_acosh():
  v = np.array([1, 1 + 1e-7, 1.5, 3, 1e10, 1e38, .5, -1, np.nan, np.inf, -np.inf, 0], np.float32)
  with np.errstate(all="ignore"): want = np.arccosh(v.astype(np.float64))
  assert np.allclose(Tensor(v).acosh().numpy(), want, 3e-7, equal_nan=True)
  x = Tensor([1.0, 1.5, 1e19])
  assert np.allclose(x.acosh().sum().gradient(x)[0].numpy(), [np.inf, 1 / np.sqrt(1.25), 1e-19], 1e-6)


def test_products_are_added_up_in_the_dtype():
  a, b = Tensor.ones(1, 70000).half(), Tensor.ones(70000, 1).half()
  row, column = Tensor([[100, 100]], dtype=dtypes.int16), Tensor([[1000], [1000]], dtype=dtypes.int16)
  for product in (lambda x, y, d: x.dot(y, dtype=d), lambda x, y, d: y.matmul(x, reverse=True, dtype=d), lambda x, y, d: Tensor.einsum("ij,jk->ik", x, y, dtype=d),
                  lambda x, y, d: x.linear(y, dtype=d), lambda x, y, d: x.reshape(1, 1, 1, -1).conv2d(y.reshape(1, 1, 1, -1), Tensor([0]).cast(x.dtype), dtype=d)):
    for dtype in (dtypes.float32, dtypes.float64):
      out = product(a, b, dtype)
      assert out.dtype is dtype and out.item() == 70000
    out = product(Tensor.ones(1, 257).bfloat16(), Tensor.ones(257, 1).bfloat16(), "float32")
    assert out.dtype is dtypes.float32 and out.item() == 257
    for dtype in (dtypes.int32, dtypes.int64, dtypes.float32):
      out = product(row, column, dtype)
      assert out.dtype is dtype and out.item() == 200000
    out = product(Tensor([[1.5, 2.5]]), Tensor([[2.0], [1.0]]), dtypes.int32)  # narrower: only the sum becomes one
    assert out.dtype is dtypes.int32 and out.item() in (5, 4)
    assert product(Tensor([[1.5, 2.5]]), Tensor([[2.0], [1.0]]), dtypes.half).item() == 5.5
