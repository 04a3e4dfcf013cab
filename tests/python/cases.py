# SPDX-License-Identifier: MIT
"""Cases: a method of Tensor, its inputs, and NumPy's function in float64."""
from typing import Any, Callable, NamedTuple

import numpy as np
import references as ref
from method_cases import method_cases

from uopd import Tensor

SHAPES = [(), (1,), (7,), (3, 5), (2, 1, 4), (0,), (3, 0, 2), (2, 3, 4, 5)]
PAIRS = [((), ()), ((7,), ()), ((3, 5), (5,)), ((2, 1, 4), (3, 1)), ((0,), (1,)), ((3, 0, 2), (2,)), ((2, 3, 4), (2, 3, 4))]
FLOATS = ["float16", "float32", "float64"]
TOLERANCE = {"bfloat16": (3e-2, 2e-2), "float16": (4e-3, 2e-3), "float32": (2e-5, 2e-6), "float64": (1e-6, 1e-7)}


class Case(NamedTuple):
  name: str
  inputs: list[np.ndarray]
  method: Callable[..., Tensor]
  reference: Callable[..., Any]
  dtype: str | None = None  # of the tensors, if NumPy does not have it
  rounding: str | None = None  # the dtype of the tolerance, if it is not that of the inputs

  def tensors(self) -> list[Tensor]:
    return [Tensor(a) if self.dtype is None else Tensor(a, dtype=self.dtype) for a in self.inputs]


def bfloat16(a):
  """float32 numbers that bfloat16 has."""
  bits = a.astype("float32").reshape(-1).view("uint32")
  return ((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000).astype("uint32").view("float32").reshape(a.shape)


def values(shape, dtype, low, high, seed):
  rng = np.random.default_rng(seed)
  if dtype == "bfloat16": return bfloat16(rng.uniform(low, high, shape))
  if dtype.startswith("float"): return np.asarray(rng.uniform(low, high, shape), dtype)
  if dtype == "bool": return rng.integers(0, 2, shape).astype(bool)
  low = max(low, 0) if dtype.startswith("u") else low
  return rng.integers(int(np.ceil(low)), int(high) + 1, shape).astype(dtype)


UNARY = {  # name: (reference, lowest and highest input)
  "exp": (np.exp, -3, 3), "exp2": (np.exp2, -3, 3), "log": (np.log, 0.1, 9), "log2": (np.log2, 0.1, 9), "log10": (np.log10, 0.1, 9),
  "sin": (np.sin, -6, 6), "cos": (np.cos, -6, 6), "tan": (np.tan, -1, 1), "asin": (np.arcsin, -.9, .9), "acos": (np.arccos, -.9, .9),
  "atan": (np.arctan, -9, 9), "sinh": (np.sinh, -3, 3), "cosh": (np.cosh, -3, 3), "tanh": (np.tanh, -3, 3),
  "asinh": (np.arcsinh, -9, 9), "acosh": (np.arccosh, 1.1, 9), "atanh": (np.arctanh, -.9, .9), "sqrt": (np.sqrt, 0, 9),
  "rsqrt": (lambda x: 1 / np.sqrt(x), 0.1, 9), "reciprocal": (lambda x: 1 / x, 0.1, 9), "trunc": (np.trunc, -9, 9),
  "floor": (np.floor, -9, 9), "ceil": (np.ceil, -9, 9), "round": (np.round, -9, 9), "abs": (np.abs, -9, 9), "neg": (np.negative, -9, 9),
  "square": (np.square, -9, 9), "sign": (np.sign, -9, 9), "isnan": (np.isnan, -9, 9), "isinf": (np.isinf, -9, 9),
  "isfinite": (np.isfinite, -9, 9), "relu": (lambda x: np.maximum(x, 0), -9, 9), "relu6": (lambda x: np.clip(x, 0, 6), -9, 9),
  "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -6, 6), "silu": (lambda x: x / (1 + np.exp(-x)), -6, 6),
  "softplus": (lambda x: np.log1p(np.exp(x)), -6, 6), "softsign": (lambda x: x / (1 + np.abs(x)), -6, 6),
  "logsigmoid": (lambda x: -np.log1p(np.exp(-x)), -6, 6), "elu": (lambda x: np.where(x > 0, x, np.expm1(x)), -6, 6),
  "leaky_relu": (lambda x: np.where(x > 0, x, 0.01 * x), -6, 6), "hardtanh": (lambda x: np.clip(x, -1, 1), -6, 6),
  "hardsigmoid": (lambda x: np.clip(x / 6 + .5, 0, 1), -6, 6), "hardswish": (lambda x: x * np.clip(x / 6 + .5, 0, 1), -6, 6),
  "mish": (lambda x: x * np.tanh(np.log1p(np.exp(x))), -6, 6), "logical_not": (np.logical_not, -2, 2),
}
BINARY = {
  "add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum, "eq": np.equal, "ne": np.not_equal,
  "__lt__": np.less, "__gt__": np.greater, "__le__": np.less_equal, "__ge__": np.greater_equal, "__radd__": lambda a, b: b + a,
  "__rsub__": lambda a, b: b - a, "__rmul__": lambda a, b: b * a,
}
FLOAT_BINARY = {"div": np.divide, "mod": np.mod, "fmod": np.fmod, "copysign": np.copysign, "logaddexp": np.logaddexp, "pow": np.power,
                "__rtruediv__": lambda a, b: b / a, "__floordiv__": np.floor_divide}
INT_BINARY = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}
REDUCE = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod, "any": np.any, "all": np.all,
          "logsumexp": lambda x, axis, keepdims: np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims)),
          "var": lambda x, axis, keepdims: np.var(x, axis=axis, keepdims=keepdims, ddof=1),
          "std": lambda x, axis, keepdims: np.std(x, axis=axis, keepdims=keepdims, ddof=1)}
