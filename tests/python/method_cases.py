# SPDX-License-Identifier: MIT
"""Methods of several tensors or with options: (name, shapes of float inputs, method, reference). Both the values and the gradients
are tested. Inputs lie within -2 and 2, or within the limits of the fifth entry."""
import numpy as np
import references as ref

from uopd import Tensor

I = np.array  # constant positions and masks
IDX = np.array([[2, 0, 1], [1, 1, 0]])
MASK = np.array([[True, False, True, True], [False, True, False, True], [True, True, False, False]])
LABELS, PLANES = np.array([2, 0, 3, 1, 1]), np.array([[0, 2], [3, 1]])
TARGET = np.random.default_rng(5).uniform(0.05, 0.95, (4, 3))
SIGNS = np.where(np.random.default_rng(6).uniform(size=(4, 3)) < .5, -1.0, 1.0)
WEIGHT = np.array([.5, 2.0, 1.5, .25])
T = lambda a: Tensor(a)  # noqa: E731


def _floats(t, like): return Tensor(t).cast(like.dtype)


CONV = [  # x, weight, options
  ((2, 3, 6), (4, 3, 3), {}), ((1, 4, 7), (4, 2, 2), {"groups": 2, "stride": 2, "padding": 1}), ((2, 3, 5, 6), (4, 3, 3, 2), {}),
  ((1, 2, 6, 5), (3, 2, 3, 3), {"padding": 1, "stride": 2}), ((1, 2, 7, 7), (2, 2, 2, 3), {"dilation": 2}),
  ((1, 4, 5, 5), (4, 1, 3, 3), {"groups": 4}),
  ((1, 2, 4, 4), (2, 2, 3, 3), {"padding": [(0, 2), (1, 0)]}), ((1, 2, 4, 3, 4), (2, 2, 2, 2, 2), {"stride": (1, 2, 1)}), ((0, 2, 4), (3, 2, 2), {}),
]
TRANSPOSED = [
  ((2, 3, 5), (3, 4, 3), {}), ((1, 4, 4), (4, 2, 3), {"groups": 2, "stride": 2}), ((1, 3, 3, 4), (3, 2, 2, 3), {"stride": 2, "padding": 1}),
  ((1, 2, 3, 3), (2, 2, 3, 3), {"stride": (2, 3), "output_padding": (1, 2)}), ((1, 2, 4, 4), (2, 3, 2, 2), {"dilation": 2}),
]
POOLS = [
  ((1, 2, 4, 6), (2, 2), {}), ((2, 5, 5), (3, 2), {"stride": 2}), ((1, 1, 6, 7), (3, 3), {"stride": 2, "padding": 1}),
  ((1, 2, 7, 7), (2, 2), {"ceil_mode": True}), ((1, 1, 5, 6), (3, 3), {"stride": 2, "padding": 1, "ceil_mode": True}),
  ((2, 3, 8), (3,), {"dilation": 2}),
  ((1, 1, 4, 4, 4), (2, 2, 2), {}), ((5, 5), (2, 2), {"stride": 1}), ((1, 1, 4, 5), (2, 2), {"padding": [(1, 0), (0, 1)]}),
]
SIZES = [((1, 2, 5), (8,)), ((1, 2, 7), (3,)), ((1, 1, 3, 4), (5, 2)), ((2, 3), (6,)), ((1, 1, 2, 3, 2), (3, 3, 3)), ((1, 1, 4, 4), (4, 4))]
ATTENTION = [
  (((2, 4, 3), (2, 5, 3), (2, 5, 2)), {}), (((1, 2, 4, 3), (1, 2, 4, 3), (1, 2, 4, 3)), {"is_causal": True}),
  (((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4)), {"is_causal": True}), (((4, 2), (5, 2), (5, 3)), {}),
  (((2, 4, 3, 2), (2, 2, 5, 2), (2, 2, 5, 2)), {"enable_gqa": True}),
]
EINSUM = [
  ("ij,jk->ik", (3, 4), (4, 2)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)), ("ij,kj", (3, 4), (2, 4)), ("i,j->ij", (3,), (4,)), ("ij->ji", (3, 4)),
  ("ii->i", (4, 4)), ("ij->", (3, 4)), ("...ij,...jk->...ik", (2, 3, 4), (4, 2)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
  ("bhqd,bhkd->bhqk", (1, 2, 3, 4), (1, 2, 5, 4)),
]
MATMUL = [
  ((3, 4), (4, 5)), ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 2)), ((2, 3, 4), (4, 2)), ((2, 1, 3, 4), (5, 4, 2)), ((3, 0), (0, 2)), ((1, 1), (1, 1)),
  ((7, 33), (33, 5)),
]
REARRANGE = ["a b c -> c a b", "a (b d) c -> a b d c", "a b c -> (a b) c", "a b c -> a 1 b c", "a ... -> ... a", "a b c -> (c b a)"]


def _pads(options):
  """Padding for the reference in pairs, and for uopd flat from the last axis on."""
  p = options.get("padding")
  return options if not isinstance(p, list) else {**options, "padding": [v for pair in p[::-1] for v in pair]}


