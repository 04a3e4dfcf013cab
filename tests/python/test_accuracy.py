# SPDX-License-Identifier: MIT
"""Every elementwise function of floats against references with more digits: the bounds of docs/accuracy.md."""
import re

import accuracy
import numpy as np
import pytest
from uopd import Tensor


@pytest.mark.parametrize("dtype", accuracy.DTYPES)
def test_errors_are_within_bounds(dtype):
  if accuracy.skipped(dtype): pytest.skip("long double is double here")
  pytest.importorskip("mpmath")
  wrong = []
  for name in accuracy.FUNCTIONS:
    error, at, got = accuracy.checked(name, dtype)
    if not error <= accuracy.bound(name, dtype): wrong.append(f"{name}({at}) is {got!r}: off by {error:.3f} units")
  assert not wrong, "\n".join(wrong)


def test_page_lists_all_functions_with_their_bounds():
  rows = dict(re.findall(r"^\| `(\w+)` \|(.*)\|$", accuracy.DOC.read_text(), re.MULTILINE))
  assert list(rows) == list(accuracy.FUNCTIONS)
  for name, row in rows.items():
    cells = [float(c) for c in row.split("|")]
    limits = [accuracy.bound(name, d) for d in accuracy.DTYPES]
    assert cells[-3:] == [limits[0], limits[1], limits[2]] and all(c <= b + 0.005 for c, b in zip(cells, limits)), name


def slopes(mp):
  """The exact gradients of the functions whose gradients are not those of how they are computed."""
  def s(x): return 1 / (1 + mp.exp(-x))
  def mish(x):
    t = mp.tanh(mp.log1p(mp.exp(x)))
    return t + x * (1 - t * t) * s(x)
  def bell(x): return 2 / mp.sqrt(mp.pi) * mp.exp(-x * x)
  return {"sigmoid": lambda x: s(x) * s(-x), "silu": lambda x: s(x) * (1 + x * s(-x)), "mish": mish,
          "gelu": lambda x: mp.ncdf(x) + x * mp.npdf(x), "erf": bell, "erfc": lambda x: -bell(x)}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["sigmoid", "silu", "mish", "gelu", "erf", "erfc"])
def test_gradients_are_within_two_units(name, dtype):
  mp = pytest.importorskip("mpmath")
  rng = np.random.default_rng(4)
  xs = np.concatenate([rng.uniform(-a, a, 150) for a in (1, 5, 20)]).astype(dtype)
  x = Tensor(xs, requires_grad=True)
  accuracy.FUNCTIONS[name].method(x).sum().backward()
  got, exact = x.grad.numpy(), slopes(mp)[name]
  with mp.workdps(40): want = [exact(mp.mpf(float(v))) for v in xs]
  # Slopes that are 0 somewhere are differences: their unit is that of 1.
  crosses = name in ("silu", "mish", "gelu")
  least = mp.mpf(float(np.finfo(dtype).tiny)) / float(np.finfo(dtype).eps)
  errors = [float(abs(mp.mpf(float(g)) - w) / max(abs(w), 1 if crosses else least)) for g, w in zip(got, want)]
  at = int(np.argmax(errors))
  assert errors[at] <= 2 * np.finfo(dtype).eps, f"the slope of {name} at {xs[at]!r} is {got[at]!r}, not {float(want[at])!r}"


@pytest.mark.parametrize("name", ["sigmoid", "silu", "mish", "gelu", "erf", "erfc"])
def test_second_gradients_and_ends_of_the_range(name):
  f = accuracy.FUNCTIONS[name].method
  x = Tensor(np.linspace(-4, 4, 33), requires_grad=True)
  second = f(x).sum().gradient(x)[0].sum().gradient(x)[0].numpy()
  h = 1e-5
  def slope(d):
    t = Tensor(np.linspace(-4, 4, 33) + d, requires_grad=True)
    return f(t).sum().gradient(t)[0].numpy()
  np.testing.assert_allclose(second, (slope(h) - slope(-h)) / (2 * h), rtol=0, atol=1e-8)
  for dtype in (np.float32, np.float64):
    ends = np.array([0, -0.0, np.inf, 1e30, -1e30, 800, -800, np.nan], dtype)
    t = Tensor(ends, requires_grad=True)
    y = f(t)
    y.sum().backward()
    g = t.grad.numpy()
    assert np.isfinite(g[:7]).all() and np.isnan(g[7]) and np.isnan(y.numpy()[7]), (name, g)
    rises = name in ("silu", "mish", "gelu")
    np.testing.assert_array_equal(g[2:7], [1, 1, 0, 1, 0] if rises else [0] * 5)
    if name not in ("sigmoid", "erfc"): assert list(np.signbit(y.numpy()[:2])) == [False, True]