MOVE = [  # name, shape, method, reference
  ("reshape", (2, 6), lambda t: t.reshape(3, -1), lambda a: a.reshape(3, -1)), ("T", (2, 6), lambda t: t.T, lambda a: a.T),
  ("permute", (2, 3, 4), lambda t: t.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
  ("flip", (2, 3), lambda t: t.flip(0, 1), lambda a: np.flip(a)),
  ("expand", (1, 3), lambda t: t.expand(4, -1), lambda a: np.broadcast_to(a, (4, 3))), ("squeeze", (1, 3, 1), lambda t: t.squeeze(), np.squeeze),
  ("unsqueeze", (3,), lambda t: t.unsqueeze(-1), lambda a: a[:, None]), ("flatten", (2, 3, 4), lambda t: t.flatten(1), lambda a: a.reshape(2, 12)),
  ("pad", (2, 3), lambda t: t.pad(((1, 0), None), value=7), lambda a: np.pad(a, ((1, 0), (0, 0)), constant_values=7)),
  ("pad_flat", (2, 3), lambda t: t.pad((1, 2, 3, 0)), lambda a: np.pad(a, ((3, 0), (1, 2)))),
  ("pad_reflect", (4, 3), lambda t: t.pad(((2, 1), (1, 1)), "reflect"), lambda a: np.pad(a, ((2, 1), (1, 1)), "reflect")),
  ("pad_circular", (4, 3), lambda t: t.pad(((2, 1), (1, 1)), "circular"), lambda a: np.pad(a, ((2, 1), (1, 1)), "wrap")),
  ("shrink", (4, 5), lambda t: t.shrink(((1, 3), None)), lambda a: a[1:3]), ("roll", (4, 5), lambda t: t.roll(2, 1), lambda a: np.roll(a, 2, 1)),
  ("repeat", (2, 3), lambda t: t.repeat(2, 1, 2), lambda a: np.tile(a, (2, 1, 2))), ("tril", (4, 5), lambda t: t.tril(1), lambda a: np.tril(a, 1)),
  ("repeat_interleave", (2, 3), lambda t: t.repeat_interleave(2, 1), lambda a: np.repeat(a, 2, 1)),
  ("triu", (4, 5), lambda t: t.triu(-1), lambda a: np.triu(a, -1)),
  ("diagonal", (4, 5), lambda t: t.diagonal(1), lambda a: np.diagonal(a, 1)), ("diag", (4,), lambda t: t.diag(), np.diag),
  ("cat", (2, 3), lambda t: t.cat(t, t, dim=1), lambda a: np.concatenate([a, a, a], 1)),
  ("stack", (2, 3), lambda t: t.stack(t, dim=-1), lambda a: np.stack([a, a], -1)),
  ("split", (5, 2), lambda t: t.split(2)[2], lambda a: a[4:]), ("chunk", (5, 2), lambda t: t.chunk(2)[0], lambda a: a[:3]),
  ("cumsum", (3, 4), lambda t: t.cumsum(1), lambda a: np.cumsum(a, 1)), ("cumprod", (3, 4), lambda t: t.cumprod(0), lambda a: np.cumprod(a, 0)),
  ("cummax", (3, 4), lambda t: t.cummax(1)[0], lambda a: np.maximum.accumulate(a, 1)), ("sort", (3, 6), lambda t: t.sort()[0], lambda a: np.sort(a)),
  ("argsort", (3, 6), lambda t: t.argsort(), lambda a: np.argsort(a, kind="stable")),
  ("topk", (3, 6), lambda t: t.topk(2)[0], lambda a: -np.sort(-a)[:, :2]),
  ("argmax", (3, 6), lambda t: t.argmax(), lambda a: np.argmax(a)), ("argmin", (3, 6), lambda t: t.argmin(1), lambda a: np.argmin(a, 1)),
  ("softmax", (3, 6), lambda t: t.softmax(), lambda a: np.exp(a) / np.exp(a).sum(-1, keepdims=True)),
  ("log_softmax", (3, 6), lambda t: t.log_softmax(), lambda a: a - np.log(np.exp(a).sum(-1, keepdims=True))),
  ("clamp", (3, 6), lambda t: t.clamp(-1, 2), lambda a: np.clip(a, -1, 2)),
  ("where", (3, 6), lambda t: (t > 0).where(t, 9.0), lambda a: np.where(a > 0, a, 9)),
  ("rpow", (3, 6), lambda t: 2.0 ** t, lambda a: 2.0 ** a), ("matmul", (3, 4), lambda t: t @ t.T, lambda a: a @ a.T),
  ("vector", (4,), lambda t: t @ t, lambda a: a @ a), ("einsum", (3, 4), lambda t: type(t).einsum("ij,kj->ki", t, t), lambda a: a @ a.T),
]
INDICES = [
  np.s_[1], np.s_[-1], np.s_[:, 1:], np.s_[::-1], np.s_[..., ::-2], np.s_[1:1], np.s_[None, ..., 2], np.s_[:, None, 1], np.s_[2:0:-1, 1:3, 3],
  np.s_[[2, 0]], np.s_[:, [1, -1, 0]], np.s_[[0, 1], [2, 1]], np.s_[..., [[0, 3], [1, 2]]], np.s_[[0, 2], :, [1, 2]], np.s_[:, -100:100:2],
  np.s_[5:], np.s_[()],
]


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0])
SPECIAL_UNARY = [
  "exp", "exp2", "log", "log2", "log10", "sin", "cos", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "asin", "acos", "atan", "sqrt",
  "rsqrt", "reciprocal", "trunc", "floor", "ceil", "round", "abs", "neg", "square", "sign", "isnan", "isinf", "isfinite", "relu6", "hardtanh",
  "logical_not", "expm1", "log1p",
]
SPECIAL_BINARY = [
  "add", "sub", "mul", "maximum", "minimum", "eq", "ne", "__lt__", "__gt__", "__le__", "__ge__", "div", "fmod", "copysign", "logaddexp", "pow",
]
SPECIAL_REDUCE = ["sum", "mean", "max", "min", "prod", "any", "all"]
MORE_INDICES = [
  np.s_[-1, ::-1, ::2], np.s_[..., None], np.s_[None], np.s_[2, 3, 4], np.s_[..., 0], np.s_[:, :, ::-3], np.s_[::-2, ::-2, ::-2], np.s_[10:, 1],
  np.s_[:0], np.s_[[[0], [2]], [1, 3]], np.s_[[0, 1, 2], [0, 1, 2], [0, 1, 2]], np.s_[[-1, 0], ..., [2, -1]], np.s_[None, [1, 0], None],
  np.s_[1:, [0, 0], 1:3], np.s_[::-1, [2, 1]], np.s_[2:1, [0]], np.s_[-2:, -3:-1, -1],
]
SET = [
  (np.s_[1], 5), (np.s_[...], 2.5), (np.s_[:, 1], (5,)), (np.s_[::2, ::-1], (2, 4, 5)), (np.s_[1:, 2:, 3:], 7), (np.s_[..., -1], (3, 4)),
  (np.s_[[0, 2]], (4, 5)), (np.s_[:, [1, 3], 0], (3, 2)), (np.s_[[0, 1], [1, 2]], -1), (np.s_[[0, 1], :, [4, 0]], (2, 4)), (np.s_[2, 3, 4], 9),
  (np.s_[::-1], (3, 4, 5)), (np.s_[0:0], 1), (np.s_[np.array([True, False, True])], 3), (np.s_[np.arange(12).reshape(3, 4) % 5 == 0], (5,)),
  (np.s_[None, 1], (1, 4, 5)), (np.s_[1, None, ::2], (1, 2, 5)), (np.s_[np.array([True, False, True]), 1], (5,)),
  (np.s_[..., [True, False, False, True, True]], 4), (np.s_[-1:], (1, 4, 5)),
]