def _conv():
  for x, w, o in CONV:
    b = (w[0],)
    yield f"conv2d{x}{w}{o}", [x, w, b], lambda x, w, b, o=o: x.conv2d(w, b, **_pads(o)), lambda x, w, b, o=o: ref.conv(x, w, b, **o)
  for x, w, o in TRANSPOSED:
    b = (w[1] * o.get("groups", 1),)
    yield (f"conv_transpose2d{x}{w}{o}", [x, w, b], lambda x, w, b, o=o: x.conv_transpose2d(w, b, **o),
           lambda x, w, b, o=o: ref.conv_transpose(x, w, b, **o))
  yield ("conv_transpose2d uneven", [(1, 2, 4, 4), (2, 3, 3, 3)], lambda x, w: x.conv_transpose2d(w, padding=(1, 0, 0, 2), stride=2),
         lambda x, w: ref.conv_transpose(x, w, stride=2)[:, :, 0:7, 1:9])


def _pools():
  for x, k, o in POOLS:
    yield f"max_pool2d{x}{k}{o}", [x], lambda t, k=k, o=o: t.max_pool2d(k, **_pads(o)), lambda a, k=k, o=o: ref.pool(a, k, "max", **o)
    for count in (True, False):
      yield (f"avg_pool2d{x}{k}{o}{count}", [x], lambda t, k=k, o=o, c=count: t.avg_pool2d(k, count_include_pad=c, **_pads(o)),
             lambda a, k=k, o=o, c=count: ref.pool(a, k, "avg", count_include_pad=c, **o))
  indexed = [((1, 2, 4, 6), (2, 2), {}), ((2, 5, 5), (3, 2), {"stride": 2}), ((1, 1, 6, 7), (3, 3), {"stride": 2, "padding": 1}), ((3, 8), (3,), {})]
  for x, k, o in indexed:
    yield (f"max_pool2d indices{x}{k}{o}", [x], lambda t, k=k, o=o: t.max_pool2d(k, return_indices=True, **o)[1],
           lambda a, k=k, o=o: ref.max_pool_indices(a, k, **o))
    n = len(k)
    yield (f"max_unpool2d{x}{k}{o}", [x], lambda t, k=k, o=o, s=x: t.max_pool2d(k, return_indices=True, **o)[0].max_unpool2d(
             t.max_pool2d(k, return_indices=True, **o)[1], k, output_size=s, **o),
           lambda a, k=k, o=o, n=n: ref.unpool(ref.pool(a, k, "max", **o), ref.max_pool_indices(a, k, **o), a.shape[a.ndim - n:]))
  yield ("max_unpool2d default size", [(1, 2, 4, 6)],
         lambda t: t.max_pool2d(return_indices=True)[0].max_unpool2d(t.max_pool2d(return_indices=True)[1]),
         lambda a: ref.unpool(ref.pool(a, (2, 2), "max"), ref.max_pool_indices(a, (2, 2)), (4, 6)))
  yield "adaptive_avg_pool2d", [(1, 2, 6, 4)], lambda t: t.adaptive_avg_pool2d((3, 2)), lambda a: ref.pool(a, (2, 2), "avg")
  yield "adaptive_max_pool2d", [(1, 2, 6, 4)], lambda t: t.adaptive_max_pool2d((3, 2)), lambda a: ref.pool(a, (2, 2), "max")
  for x, size in SIZES:
    for mode in ("nearest", "nearest-exact", "linear"):
      for align in (False, True) if mode == "linear" else (False,):
        yield (f"interpolate{x}{size}{mode}{align}", [x], lambda t, s=size, m=mode, c=align: t.interpolate(s, m, c),
               lambda a, s=size, m=mode, c=align: ref.resize(a, s, m, c))
  yield "interpolate area", [(1, 2, 6)], lambda t: t.interpolate((3,), "area"), lambda a: a.reshape(1, 2, 3, 2).mean(-1)
  yield ("pixel_shuffle", [(2, 8, 3, 2)], lambda t: t.pixel_shuffle(2),
         lambda a: a.reshape(2, 2, 2, 2, 3, 2).transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 6, 4))
  yield "pixel_unshuffle", [(2, 8, 3, 2)], lambda t: t.pixel_shuffle(2).pixel_unshuffle(2), lambda a: a


