# SPDX-License-Identifier: MIT
"""Gradients of every differentiable method in float64: against the slope of NumPy's function in every element of every input, and
against the slope of the method itself in a random direction. Many cases in one request."""
import numpy as np
import pytest
import references as ref
from cases import gradient_cases, values

from uopd import Tensor, dtypes

CASES = list(gradient_cases())
BATCH = 40
STEP = 1e-6


def test_number_of_cases():
  assert len(CASES) >= 700


def weights(shape, seed=1): return np.asarray(np.random.default_rng(seed).uniform(.5, 1.5, shape))


def loss(case, tensors):
  """The weighted sum of the result; None if it has no gradient."""
  y = case.method(*tensors)
  return (y * Tensor(weights(y.shape))).sum() if dtypes.is_float(y.dtype) else None


def numpy_slopes(case):
  """d(weighted sum of the reference)/d(input), by central differences."""
  out = []
  for k, a in enumerate(case.inputs):
    slope = np.empty(a.shape)
    for i in np.ndindex(*a.shape):
      ends = []
      for by in (STEP, -STEP):
        moved = [b.copy() for b in case.inputs]
        moved[k][i] += by
        with np.errstate(all="ignore"): y = np.asarray(case.reference(*moved), np.float64)
        ends.append((y * weights(y.shape)).sum())
      slope[i] = (ends[0] - ends[1]) / (2 * STEP)
    out.append(slope)
  return out


@pytest.mark.parametrize("first", range(0, len(CASES), BATCH))
def test_batch(first):
  checks, wrong = [], []
  for case in CASES[first:first + BATCH]:
    tensors = case.tensors()
    y = loss(case, tensors)
    if y is None: continue
    steps = [np.asarray(np.random.default_rng(k).uniform(-1, 1, a.shape)) for k, a in enumerate(case.inputs)]
    ends = [loss(case, [Tensor(np.asarray(a + by * s)) for a, s in zip(case.inputs, steps)]) for by in (STEP, -STEP)]
    checks.append((case, y.gradient(*tensors), steps, ends))
  flat = [t for _, g, _, ends in checks for t in (*g, *ends)]
  if flat: flat[0].realize(*flat[1:])
  for case, gradients, steps, ends in checks:
    got = [g.numpy() for g in gradients]
    size = max([1.0, *(np.abs(g).max() for g in got if g.size)])
    along = sum((g * s).sum() for g, s in zip(got, steps))
    slope = (ends[0].item() - ends[1].item()) / (2 * STEP)
    if case.name != "detach" and not abs(along - slope) <= 2e-6 * size:
      wrong.append(f"{case.name}: {along} along a direction, where the slope is {slope}")
    for k, (g, want) in enumerate(zip(got, numpy_slopes(case) if case.reference else got)):
      if g.shape != want.shape or not np.allclose(g, want, 1e-6, 1e-6 * size):
        wrong.append(f"{case.name}: input {k}: {g.reshape(-1)[:5]}, expected {want.reshape(-1)[:5]}")
  assert not wrong, f"{len(wrong)} wrong\n" + "\n".join(wrong)


# Formulas: (name, shapes, method, gradients of its sum weighted by w).
def _softmax(x, w):
  s = ref.softmax(x)
  return s * (w - (w * s).sum(-1, keepdims=True))


def _layernorm(x, w):
  z, n = ref.layernorm(x, -1), x.shape[-1]
  return (w - w.mean(-1, keepdims=True) - z * (w * z).mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) if n else x


def _attention(q, k, v, w):
  d = np.sqrt(q.shape[-1])
  p = ref.softmax(q @ np.swapaxes(k, -1, -2) / d)
  dp = w @ np.swapaxes(v, -1, -2)
  ds = p * (dp - (dp * p).sum(-1, keepdims=True)) / d
  return ds @ k, np.swapaxes(ds, -1, -2) @ q, np.swapaxes(p, -1, -2) @ w