def _assigned(t, index, value):
  t = t.clone()
  t[index] = value if isinstance(value, (int, float)) else Tensor(value).cast(t.dtype)
  return t


def _numpy_assigned(a, index, value):
  a = a.copy()
  a[index] = value
  return a


def _special_cases():
  for dtype in FLOATS:
    x = SPECIAL.astype(dtype)
    left, right = np.repeat(x, len(x)), np.tile(x, len(x))
    for name in SPECIAL_UNARY:
      f = UNARY[name][0] if name in UNARY else getattr(np, name)
      yield Case(f"{name} special {dtype}", [x], lambda t, n=name: getattr(t, n)(), f)
    for name in SPECIAL_BINARY:
      yield Case(f"{name} special {dtype}", [left, right], lambda s, t, n=name: getattr(s, n)(t), {**BINARY, **FLOAT_BINARY}[name])
    for name in SPECIAL_REDUCE:
      rows = np.array([[1, np.nan, 2], [np.inf, 1, -1], [-np.inf, np.inf, 0], [-0.0, 0.0, 0.0], [np.nan, np.inf, -np.inf]], dtype)
      yield Case(f"{name} special {dtype}", [rows], lambda t, n=name: getattr(t, n)(axis=1), lambda a, n=name: REDUCE[n](a, axis=1, keepdims=False))
    yield Case(f"sort special {dtype}", [x], lambda t: t.sort()[0], np.sort)
    yield Case(f"argsort special {dtype}", [x], lambda t: t.argsort(), lambda a: np.argsort(a, kind="stable"))
    yield Case(f"argmax special {dtype}", [x], lambda t: t.argmax(), np.argmax)
    yield Case(f"argmin special {dtype}", [x], lambda t: t.argmin(), np.argmin)
    yield Case(f"cummax special {dtype}", [x], lambda t: t.cummax()[0], np.maximum.accumulate)
    yield Case(f"cumsum special {dtype}", [x], lambda t: t.cumsum(), np.cumsum)
    yield Case(f"nan_to_num {dtype}", [x], lambda t: t.nan_to_num(7, 8, 9), lambda a: np.nan_to_num(a, nan=7, posinf=8, neginf=9))
    yield Case(f"isclose special {dtype}", [left, right], lambda s, t: s.isclose(t), np.isclose)
    yield Case(f"isclose nan {dtype}", [left, right], lambda s, t: s.isclose(t, equal_nan=True), lambda a, b: np.isclose(a, b, equal_nan=True))
    yield Case(f"isinf positive {dtype}", [x], lambda t: t.isinf(detect_negative=False), np.isposinf)
    yield Case(f"isinf negative {dtype}", [x], lambda t: t.isinf(detect_positive=False), np.isneginf)