def _products():
  for a, b in MATMUL:
    yield f"matmul{a}{b}", [a, b], lambda s, t: s.matmul(t), lambda x, y: x @ y
    yield f"rmatmul{a}{b}", [b, a], lambda s, t: s.matmul(t, reverse=True), lambda x, y: y @ x
  for formula, *shapes in EINSUM:
    yield f"einsum {formula}", shapes, lambda *t, f=formula: Tensor.einsum(f, *t), lambda *a, f=formula: np.einsum(f, *a)
  yield "dot", [(2, 3), (3,)], lambda s, t: s.dot(t), np.dot
  yield "linear", [(5, 3), (3, 4), (4,)], lambda x, w, b: x.linear(w, b), lambda x, w, b: x @ w + b
  yield "linear vector", [(5, 3), (3,), (3,)], lambda x, w, b: x.linear(w, b), lambda x, w, b: x * w + b
  yield "tensordot", [(2, 3, 4), (3, 4, 5)], lambda a, b: a.tensordot(b), lambda a, b: np.tensordot(a, b)
  yield "tensordot axes", [(2, 3, 4), (4, 5, 2)], lambda a, b: a.tensordot(b, ([0, 2], [2, 0])), lambda a, b: np.tensordot(a, b, ([0, 2], [2, 0]))
  yield "outer", [(3,), (4,)], lambda a, b: a.outer(b), np.outer
  for p in (1, 2, 3, 0.5, np.inf, -np.inf):
    yield f"norm {p}", [(3, 4)], lambda t, p=p: t.norm(p, axis=1), lambda a, p=p: np.linalg.norm(a, p, axis=1)
  yield "norm all", [(3, 4)], lambda t: t.norm(), np.linalg.norm
  yield "normalize", [(3, 4)], lambda t: t.normalize(), lambda a: a / np.linalg.norm(a, axis=1, keepdims=True)
  yield "normalize 1", [(3, 4)], lambda t: t.normalize(1, 0), lambda a: a / np.abs(a).sum(0, keepdims=True)
  yield "trace", [(3, 4)], lambda t: t.trace(), np.trace
  yield "det", [(3, 3)], lambda t: t.det(), np.linalg.det
  yield "det batch", [(2, 4, 4)], lambda t: t.det(), np.linalg.det
  yield "inverse", [(3, 3)], lambda t: (t + Tensor.eye(3) * 5).inverse(), lambda a: np.linalg.inv(a + np.eye(3) * 5)
  yield "solve", [(3, 3), (3, 2)], lambda a, b: (a + Tensor.eye(3) * 5).solve(b), lambda a, b: np.linalg.solve(a + np.eye(3) * 5, b)
  yield ("solve_triangular", [(3, 3), (3, 2)], lambda a, b: (a + Tensor.eye(3) * 5).solve_triangular(b, upper=False),
         lambda a, b: np.linalg.solve(np.tril(a + np.eye(3) * 5), b))
  yield ("cholesky", [(3, 3)], lambda t: (t @ t.T + Tensor.eye(3)).cholesky(), lambda a: np.linalg.cholesky(a @ a.T + np.eye(3)))
  yield "matrix_power", [(3, 3)], lambda t: t.matrix_power(3), lambda a: np.linalg.matrix_power(a, 3)
  yield "qr", [(4, 3)], lambda t: t.qr()[0] @ t.qr()[1], lambda a: a
  yield "qr r", [(3, 3)], lambda t: t.qr()[1].abs(), lambda a: np.abs(np.linalg.qr(a)[1])


