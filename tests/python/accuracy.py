# SPDX-License-Identifier: MIT
"""The errors of all elementwise functions of floats, in units in the last place of the exact result.

  python tests/python/accuracy.py           prints the table
  python tests/python/accuracy.py --write   writes it to docs/accuracy.md

Of floats below 32 bits every value is tried. References are NumPy's functions of 80-bit numbers, and mpmath's (PyPI) where NumPy has none;
both are a thousand times as accurate as what they check. UOPD_ADDRESS or UOPD_DAEMON names the daemon."""
import pathlib
import sys
from typing import Any, Callable, NamedTuple

import numpy as np

from uopd import Tensor, dtypes

L: Any = np.longdouble
WIDE = np.finfo(L).nmant >= 63  # else it is a double here, and f64 cannot be checked by it
DTYPES = ["float64", "float32", "float16", "bfloat16", "fp8e4m3", "fp8e5m2"]
DOC = pathlib.Path(__file__).parents[2] / "docs" / "accuracy.md"
# Mantissa bits, lowest exponent of normal numbers, largest number.
FORMAT = {"float64": (52, -1022, np.finfo(np.float64).max), "float32": (23, -126, np.finfo(np.float32).max), "float16": (10, -14, 65504.0),
          "bfloat16": (7, -126, float.fromhex("0x1.fep127")), "fp8e4m3": (3, -6, 448.0), "fp8e5m2": (2, -14, 57344.0)}
SMALL = 0.505  # units of floats below 32 bits: they are rounded once, from f32


class Function(NamedTuple):
  method: Callable[..., Tensor]
  reference: Callable[..., Any]  # of 80-bit numbers
  domain: tuple[float, float] = (-np.inf, np.inf)
  f32: float = 2
  f64: float = 2
  pair: bool = False
  # Where results of f32 and f64 have all their bits: below, a factor is smaller than the smallest normal number.
  normal: tuple[float, float] = (-np.inf, -np.inf)


def by_mpmath(name):
  """A function of mpmath, of arrays. Some hundred values a second."""
  def f(x):
    import mpmath
    with mpmath.workdps(40):
      def one(v):
        if np.isnan(v): return L(np.nan)
        v = np.clip(v, -1000, 1000)  # of larger ones it is the same
        y = getattr(mpmath, name)(mpmath.mpf(float(v)) + mpmath.mpf(float(v - L(float(v)))))
        high = float(y)
        return L(high) + L(float(y - high)) if np.isfinite(high) else L(high)
      return np.array([one(v) for v in np.asarray(x).reshape(-1)], L).reshape(np.shape(x))
  f.slow = True  # type: ignore[attr-defined]
  return f


def softplus(x): return np.logaddexp(L(0), x)
def silu(x): return x * sigmoid(x)
def sigmoid(x): return np.where(x < 0, np.exp(np.minimum(x, 0)), 1) / (1 + np.exp(-np.abs(x)))
erfc = by_mpmath("erfc")


def gelu(x): return np.where(x == -np.inf, 0, x) * erfc(-x / np.sqrt(L(2))) / 2
gelu.slow = True  # type: ignore[attr-defined]


T = Tensor
EXACT, BASIC = 0.5, 1
FUNCTIONS = {
  "sqrt": Function(T.sqrt, np.sqrt, (0, np.inf), EXACT, EXACT), "reciprocal": Function(T.reciprocal, lambda x: 1 / x, f32=EXACT, f64=EXACT),
  "rsqrt": Function(T.rsqrt, lambda x: 1 / np.sqrt(x), (0, np.inf)),
  "exp": Function(T.exp, np.exp, f32=BASIC, f64=BASIC), "exp2": Function(T.exp2, np.exp2, f32=BASIC, f64=BASIC),
  "log": Function(T.log, np.log, (0, np.inf), BASIC, BASIC), "log2": Function(T.log2, np.log2, (0, np.inf), BASIC, BASIC),
  "sin": Function(T.sin, np.sin, f32=BASIC, f64=BASIC), "cos": Function(T.cos, np.cos, f32=BASIC, f64=BASIC),
  "tan": Function(T.tan, np.tan), "pow": Function(T.pow, np.power, (0, np.inf), BASIC, BASIC, True),
  "log10": Function(T.log10, np.log10, (0, np.inf)), "exp10": Function(T.exp10, lambda x: np.power(L(10), x)),
  "expm1": Function(T.expm1, np.expm1), "log1p": Function(T.log1p, np.log1p, (-1, np.inf)),
  "asin": Function(T.asin, np.arcsin, (-1, 1)), "acos": Function(T.acos, np.arccos, (-1, 1)), "atan": Function(T.atan, np.arctan),
  "atan2": Function(T.atan2, np.arctan2, pair=True), "hypot": Function(T.hypot, np.hypot, pair=True),
  "sinh": Function(T.sinh, np.sinh), "cosh": Function(T.cosh, np.cosh), "tanh": Function(T.tanh, np.tanh),
  "asinh": Function(T.asinh, np.arcsinh), "acosh": Function(T.acosh, np.arccosh, (1, np.inf)), "atanh": Function(T.atanh, np.arctanh, (-1, 1)),
  "erf": Function(T.erf, by_mpmath("erf")), "erfc": Function(T.erfc, erfc),
  "sigmoid": Function(T.sigmoid, sigmoid), "silu": Function(T.silu, silu, normal=(-87, -708)),
  "gelu": Function(lambda t: t.gelu("none"), gelu, normal=(-12.5, -37)),
  "softplus": Function(T.softplus, softplus), "logsigmoid": Function(T.logsigmoid, lambda x: -softplus(-x)),
  "mish": Function(T.mish, lambda x: x * np.tanh(softplus(x)), normal=(-87, -708)),
  "elu": Function(T.elu, lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0)))),
}