def _cast_cases():
  x = np.array([0.0, 1.5, -2.25, 3.75, 100.0, -100.0, 0.0625])
  for source in FLOATS + ["int8", "int32", "int64", "uint8", "bool"]:
    a = np.abs(x).astype(source) if source in ("uint8", "bool") else x.astype(source)
    for target in FLOATS + ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "bool"]:
      if target.startswith("uint") and source not in ("uint8", "bool"): a = np.abs(a)
      yield Case(f"cast {source} {target}", [a], lambda t, d=target: t.cast(d), lambda a, s=source, d=target: a.astype(s).astype(d))
    yield Case(f"cast {source} bfloat16", [a], lambda t: t.bfloat16().float(), lambda a, s=source: bfloat16(a.astype(s).astype("float32")))
  small = np.array([0.0, 0.5, -1.75, 3.5, 16.0, -28.0, 0.0625])  # 8-bit floats have these
  for kind in ("fp8e4m3", "fp8e5m2"):
    yield Case(f"cast {kind}", [small.astype("float32")], lambda t, k=kind: t.cast(k).cast("float32"), lambda a: a)
  for name, dtype in (("half", "float16"), ("double", "float64"), ("float", "float32"), ("int", "int32"), ("long", "int64"), ("short", "int16"),
      ("bool", "bool")):
    yield Case(f"{name}()", [x.astype("float32")], lambda t, n=name: getattr(t, n)(), lambda a, d=dtype: a.astype(d))
  for source, target in (("float32", "int32"), ("float32", "uint8"), ("float64", "float32"), ("uint8", "float16"), ("int16", "uint64"),
      ("uint64", "int8")):
    a = np.arange(32).reshape(2, 16).astype(source)
    yield Case(f"bitcast {source} {target}", [a], lambda t, d=target: t.bitcast(d), lambda a, s=source, d=target: a.astype(s).view(d))