def _networks():
  for shapes, o in ATTENTION:
    yield (f"attention{shapes}{o}", list(shapes), lambda q, k, v, o=o: q.scaled_dot_product_attention(k, v, **o),
           lambda q, k, v, o=o: ref.attention(q, k, v, causal=o.get("is_causal", False)))
  m = MASK
  yield ("attention bool mask", [(2, 3, 2), (2, 4, 2), (2, 4, 2)], lambda q, k, v: q.scaled_dot_product_attention(k, v, Tensor(m)),
         lambda q, k, v: ref.attention(q, k, v, m))
  yield ("attention float mask", [(2, 3, 2), (2, 4, 2), (2, 4, 2), (3, 4)], lambda q, k, v, b: q.scaled_dot_product_attention(k, v, b),
         lambda q, k, v, b: ref.attention(q, k, v, b))
  for axis in (-1, 1, (1, 2), (0, 2), 0):
    yield f"layernorm {axis}", [(2, 3, 4)], lambda t, x=axis: t.layernorm(x), lambda a, x=axis: ref.layernorm(a, x)
  yield ("batchnorm", [(2, 3, 4), (3,), (3,), (3,), (3,)], lambda x, w, b, m, s: x.batchnorm(w, b, m, s),
         lambda x, w, b, m, s: (x - m[:, None]) * s[:, None] * w[:, None] + b[:, None])
  yield ("batchnorm axes", [(2, 3, 4), (2, 4), (2, 4)], lambda x, m, s: x.batchnorm(None, None, m, s, axis=(0, 2)),
         lambda x, m, s: (x - m[:, None]) * s[:, None])
  yield "sequential", [(3, 4)], lambda t: t.sequential([lambda x: x * 2, lambda x: x.tanh()]), lambda a: np.tanh(a * 2)
  for axis in (0, 1, -1):
    yield f"softmax {axis}", [(3, 5)], lambda t, x=axis: t.softmax(x), lambda a, x=axis: ref.softmax(a, x)
    yield f"softmin {axis}", [(3, 5)], lambda t, x=axis: t.softmin(x), lambda a, x=axis: ref.softmax(-a, x)
    yield f"log_softmax {axis}", [(3, 5)], lambda t, x=axis: t.log_softmax(x), lambda a, x=axis: ref.log_softmax(a, x)
    yield (f"logcumsumexp {axis}", [(3, 5)], lambda t, x=axis: t.logcumsumexp(x),
           lambda a, x=axis: np.logaddexp.accumulate(a, x))
  for approximate in ("tanh", "none"):
    yield (f"gelu {approximate}", [(3, 4)], lambda t, a=approximate: t.gelu(a),
           lambda a, m=approximate: a * (.5 + .5 * (np.tanh(np.sqrt(2 / np.pi) * (a + .044715 * a**3)) if m == "tanh" else ref.erf(a / np.sqrt(2)))))
  yield "quick_gelu", [(3, 4)], lambda t: t.quick_gelu(), lambda a: a * ref.sigmoid(1.702 * a)
  yield "selu", [(3, 4)], lambda t: t.selu(), lambda a: 1.0507009873554805 * np.where(a > 0, a, 1.6732632423543772 * np.expm1(a))
  yield "selu own", [(3, 4)], lambda t: t.selu(2, 3), lambda a: 3 * np.where(a > 0, a, 2 * np.expm1(a))
  yield "celu", [(3, 4)], lambda t: t.celu(.7), lambda a: np.where(a > 0, a, .7 * np.expm1(a / .7))
  yield "elu", [(3, 4)], lambda t: t.elu(.7), lambda a: np.where(a > 0, a, .7 * np.expm1(a))
  yield "softplus", [(3, 4)], lambda t: t.softplus(2.5), lambda a: np.log1p(np.exp(2.5 * a)) / 2.5
  yield "hardsigmoid", [(3, 4)], lambda t: t.hardsigmoid(.3, .4), lambda a: np.clip(.3 * a + .4, 0, 1)
  yield "hardtanh", [(3, 4)], lambda t: t.hardtanh(-.5, .8), lambda a: np.clip(a, -.5, .8)
  yield "leaky_relu", [(3, 4)], lambda t: t.leaky_relu(.2), lambda a: np.where(a > 0, a, .2 * a)
  yield "prelu", [(2, 3, 2), (3,)], lambda t, w: t.prelu(w), lambda a, w: np.where(a > 0, a, w[:, None] * a)
  yield "threshold", [(3, 4)], lambda t: t.threshold(.3, 7), lambda a: np.where(a > .3, a, 7)
  yield "hardshrink", [(3, 4)], lambda t: t.hardshrink(.6), lambda a: np.where(np.abs(a) > .6, a, 0)
  yield "softshrink", [(3, 4)], lambda t: t.softshrink(.6), lambda a: np.sign(a) * np.maximum(np.abs(a) - .6, 0)
  yield "tanhshrink", [(3, 4)], lambda t: t.tanhshrink(), lambda a: a - np.tanh(a)
  yield "glu", [(3, 4)], lambda t: t.glu(), lambda a: a[:, :2] * ref.sigmoid(a[:, 2:])