Y = np.array([1, 0, 3])
HOT = np.eye(4)[Y]
FORMULAS = [
  ("matmul", [(3, 4), (4, 2)], lambda a, b: a @ b, lambda a, b, w: (w @ b.T, a.T @ w)),
  ("batched matmul", [(2, 3, 4), (4, 2)], lambda a, b: a @ b, lambda a, b, w: (w @ b.T, np.einsum("bij,bik->jk", a, w))),
  ("mul", [(3, 4), (4,)], lambda a, b: a * b, lambda a, b, w: (w * b, (w * a).sum(0))),
  ("div", [(3, 4), (3, 1)], lambda a, b: a / (b + 4), lambda a, b, w: (w / (b + 4), (-w * a / (b + 4)**2).sum(1, keepdims=True))),
  ("relu", [(3, 4)], lambda t: t.relu(), lambda a, w: w * (a > 0)),
  ("sigmoid", [(3, 4)], lambda t: t.sigmoid(), lambda a, w: w * ref.sigmoid(a) * (1 - ref.sigmoid(a))),
  ("tanh", [(3, 4)], lambda t: t.tanh(), lambda a, w: w * (1 - np.tanh(a)**2)),
  ("exp", [(3, 4)], lambda t: t.exp(), lambda a, w: w * np.exp(a)),
  ("log", [(3, 4)], lambda t: (t + 3).log(), lambda a, w: w / (a + 3)),
  ("sqrt", [(3, 4)], lambda t: (t + 3).sqrt(), lambda a, w: w / (2 * np.sqrt(a + 3))),
  ("erf", [(3, 4)], lambda t: t.erf(), lambda a, w: w * 2 / np.sqrt(np.pi) * np.exp(-a**2)),
  ("softmax", [(3, 4)], lambda t: t.softmax(), _softmax),
  ("log_softmax", [(3, 4)], lambda t: t.log_softmax(), lambda a, w: w - ref.softmax(a) * w.sum(-1, keepdims=True)),
  ("logsumexp", [(3, 4)], lambda t: t.logsumexp(1), lambda a, w: w[:, None] * ref.softmax(a)),
  ("layernorm", [(3, 5)], lambda t: t.layernorm(), _layernorm),
  ("cross_entropy", [(3, 4)], lambda t: t.cross_entropy(Tensor(Y), reduction="sum"), lambda a, w: w * (ref.softmax(a) - HOT)),
  ("mse", [(3, 4), (3, 4)], lambda a, b: a.mse_loss(b, "sum"), lambda a, b, w: (w * 2 * (a - b), w * 2 * (b - a))),
  ("bce_logits", [(3, 4)], lambda t: t.binary_crossentropy_logits(Tensor(HOT), "sum"), lambda a, w: w * (ref.sigmoid(a) - HOT)),
  ("max", [(3, 4)], lambda t: t.max(1), lambda a, w: w[:, None] * (a == a.max(1, keepdims=True))),
  ("prod", [(3, 4)], lambda t: t.prod(1), lambda a, w: (w * a.prod(1))[:, None] / a),
  ("var", [(3, 4)], lambda t: t.var(1), lambda a, w: w[:, None] * 2 * (a - a.mean(1, keepdims=True)) / 3),
  ("cumsum", [(3, 4)], lambda t: t.cumsum(1), lambda a, w: np.cumsum(w[:, ::-1], 1)[:, ::-1]),
  ("embedding", [(5, 3)], lambda t: t[Tensor([1, 4, 1])],
   lambda a, w: np.stack([w[[0, 2]].sum(0) if r == 1 else w[1] if r == 4 else 0 * w[0] for r in range(5)])),
  ("conv2d", [(2, 3, 5, 5), (4, 3, 3, 3)], lambda x, k: x.conv2d(k),
   lambda x, k, w: (ref.conv_transpose(w, k),
                    np.stack([[ref.conv(x[:, [i]].swapaxes(0, 1), w[:, [o]].swapaxes(0, 1))[0, 0] for i in range(3)] for o in range(4)]))),
  ("conv_transpose2d", [(2, 3, 4, 4), (3, 2, 3, 3)], lambda x, k: x.conv_transpose2d(k),
   lambda x, k, w: (ref.conv(w, k),
                    np.stack([[ref.conv(w[:, [o]].swapaxes(0, 1), x[:, [i]].swapaxes(0, 1))[0, 0] for o in range(2)] for i in range(3)]))),
  ("attention", [(2, 3, 4), (2, 5, 4), (2, 5, 3)], lambda q, k, v: q.scaled_dot_product_attention(k, v), _attention),
  ("solve", [(3, 3), (3, 2)], lambda a, b: (a + Tensor(np.eye(3) * 6)).solve(b),
   lambda a, b, w: (-np.linalg.solve((a + np.eye(3) * 6).T, w) @ np.linalg.solve(a + np.eye(3) * 6, b).T,
                    np.linalg.solve((a + np.eye(3) * 6).T, w))),
  ("det", [(4, 4)], lambda t: t.det(), lambda a, w: w * np.linalg.det(a) * np.linalg.inv(a).T),
]