def inputs(name, f, seed=1, n=60000):
  """Values of the dtype in the domain: all of a small one; else random ones of every magnitude, and ordinary ones."""
  bits = {"float64": 64, "float32": 32}.get(name, 16 if name in ("float16", "bfloat16") else 8)
  rng = np.random.default_rng(seed)
  if bits < 32:
    raw = np.arange(2**bits, dtype=np.uint16 if bits == 16 else np.uint8)
    x = Tensor(raw).bitcast(getattr(dtypes, name)).double().numpy()
    if f.pair: x = rng.choice(x, 20000)
  else:
    if getattr(f.reference, "slow", False): n = 1500 if name == "float64" else 3000
    kind = np.dtype(name)
    parts = [rng.uniform(-a, a, n // 8) for a in (1, 2, 10, 100)] + [1 + rng.uniform(-1, 1, n // 8) * 2.0 ** rng.uniform(-20, 0, n // 8)]
    lowest, highest = np.log2(np.finfo(kind).tiny), np.log2(np.finfo(kind).max)
    parts += [rng.choice([-1, 1], n // 8) * 2.0 ** rng.uniform(*span, n // 8) for span in ((lowest, highest), (-30, 30), (0, 11))]
    x = np.concatenate(parts).astype(kind).astype(np.float64)
  low, high = f.domain
  if bits >= 32: low = max(low, f.normal[bits == 64])
  return x[(x >= low) & (x <= high)]


def units(name, got, want):
  """Errors in units in the last place of `want`. A result beyond the largest number may be that number or infinite."""
  mantissa, lowest, largest = FORMAT[name]
  with np.errstate(all="ignore"):
    exponent = np.maximum(np.frexp(np.where(np.isfinite(want), want, 1))[1] - 1, lowest)
    error = np.abs(got - want) / np.ldexp(L(1), (exponent - mantissa).astype(int))
    beyond = np.abs(want) > largest
    error = np.where(beyond, np.where(np.abs(got) >= largest, 0, np.inf), error)
    return np.where(np.isnan(want), np.where(np.isnan(got), 0, np.inf), np.where(got == want, 0, np.where(np.isnan(got), np.inf, error)))


def checked(name, dtype):
  """The largest error, and where."""
  f = FUNCTIONS[name]
  xs = [inputs(dtype, f)]
  if f.pair:
    xs.append(np.random.default_rng(2).permutation(inputs(dtype, f._replace(domain=(-np.inf, np.inf)), 3))[:len(xs[0])])
    xs[0] = xs[0][:len(xs[1])]
  tensors = [Tensor(x).cast(getattr(dtypes, dtype)) for x in xs]
  got = f.method(*tensors).double().numpy().astype(L)
  with np.errstate(all="ignore"): want = f.reference(*(x.astype(L) for x in xs))
  error = units(dtype, got, want)
  at = int(np.argmax(error))
  return float(error[at]), ", ".join(repr(float(x[at])) for x in xs), float(got[at])


def bound(name, dtype):
  f = FUNCTIONS[name]
  return f.f64 if dtype == "float64" else f.f32 if dtype == "float32" else SMALL


def skipped(dtype): return dtype == "float64" and not WIDE


def table():
  rows = [f"| function | {' | '.join(DTYPES)} | at most: f64 | f32 | smaller |", "|---" * (len(DTYPES) + 4) + "|"]
  for name, f in FUNCTIONS.items():
    errors = ["" if skipped(d) else f"{checked(name, d)[0]:.2f}" for d in DTYPES]
    rows.append(f"| `{name}` | {' | '.join(errors)} | {f.f64} | {f.f32} | {SMALL} |")
    print(rows[-1], flush=True)
  return "\n".join(rows)


HEAD = """# Accuracy

The largest errors of elementwise functions, in units in the last place of the exact result, on a CPU: 0.5 is a result that is rounded
to nearest. Floats below 32 bits were tried with all their values, others with 60,000 (erf, erfc and gelu: 1,500 to 3,000), against NumPy's functions of 80-bit numbers and
mpmath's. `python tests/python/accuracy.py --write` makes this page; `tests/python/test_accuracy.py` holds every device to the columns on the right.

Add, subtract, multiply, divide, `sqrt` and conversions are rounded to nearest. Remainders (`%`, `fmod`) are exact, and `//` is the exact quotient, rounded down, while
the quotient of two f64 is below 2^200. Sums of floats are covered by [numbers](codegen/numbers.md).

"""

if __name__ == "__main__":
  text = table()
  if "--write" in sys.argv: DOC.write_text(HEAD + text + "\n")