def _indexing():
  x = (3, 4)
  yield "gather 0", [x], lambda t: t.gather(0, T(IDX)), lambda a: np.take_along_axis(a[:, :3], IDX, 0)
  yield "gather 1", [x], lambda t: t.gather(1, T(IDX)), lambda a: np.take_along_axis(a[:2], IDX, 1)
  yield "take", [x], lambda t: t.take(T(IDX * 3)), lambda a: np.take(a, IDX * 3)
  apart = I([[0, 2, 3], [1, 0, 2]])
  yield "scatter", [x, (2, 3)], lambda t, s: t.scatter(1, T(apart), s), lambda a, s: ref.scatter(a, 1, apart, s)
  yield "scatter number", [x], lambda t: t.scatter(0, T(IDX), 4.0), lambda a: ref.scatter(a, 0, IDX, np.full((2, 3), 4.0))
  yield ("scatter add", [x, (2, 3)], lambda t, s: t.scatter(0, T(IDX), s, reduce="add"), lambda a, s: ref.scatter_reduce(a, 0, IDX, s, "sum"))
  yield ("scatter multiply", [x, (2, 3)], lambda t, s: t.scatter(0, T(IDX), s, reduce="multiply"),
         lambda a, s: ref.scatter_reduce(a, 0, IDX, s, "prod"))
  yield ("scatter multiply number", [x], lambda t: t.scatter(0, T(IDX), 2.0, reduce="multiply"),
         lambda a: ref.scatter_reduce(a, 0, IDX, np.full((2, 3), 2.0), "prod"))
  for how in ("sum", "prod", "mean", "amax", "amin"):
    for own in (True, False):
      yield (f"scatter_reduce {how}{own}", [x, (2, 3)], lambda t, s, h=how, o=own: t.scatter_reduce(0, T(IDX), s, h, o),
             lambda a, s, h=how, o=own: ref.scatter_reduce(a, 0, IDX, s, h, o))
  yield "masked_select", [x], lambda t: t.masked_select(T(MASK), size=9, fill_value=-1), lambda a: np.concatenate([a[MASK], [-1, -1]])
  yield "masked_select cut", [x], lambda t: t.masked_select(T(MASK), size=3), lambda a: a[MASK][:3]
  yield "masked_select counted", [x], lambda t: t.masked_select(T(MASK)), lambda a: a[MASK]
  yield "masked_fill", [x], lambda t: t.masked_fill(T(MASK), 3.5), lambda a: np.where(MASK, 3.5, a)
  yield "nonzero", [x], lambda t: (t > 0.3).nonzero(), lambda a: np.argwhere(a > .3)
  yield ("nonzero size", [x], lambda t: (t > .3).nonzero(size=12, fill_value=-1),
         lambda a: np.concatenate([np.argwhere(a > .3), np.full((12 - (a > .3).sum(), 2), -1)]))
  yield "mask", [x], lambda t: t[T(MASK)], lambda a: a[MASK]
  yield "mask rows", [x], lambda t: t[T(I([True, False, True]))], lambda a: a[[True, False, True]]
  yield "mask columns", [x], lambda t: t[1:, I([True, False, True, True])], lambda a: a[1:, [True, False, True, True]]
  yield "mask list", [x], lambda t: t[..., [True, False, True, True]], lambda a: a[..., [True, False, True, True]]
  yield "array", [x], lambda t: t[I([2, 0]), I([1, -1])], lambda a: a[[2, 0], [1, -1]]
  yield "empty list", [x], lambda t: t[[]], lambda a: a[[]]
  yield "numpy integers", [x], lambda t: t[np.int64(1), np.uint8(2)], lambda a: a[1, 2]
  yield "index_put", [x, (2,)], lambda t, v: t.index_put(([0, 2], [1, 3]), v), lambda a, v: ref.scatter(a.ravel(), 0, I([1, 11]), v).reshape(3, 4)
  yield ("index_put add", [x, (3,)], lambda t, v: t.index_put(([0, 2, 0], [1, 3, 1]), v, accumulate=True),
         lambda a, v: ref.scatter_reduce(a.ravel(), 0, I([1, 11, 1]), v, "sum").reshape(3, 4))
  yield "where", [x, x], lambda s, t: T(MASK).where(s, t), lambda a, b: np.where(MASK, a, b)
  yield "where number", [x], lambda t: T(MASK).where(2.0, t), lambda a: np.where(MASK, 2.0, a)