def test_formulas():
  checks = []
  for seed, (name, shapes, method, formula) in enumerate(FORMULAS):
    arrays = [values(s, "float64", -2, 2, 50 + 3 * seed + k) for k, s in enumerate(shapes)]
    tensors = [Tensor(a) for a in arrays]
    y = method(*tensors)
    w = weights(y.shape)
    want = formula(*arrays, w)
    checks.append((name, y.gradient(*tensors, gradient=Tensor(w)), want if isinstance(want, tuple) else (want,)))
  flat = [g for _, gradients, _ in checks for g in gradients]
  flat[0].realize(*flat[1:])
  for name, gradients, wants in checks:
    for g, want in zip(gradients, wants, strict=True): np.testing.assert_allclose(g.numpy(), want, 1e-9, 1e-9, err_msg=name)


SECOND = [
  ("exp", [(5,)], lambda t: t.exp()), ("sin", [(5,)], lambda t: t.sin()), ("log", [(5,)], lambda t: (t + 3).log()),
  ("sqrt", [(5,)], lambda t: (t + 3).sqrt()), ("tanh", [(5,)], lambda t: t.tanh()), ("sigmoid", [(5,)], lambda t: t.sigmoid()),
  ("gelu", [(5,)], lambda t: t.gelu()), ("erf", [(5,)], lambda t: t.erf()), ("softplus", [(5,)], lambda t: t.softplus()),
  ("mish", [(5,)], lambda t: t.mish()), ("atan", [(5,)], lambda t: t.atan()), ("asinh", [(5,)], lambda t: t.asinh()),
  ("pow", [(5,), (5,)], lambda a, b: (a + 3) ** b), ("div", [(5,), (5,)], lambda a, b: a / (b + 3)),
  ("mul", [(2, 3), (3,)], lambda a, b: a * b * b), ("logaddexp", [(5,), (5,)], lambda a, b: a.logaddexp(b)),
  ("hypot", [(5,), (5,)], lambda a, b: a.hypot(b)), ("atan2", [(5,), (5,)], lambda a, b: a.atan2(b)),
  ("matmul", [(2, 3), (3, 2)], lambda a, b: (a @ b).square()), ("einsum", [(2, 3), (3, 2)], lambda a, b: Tensor.einsum("ij,jk->ik", a, b).exp()),
  ("softmax", [(2, 4)], lambda t: t.softmax()), ("log_softmax", [(2, 4)], lambda t: t.log_softmax()),
  ("logsumexp", [(2, 4)], lambda t: t.logsumexp(1)), ("layernorm", [(2, 4)], lambda t: t.layernorm()), ("var", [(2, 4)], lambda t: t.var(1)),
  ("std", [(2, 4)], lambda t: t.std(1)), ("prod", [(2, 4)], lambda t: t.prod(1)), ("mean", [(2, 4)], lambda t: t.mean(1).square()),
  ("cumsum", [(2, 4)], lambda t: t.cumsum(1).exp()), ("cumprod", [(2, 4)], lambda t: t.cumprod(1)), ("norm", [(2, 4)], lambda t: t.norm(axis=1)),
  ("normalize", [(2, 4)], lambda t: t.normalize()), ("det", [(3, 3)], lambda t: t.det()),
  ("inverse", [(2, 2)], lambda t: (t + Tensor(np.eye(2) * 5)).inverse()),
  ("cholesky", [(2, 2)], lambda t: (t @ t.T + Tensor(np.eye(2))).cholesky()),
  ("conv2d", [(1, 2, 4, 4), (2, 2, 3, 3)], lambda x, k: x.conv2d(k, padding=1).tanh()),
  ("avg_pool2d", [(1, 1, 4, 4)], lambda t: t.avg_pool2d().square()), ("max_pool2d", [(1, 1, 4, 4)], lambda t: t.max_pool2d().square()),
  ("interpolate", [(1, 1, 4)], lambda t: t.interpolate((6,)).square()),
  ("attention", [(1, 2, 3), (1, 4, 3), (1, 4, 2)], lambda q, k, v: q.scaled_dot_product_attention(k, v)),
  ("cross_entropy", [(3, 4)], lambda t: t.cross_entropy(Tensor(Y))), ("bce", [(3, 4)], lambda t: t.sigmoid().binary_crossentropy(Tensor(HOT))),
  ("mse", [(3,), (3,)], lambda a, b: a.mse_loss(b)), ("cosine", [(3, 4), (3, 4)], lambda a, b: a.cosine_similarity(b)),
  ("index", [(4, 3)], lambda t: t[Tensor([2, 0, 2])].square()), ("gather", [(2, 4)], lambda t: t.gather(1, Tensor([[1, 1], [3, 0]])).exp()),
  ("scatter", [(2, 4), (2, 2)], lambda t, s: t.scatter(1, Tensor([[1, 3], [0, 2]]), s).square()),
  ("sort", [(2, 4)], lambda t: t.sort()[0].square()), ("where", [(2, 4)], lambda t: (t > 0).where(t.square(), t.exp())),
  ("maximum", [(5,), (5,)], lambda a, b: a.maximum(b).square()), ("pad", [(2, 3)], lambda t: t.pad(((1, 2), (0, 1)), "replicate").square()),
  ("cat", [(2, 3), (1, 3)], lambda a, b: a.cat(b).square()),
]