def _integer_cases():
  for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"):
    arrays = [np.array([[3, 1], [2, 5], [0, 7]], dtype)]
    if dtype != "bool": arrays.append(np.array([[np.iinfo(dtype).min, np.iinfo(dtype).max], [np.iinfo(dtype).max, 1], [0, np.iinfo(dtype).min]],
        dtype))
    for k, a in enumerate(arrays):
      f64 = lambda x: x.astype("float64")  # noqa: E731
      for name, f in (("max", np.max), ("min", np.min), ("any", np.any), ("all", np.all), ("argmax", np.argmax), ("argmin", np.argmin)):
        yield Case(f"{name} {dtype}{k}", [a], lambda t, n=name: getattr(t, n)(axis=0), lambda x, f=f: f(x, axis=0))
      yield Case(f"sort {dtype}{k}", [a], lambda t: t.sort(0)[0], lambda x: np.sort(x, 0))
      yield Case(f"argsort {dtype}{k}", [a], lambda t: t.argsort(0), lambda x: np.argsort(x, 0, kind="stable"))
      yield Case(f"cummax {dtype}{k}", [a], lambda t: t.cummax(0)[0], lambda x: np.maximum.accumulate(x, 0))
      yield Case(f"softmax {dtype}{k}", [a], lambda t: t.softmax(0), lambda x: ref.softmax(f64(x), 0), rounding="float32")
      yield Case(f"log_softmax {dtype}{k}", [a], lambda t: t.log_softmax(0), rounding="float32",
                 reference=lambda x: f64(x) - f64(x).max(0) - np.log(np.exp(f64(x) - f64(x).max(0)).sum(0)))
      yield Case(f"layernorm {dtype}{k}", [a], lambda t: t.layernorm(0), lambda x: ref.layernorm(f64(x), 0), rounding="float32")
      yield Case(f"var {dtype}{k}", [a], lambda t: t.var(0), lambda x: f64(x).var(0, ddof=1), rounding="float32")
    a = arrays[0]
    for name in ("sum", "prod", "mean", "cumsum"):
      f = getattr(np, name)
      yield Case(f"{name} {dtype}", [a], lambda t, n=name: getattr(t, n)(axis=0), lambda x, f=f: f(x, axis=0), rounding="float32")
    for name in ("exp", "sin", "atan", "tanh", "sqrt", "sigmoid", "silu", "softplus", "trunc", "round", "abs", "sign", "isnan", "relu",
        "logical_not"):
      yield Case(f"{name} {dtype}", [a], lambda t, n=name: getattr(t, n)(), lambda x, f=UNARY[name][0]: f(f64(x)), rounding="float32")
    if dtype == "bool": continue
    pairs = {"__floordiv__": np.floor_divide, "mod": np.mod, "fmod": np.fmod, "div": np.divide, "maximum": np.maximum, "minimum": np.minimum,
             "pow": np.power, "sub": np.subtract, "mul": np.multiply, "lshift": np.left_shift, "rshift": np.right_shift}
    for name, f in pairs.items():
      yield Case(f"{name} 3 {dtype}", [a], lambda t, n=name: getattr(t, n)(3), lambda x, f=f: f(x, np.asarray(3, x.dtype)), rounding="float32")
      if dtype.startswith("u") or "shift" in name: continue
      for by in (3, -3):
        if name == "pow" and by < 0: continue
        yield Case(f"{name} negative {by} {dtype}", [-a], lambda t, n=name, b=by: getattr(t, n)(b), lambda x, f=f, b=by: f(x, np.asarray(b, x.dtype)),
                   rounding="float32")