def _shapes():
  for f in REARRANGE:
    def numpy(a, f=f):
      left, right = (s.split() for s in f.replace("(b d)", "b d").replace("...", "b c").split("->"))
      sizes = dict(zip("abc", a.shape)) | ({"b": 2, "d": 3} if "d" in f else {})
      names = [n.strip("()") for n in right if n != "1"]
      y = np.einsum(a.reshape([sizes[n] for n in left]), [left.index(n) for n in left], [left.index(n) for n in names])
      shape = {"a b c -> (a b) c": (12, 4), "a b c -> a 1 b c": (2, 1, 6, 4), "a b c -> (c b a)": (48,)}.get(f)
      return y if shape is None else y.reshape(shape)
    sizes = {"b": 2} if "(b d)" in f else {}
    yield f"rearrange {f}", [(2, 6, 4)], lambda t, f=f, s=sizes: t.rearrange(f, **s), numpy
  x = (2, 3, 4)
  yield "unflatten", [(2, 6)], lambda t: t.unflatten(1, (2, -1)), lambda a: a.reshape(2, 2, 3)
  yield "flatten middle", [(2, 3, 4, 5)], lambda t: t.flatten(1, 2), lambda a: a.reshape(2, 12, 5)
  yield "moveaxis", [x], lambda t: t.moveaxis(0, -1), lambda a: np.moveaxis(a, 0, -1)
  yield "moveaxis several", [x], lambda t: t.moveaxis((0, 1), (1, 2)), lambda a: np.moveaxis(a, (0, 1), (1, 2))
  yield "diag matrix", [(4, 3)], lambda t: t.diag(), np.diag
  yield "diagonal axes", [x], lambda t: t.diagonal(-1, 1, 2), lambda a: np.diagonal(a, -1, 1, 2)
  yield "diag_embed", [(2, 3)], lambda t: t.diag_embed(), lambda a: np.stack([np.diag(r) for r in a])
  yield "unfold", [(2, 7)], lambda t: t.unfold(1, 3, 2), lambda a: np.lib.stride_tricks.sliding_window_view(a, 3, 1)[:, ::2]
  for k, indexing in ((0, "ij"), (1, "ij"), (0, "xy"), (1, "xy")):
    yield (f"meshgrid {k}{indexing}", [(3,), (4,)], lambda s, t, k=k, i=indexing: s.meshgrid(t, indexing=i)[k],
           lambda a, b, k=k, i=indexing: np.meshgrid(a, b, indexing=i)[k])
  yield "pad replicate", [(3, 4)], lambda t: t.pad(((2, 1), (0, 3)), "replicate"), lambda a: np.pad(a, ((2, 1), (0, 3)), "edge")
  yield "pad cut", [(4, 5)], lambda t: t.pad((-1, 2, -2, 0)), lambda a: np.pad(a[2:, 1:], ((0, 0), (0, 2)))
  yield "pad_to", [(2, 3)], lambda t: t.pad_to(4, None, value=2), lambda a: np.pad(a, ((0, 2), (0, 0)), constant_values=2)
  yield "shrink_to", [(4, 5)], lambda t: t.shrink_to(2, None), lambda a: a[:2]
  yield "shrink", [(4, 5)], lambda t: t.shrink(((1, 4), (2, 2))), lambda a: a[1:4, 2:2]
  yield "repeat_interleave", [(2, 3)], lambda t: t.repeat_interleave(3), lambda a: np.repeat(a, 3)
  yield "roll flat", [(3, 4)], lambda t: t.roll(5), lambda a: np.roll(a, 5)
  yield "roll several", [(3, 4)], lambda t: t.roll((1, -2), (0, 1)), lambda a: np.roll(a, (1, -2), (0, 1))
  yield "cat", [(2, 3), (1, 3), (0, 3)], lambda a, b, c: Tensor.cat(a, b, c), lambda a, b, c: np.concatenate([a, b, c])
  yield "stack", [(2, 3), (2, 3)], lambda a, b: Tensor.stack(a, b, dim=1), lambda a, b: np.stack([a, b], 1)
  yield "stack list", [(2, 3), (2, 3)], lambda a, b: Tensor.stack([a, b]), lambda a, b: np.stack([a, b])
  yield "split list", [(6, 2)], lambda t: t.split([1, 3, 2])[1], lambda a: a[1:4]
  yield "chunk", [(7, 2)], lambda t: t.chunk(3)[2], lambda a: a[6:]
  yield "squeeze dim", [(1, 3, 1)], lambda t: t.squeeze(-1), lambda a: a[:, :, 0]
  yield "squeeze other", [(2, 3)], lambda t: t.squeeze(0), lambda a: a
  yield "view", [(2, 6)], lambda t: t.view(3, None, -1) if t.shape[1] == 9 else t.view((3, 4)), lambda a: a.reshape(3, 4)
  yield "reshape None", [(2, 6)], lambda t: t.reshape(None, 3, 2), lambda a: a.reshape(2, 3, 2)
  yield "transpose", [x], lambda t: t.transpose(0, 2), lambda a: a.transpose(2, 1, 0)