def test_second_gradients():
  def first(method, tensors):
    """The gradients, with weights of their own, as one number."""
    y = method(*tensors)
    gradients = (y * Tensor(weights(y.shape))).sum().gradient(*tensors)
    return Tensor.usum(*((g * Tensor(weights(g.shape, 2 + k))).sum() for k, g in enumerate(gradients)))
  checks = []
  for seed, (name, shapes, method) in enumerate(SECOND):
    arrays = [values(s, "float64", -2, 2, 90 + 3 * seed + k) for k, s in enumerate(shapes)]
    steps = [np.random.default_rng(k).uniform(-1, 1, a.shape) for k, a in enumerate(arrays)]
    tensors = [Tensor(a) for a in arrays]
    ends = [first(method, [Tensor(a + by * s) for a, s in zip(arrays, steps)]) for by in (STEP, -STEP)]
    checks.append((name, first(method, tensors).gradient(*tensors), steps, ends))
  flat = [t for _, g, _, ends in checks for t in (*g, *ends)]
  flat[0].realize(*flat[1:])
  wrong = []
  for name, gradients, steps, ends in checks:
    got = [g.numpy() for g in gradients]
    along, slope = sum((g * s).sum() for g, s in zip(got, steps)), (ends[0].item() - ends[1].item()) / (2 * STEP)
    if not abs(along - slope) <= 1e-6 * max(1.0, *(np.abs(g).max() for g in got)): wrong.append(f"{name}: {along}, expected {slope}")
  assert not wrong, "\n".join(wrong)