def _bfloat16_cases():
  for seed, (name, (f, low, high)) in enumerate(UNARY.items()):
    yield Case(f"{name} bfloat16", [values((3, 5), "bfloat16", low, high, seed)], lambda t, n=name: getattr(t, n)(), f, "bfloat16")
  for seed, (name, f) in enumerate({**BINARY, "div": np.divide, "pow": np.power}.items()):
    yield Case(f"{name} bfloat16", [values((3, 5), "bfloat16", .5, 2, seed), values((5,), "bfloat16", .5, 2, seed + 1)],
               lambda s, t, n=name: getattr(s, n)(t), f, "bfloat16")
  for seed, (name, f) in enumerate(REDUCE.items()):
    yield Case(f"{name} bfloat16", [values((3, 5), "bfloat16", -2, 2, seed)], lambda t, n=name: getattr(t, n)(axis=1),
               lambda a, g=f: g(a, axis=1, keepdims=False), "bfloat16")
  for seed, (name, shape, method, f) in enumerate(MOVE):
    yield Case(f"{name} bfloat16", [values(shape, "bfloat16", -2, 2, seed)], method, f, "bfloat16")


def all_cases():
  for make in (_plain_cases, _special_cases, _cast_cases, _integer_cases, _bfloat16_cases, _method_cases): yield from (Case(*c) for c in make())


def _method_cases():
  for seed, (name, shapes, method, f) in enumerate(method_cases()):
    for dtype in ("float32", "float64"):
      if f is not None: yield Case(f"{name} {dtype}", [values(s, dtype, -2, 2, 7 * seed + k) for k, s in enumerate(shapes)], method, f)