def _sorted():
  for axis in (0, 1, -1):
    for name, f in (("cummax", np.maximum), ("cummin", np.minimum)):
      yield f"{name} {axis}", [(3, 5)], lambda t, n=name, x=axis: getattr(t, n)(x)[0], lambda a, f=f, x=axis: f.accumulate(a, x)
    yield (f"cummax where {axis}", [(3, 5)], lambda t, x=axis: t.cummax(x)[1],
           lambda a, x=axis: np.maximum.accumulate(np.where(a == np.maximum.accumulate(a, x), np.indices(a.shape)[x], -1), x))
    yield f"cumsum {axis}", [(3, 5)], lambda t, x=axis: t.cumsum(x), lambda a, x=axis: np.cumsum(a, x)
    yield f"cumprod {axis}", [(3, 5)], lambda t, x=axis: t.cumprod(x), lambda a, x=axis: np.cumprod(a, x)
    yield f"sort {axis}", [(3, 5)], lambda t, x=axis: t.sort(x)[0], lambda a, x=axis: np.sort(a, x)
    yield f"sort down {axis}", [(3, 5)], lambda t, x=axis: t.sort(x, descending=True)[0], lambda a, x=axis: -np.sort(-a, x)
    yield f"argsort {axis}", [(3, 5)], lambda t, x=axis: t.argsort(x), lambda a, x=axis: np.argsort(a, x, kind="stable")
    yield f"topk {axis}", [(3, 5)], lambda t, x=axis: t.topk(2, x)[0], lambda a, x=axis: np.take(-np.sort(-a, x), [0, 1], x)
    yield f"topk least {axis}", [(3, 5)], lambda t, x=axis: t.topk(2, x, largest=False)[0], lambda a, x=axis: np.take(np.sort(a, x), [0, 1], x)
    yield f"median {axis}", [(3, 5)], lambda t, x=axis: t.median(x), lambda a, x=axis: np.median(a, x)
    yield f"quantile {axis}", [(3, 5)], lambda t, x=axis: t.quantile(.3, x, True), lambda a, x=axis: np.quantile(a, .3, x, keepdims=True)
  yield "cumsum long", [(2, 600)], lambda t: t.cumsum(1), lambda a: np.cumsum(a, 1)
  yield "median all", [(3, 4)], lambda t: t.median(), np.median
  yield "searchsorted", [(5,), (3, 4)], lambda s, v: s.sort()[0].searchsorted(v), lambda s, v: np.searchsorted(np.sort(s), v)
  yield "std_mean", [(3, 4)], lambda t: Tensor.stack(*t.std_mean(1)), lambda a: np.stack([a.std(1, ddof=1), a.mean(1)])
  yield "var_mean", [(3, 4)], lambda t: Tensor.stack(*t.var_mean(0, correction=0)), lambda a: np.stack([a.var(0), a.mean(0)])
  yield "count_nonzero", [(3, 4)], lambda t: (t > 0).count_nonzero(1), lambda a: np.count_nonzero(a > 0, 1)
  yield "usum", [(3,), (3,), (2, 3)], lambda a, b, c: a.usum(b, c), lambda a, b, c: a + b + c
  yield "uprod", [(3,), (3,), (2, 3)], lambda a, b, c: a.uprod(b, c), lambda a, b, c: a * b * c
  yield "lerp", [(3, 4), (4,), (3, 1)], lambda a, b, w: a.lerp(b, w), lambda a, b, w: a + w * (b - a)
  yield "atan2", [(3, 4), (4,)], lambda a, b: a.atan2(b), np.arctan2
  yield "hypot", [(3, 4), (4,)], lambda a, b: a.hypot(b), np.hypot
  yield "expm1", [(3, 4)], lambda t: t.expm1(), np.expm1
  yield "erf", [(3, 4)], lambda t: t.erf(), ref.erf
  yield "erfc", [(3, 4)], lambda t: t.erfc(), lambda a: 1 - ref.erf(a)
  yield "exp10", [(3, 4)], lambda t: t.exp10(), lambda a: 10**a
  yield "clip", [(3, 4)], lambda t: t.clip(-.5), lambda a: np.maximum(a, -.5)
  yield "clamp tensors", [(3, 4), (4,)], lambda t, m: t.clamp(m - 1, m + 1), lambda a, m: np.minimum(np.maximum(a, m - 1), m + 1)
  yield "rpow", [(3, 4)], lambda t: 2 ** t, lambda a: 2**a
  yield "rdiv", [(3, 4)], lambda t: 3 / (t + 4), lambda a: 3 / (a + 4)
  yield "rsub numpy", [(3, 4)], lambda t: np.float32(2) - t, lambda a: 2 - a
  yield "radd array", [(3, 4)], lambda t: np.ones((3, 4), "float32").astype(t.dtype.numpy_name) + t, lambda a: 1 + a
  yield "pow integer", [(3, 4)], lambda t: t ** 3, lambda a: a**3
  yield "pow half", [(3, 4)], lambda t: (t + 3) ** .5, lambda a: np.sqrt(a + 3)
  yield "pow negative", [(3, 4)], lambda t: (t + 3) ** -2, lambda a: (a + 3)**-2.0
  yield "pow tensors", [(3, 4), (4,)], lambda s, t: (s + 3) ** t, lambda a, b: (a + 3)**b
  yield "neg zero", [(3, 4)], lambda t: -(t * 0), lambda a: a * 0
  yield "detach", [(3, 4)], lambda t: t.detach(), None
  yield "contiguous", [(3, 4)], lambda t: t.T.contiguous(), lambda a: a.T
  yield "contiguous_backward", [(3, 4)], lambda t: t.T.contiguous_backward(), lambda a: a.T
  yield "clone", [(3, 4)], lambda t: t.clone(), lambda a: a


def _losses():
  for r in ("mean", "sum", "none"):
    yield (f"bce {r}", [(4, 3)], lambda t, r=r: t.sigmoid().binary_crossentropy(_floats(TARGET, t), reduction=r),
           lambda a, r=r: ref.reduced(ref.bce(ref.sigmoid(a), TARGET), r))
    yield (f"bce logits {r}", [(4, 3)], lambda t, r=r: t.binary_crossentropy_logits(_floats(TARGET, t), reduction=r),
           lambda a, r=r: ref.reduced(ref.bce_logits(a, TARGET), r))
    yield (f"cross_entropy {r}", [(5, 4)], lambda t, r=r: t.cross_entropy(T(LABELS), reduction=r),
           lambda a, r=r: ref.nll(ref.log_softmax(a, 1), LABELS, reduction=r))
    yield (f"cross_entropy planes {r}", [(2, 4, 2)], lambda t, r=r: t.cross_entropy(T(PLANES), reduction=r),
           lambda a, r=r: ref.nll(ref.log_softmax(a, 1), PLANES, reduction=r))
    yield (f"nll weights {r}", [(5, 4)], lambda t, r=r: t.nll_loss(T(LABELS), _floats(WEIGHT, t), reduction=r),
           lambda a, r=r: ref.nll(a, LABELS, WEIGHT, reduction=r))
    yield (f"nll ignore {r}", [(5, 4)], lambda t, r=r: t.nll_loss(T(LABELS), ignore_index=1, reduction=r),
           lambda a, r=r: ref.nll(a, LABELS, ignore=1, reduction=r))
    yield (f"sparse {r}", [(5, 4)], lambda t, r=r: t.sparse_categorical_crossentropy(T(LABELS), ignore_index=0, reduction=r),
           lambda a, r=r: ref.nll(ref.log_softmax(a, 1), LABELS, ignore=0, reduction=r))
    yield f"mse {r}", [(4, 3), (4, 3)], lambda t, y, r=r: t.mse_loss(y, r), lambda a, b, r=r: ref.reduced((a - b)**2, r)
    yield f"l1 {r}", [(4, 3), (4, 3)], lambda t, y, r=r: t.l1_loss(y, r), lambda a, b, r=r: ref.reduced(np.abs(a - b), r)
  d = lambda a, b: np.abs(a - b)  # noqa: E731
  yield ("smooth_l1", [(4, 3), (4, 3)], lambda t, y: t.smooth_l1_loss(y, beta=.7),
         lambda a, b: np.where(d(a, b) < .7, d(a, b)**2 / 1.4, d(a, b) - .35).mean())
  yield ("huber", [(4, 3), (4, 3)], lambda t, y: t.huber_loss(y, delta=.7),
         lambda a, b: np.where(d(a, b) < .7, d(a, b)**2 / 2, .7 * d(a, b) - .245).mean())
  yield "kl_div", [(4, 3)], lambda t: t.kl_div(_floats(TARGET, t), "sum"), lambda a: (TARGET * (np.log(TARGET) - a)).sum()
  yield ("kl_div log", [(4, 3), (4, 3)], lambda t, y: t.kl_div(y, log_target=True), lambda a, b: (np.exp(b) * (b - a)).mean())
  yield ("cross_entropy smooth", [(5, 4)], lambda t: t.cross_entropy(T(LABELS), label_smoothing=.1),
         lambda a: (.9 * ref.nll(ref.log_softmax(a, 1), LABELS) - .1 * ref.log_softmax(a, 1).mean()))
  yield ("cross_entropy probabilities", [(4, 3)], lambda t: t.cross_entropy(_floats(TARGET, t)),
         lambda a: -(TARGET * ref.log_softmax(a, 1)).sum(1).mean())
  yield ("sparse smooth", [(5, 4)], lambda t: t.sparse_categorical_crossentropy(T(LABELS), label_smoothing=.2),
         lambda a: (.8 * ref.nll(ref.log_softmax(a, 1), LABELS) - .2 * ref.log_softmax(a, 1).mean()))
  yield ("sparse smooth, one row for all labels", [(4,)], lambda t: t.sparse_categorical_crossentropy(T(LABELS), label_smoothing=.2),
         lambda a: (.8 * ref.nll(ref.log_softmax(np.tile(a, (5, 1)), 1), LABELS) - .2 * ref.log_softmax(a[None], 1).mean()))
  yield ("bce pos_weight", [(4, 3)], lambda t: t.binary_crossentropy_logits(_floats(TARGET, t), pos_weight=_floats(WEIGHT[:3], t)),
         lambda a: ref.bce_logits(a, TARGET, WEIGHT[:3]).mean())
  yield ("poisson", [(4, 3)], lambda t: t.poisson_nll_loss(_floats(TARGET, t)), lambda a: (np.exp(a) - TARGET * a).mean())
  yield ("gaussian", [(4, 3), (4, 3), (4, 3)], lambda t, y, v: t.gaussian_nll_loss(y, v * v + .5),
         lambda a, b, v: (.5 * (np.log(v * v + .5) + (a - b)**2 / (v * v + .5))).mean())
  yield ("margin_ranking", [(4, 3), (4, 3)], lambda a, b: a.margin_ranking_loss(b, _floats(SIGNS, a), .3),
         lambda a, b: np.maximum(0, .3 - SIGNS * (a - b)).mean())
  yield ("triplet", [(4, 3), (4, 3), (4, 3)], lambda a, p, n: a.triplet_margin_loss(p, n, 3),
         lambda a, p, n: np.maximum(0, np.linalg.norm(a - p + 1e-6, axis=1) - np.linalg.norm(a - n + 1e-6, axis=1) + 3).mean())
  yield ("hinge_embedding", [(4, 3)], lambda t: t.hinge_embedding_loss(_floats(SIGNS, t), 1.5),
         lambda a: np.where(SIGNS == 1, a, np.maximum(0, 1.5 - a)).mean())
  cosine = lambda a, b: (a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))  # noqa: E731
  yield "cosine_similarity", [(4, 3), (4, 3)], lambda a, b: a.cosine_similarity(b), cosine
  yield ("cosine_embedding", [(4, 3), (4, 3)], lambda a, b: a.cosine_embedding_loss(b, _floats(SIGNS[:, 0], a), .1),
         lambda a, b: np.where(SIGNS[:, 0] == 1, 1 - cosine(a, b), np.maximum(0, cosine(a, b) - .1)).mean())


def method_cases():
  for part in (_conv, _pools, _products, _networks, _indexing, _shapes, _sorted, _losses): yield from part()