def gradient_cases():
  """In float64, away from points without a gradient."""
  for seed, (name, (f, low, high)) in enumerate(UNARY.items()):
    for shape in ((), (2, 3), (0, 2)): yield Case(f"{name}{shape}", [values(shape, "float64", low, high, seed)], lambda t, n=name: getattr(t, n)(), f)
  for seed, (name, f) in enumerate({**BINARY, **FLOAT_BINARY}.items()):
    for a, b in PAIRS:
      yield Case(f"{name}{a}{b}", [values(a, "float64", .5, 3, 2 * seed), values(b, "float64", .5, 3, 2 * seed + 1)], lambda s, t,
          n=name: getattr(s, n)(t), f)
  for seed, (name, f) in enumerate(REDUCE.items()):
    for shape, axis, keep in (((3, 4), None, False), ((3, 4), 0, False), ((2, 3, 2), (0, 2), True), ((2, 3, 2), -1, False)):
      yield Case(f"{name}{shape}{axis}{keep}", [values(shape, "float64", -2, 2, seed)], lambda t, n=name, x=axis,
          k=keep: getattr(t, n)(axis=x, keepdim=k),
                 lambda a, g=f, x=axis, k=keep: g(a, axis=x, keepdims=k))
  for seed, (name, shape, method, f) in enumerate(MOVE): yield Case(name, [values(shape, "float64", -3, 3, seed)], method, f)
  for seed, index in enumerate(INDICES + MORE_INDICES):
    yield Case(f"index {index}", [values((3, 4, 5), "float64", -3, 3, seed)], lambda t, i=index: t[i], lambda a, i=index: a[i])
  for seed, (name, shapes, method, f) in enumerate(method_cases()):
    yield Case(name, [values(s, "float64", -2, 2, 7 * seed + k) for k, s in enumerate(shapes)], method, f)


def _plain_cases():
  seed = 0
  for name, (f, low, high) in UNARY.items():
    for shape in SHAPES:
      for dtype in FLOATS:
        seed += 1
        yield f"{name}{shape}{dtype}", [values(shape, dtype, low, high, seed)], lambda t, n=name: getattr(t, n)(), f
  for names, dtypes in ((BINARY, FLOATS + ["int8", "int32", "int64", "uint8"]), (FLOAT_BINARY, FLOATS),
      (INT_BINARY, ["int8", "int32", "uint16", "bool"])):
    for name, f in names.items():
      for a, b in PAIRS:
        for dtype in dtypes:
          seed += 2
          low = 0.5 if name in FLOAT_BINARY else -4
          yield (f"{name}{a}{b}{dtype}", [values(a, dtype, low, 5, seed), values(b, dtype, low, 5, seed + 1)],
                 lambda s, t, n=name: getattr(s, n)(t), f)
  for name, f in REDUCE.items():
    for shape in [(7,), (3, 5), (2, 3, 4), (5, 1, 2)]:
      for axis in [None, 0, -1, tuple(range(len(shape)))]:
        for keep in (False, True):
          for dtype in FLOATS:
            if name in ("var", "std") and np.prod([shape[a] for a in np.atleast_1d(np.arange(len(shape)) if axis is None else axis)]) < 2: continue
            seed += 1
            yield (f"{name}{shape}{axis}{keep}{dtype}", [values(shape, dtype, -2, 2, seed)],
                   lambda t, n=name, ax=axis, k=keep: getattr(t, n)(axis=ax, keepdim=k), lambda a, g=f, ax=axis, k=keep: g(a, axis=ax, keepdims=k))
  for name, shape, method, f in MOVE:
    for dtype in FLOATS:
      seed += 1
      yield f"{name}{shape}{dtype}", [values(shape, dtype, -3, 3, seed)], method, f
  for index, value in SET:
    for dtype in ("float32", "int32"):
      seed += 2
      v = value if isinstance(value, (int, float)) else values(value, dtype, -9, 9, seed + 1)
      yield (f"set {index}{dtype}", [values((3, 4, 5), dtype, -9, 9, seed)], lambda t, i=index, v=v: _assigned(t, i, v),
             lambda a, i=index, v=v: _numpy_assigned(a, i, v))
  for index in INDICES + MORE_INDICES:
    for dtype in ("float32", "int64", "bool"):
      seed += 1
      yield f"index{index}{dtype}", [values((3, 4, 5), dtype, -9, 9, seed)], lambda t, i=index: t[i], lambda a, i=index: a[i]
