# SPDX-License-Identifier: MIT
"""Layers against NumPy in float64: values, and gradients against central differences of the NumPy function."""
import math
import pickle

import numpy as np
import pytest
from uopd import Tensor, dtypes, nn
from uopd.nn.state import get_parameters, get_state_dict

RNG = np.random.default_rng(7)


def values(*shape): return RNG.standard_normal(shape)


def check(layer, inputs, reference, **kwargs):
  """layer(*inputs) against reference(parameters by name, *inputs), in float64, with gradients of all that are floats."""
  parameters = {n: t for n, t in get_state_dict(layer).items() if t.is_param}
  numbers = {n: values(*t.shape) for n, t in parameters.items()}
  for n, t in parameters.items(): t.replace(Tensor(numbers[n]))
  tensors = [Tensor(x) for x in inputs]
  y = layer(*tensors, **kwargs)
  want = reference(numbers, *inputs)
  assert y.shape == want.shape
  weight = values(*want.shape)
  floats = [i for i, x in enumerate(inputs) if x.dtype.kind == "f"]
  gradients = (y * Tensor(weight)).sum().gradient(*parameters.values(), *(tensors[i] for i in floats))
  y.realize(*gradients)
  np.testing.assert_allclose(y.numpy(), want, rtol=1e-9, atol=1e-9)
  arrays = [*numbers.values(), *(inputs[i] for i in floats)]
  for array, gradient in zip(arrays, gradients):
    flat, got = array.reshape(-1), gradient.numpy().reshape(-1)
    for k in RNG.permutation(flat.size)[:8]:
      old, ends = flat[k], []
      for by in (1e-5, -1e-5):
        flat[k] = old + by
        ends.append((reference(numbers, *inputs) * weight).sum())
      flat[k] = old
      assert got[k] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-6)


def conv(x, w, b, stride, padding, dilation, groups):
  """padding: (before, after) for each axis."""
  n = w.ndim - 2
  x = np.pad(x, [(0, 0), (0, 0), *padding])
  size = [(x.shape[2 + i] - dilation[i] * (w.shape[2 + i] - 1) - 1) // stride[i] + 1 for i in range(n)]
  y = np.zeros((x.shape[0], w.shape[0], *size))
  per_in, per_out = x.shape[1] // groups, w.shape[0] // groups
  for at in np.ndindex(*w.shape[2:]):
    part = x[(slice(None), slice(None), *(slice(a * d, a * d + (k - 1) * s + 1, s) for a, d, k, s in zip(at, dilation, size, stride)))]
    for g in range(groups):
      rows = slice(g * per_out, (g + 1) * per_out)
      y[:, rows] += np.einsum("ni...,oi->no...", part[:, g * per_in:(g + 1) * per_in], w[(rows, slice(None), *at)])
  return y if b is None else y + b.reshape(-1, *[1] * n)


def conv_transpose(x, w, b, stride, padding, output_padding, dilation, groups):
  n = w.ndim - 2
  size = [(x.shape[2 + i] - 1) * stride[i] + dilation[i] * (w.shape[2 + i] - 1) + 1 + output_padding[i] for i in range(n)]
  per_in, per_out = x.shape[1] // groups, w.shape[1]
  y = np.zeros((x.shape[0], per_out * groups, *size))
  for at in np.ndindex(*w.shape[2:]):
    place = tuple(slice(a * d, a * d + (k - 1) * s + 1, s) for a, d, k, s in zip(at, dilation, x.shape[2:], stride))
    for g in range(groups):
      rows = slice(g * per_in, (g + 1) * per_in)
      y[(slice(None), slice(g * per_out, (g + 1) * per_out), *place)] += np.einsum("ni...,io->no...", x[:, rows], w[(rows, slice(None), *at)])
  y = y[(slice(None), slice(None), *(slice(p, y.shape[2 + i] - p) for i, p in enumerate(padding)))]
  return y if b is None else y + b.reshape(-1, *[1] * n)


@pytest.mark.parametrize("make, shape, stride, padding, dilation, groups", [
  (lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), (2, 4, 9), [2], [(1, 1)], [1], 2),
  (lambda: nn.Conv2d(3, 4, 3), (2, 3, 5, 6), [1, 1], [(0, 0)] * 2, [1, 1], 1),
  (lambda: nn.Conv2d(2, 4, (2, 3), padding="same", dilation=2), (1, 2, 5, 6), [1, 1], [(1, 1), (2, 2)], [2, 2], 1),
  (lambda: nn.Conv2d(2, 2, 2, padding="same", bias=False), (1, 2, 4, 3), [1, 1], [(0, 1), (0, 1)], [1, 1], 1),
  (lambda: nn.Conv2d(2, 2, (3, 2), padding=(1, 0, 2, 1)), (1, 2, 4, 3), [1, 1], [(2, 1), (1, 0)], [1, 1], 1),
  (lambda: nn.Conv3d(2, 2, (1, 2, 3), stride=(1, 2, 1)), (1, 2, 2, 5, 4), [1, 2, 1], [(0, 0)] * 3, [1] * 3, 1)])
def test_convolutions(make, shape, stride, padding, dilation, groups):
  check(make(), [values(*shape)], lambda p, x: conv(x, p["weight"], p.get("bias"), stride, padding, dilation, groups))


@pytest.mark.parametrize("make, shape, stride, padding, output_padding, dilation, groups", [
  (lambda: nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), (2, 4, 5), [2], [1], [1], [1], 2),
  (lambda: nn.ConvTranspose2d(3, 2, (2, 3), stride=(2, 1), dilation=(1, 2)), (2, 3, 4, 3), [2, 1], [0, 0], [0, 0], [1, 2], 1),
  (lambda: nn.ConvTranspose3d(2, 1, 2, bias=False), (1, 2, 2, 3, 2), [1] * 3, [0] * 3, [0] * 3, [1] * 3, 1)])
def test_transposed_convolutions(make, shape, stride, padding, output_padding, dilation, groups):
  check(make(), [values(*shape)],
        lambda p, x: conv_transpose(x, p["weight"], p.get("bias"), stride, padding, output_padding, dilation, groups))


def test_padding_that_is_no_padding():
  with pytest.raises(ValueError, match="'same'"): nn.Conv2d(1, 1, 3, padding="valid")
  with pytest.raises(ValueError, match="stride 1"): nn.Conv2d(1, 1, 3, padding="same", stride=2)


def normed(x, axes, eps): return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)
def column(v, x): return v.reshape(-1, *[1] * (x.ndim - 2))
def grouped(x, groups, eps): return normed(x.reshape(x.shape[0], groups, -1), -1, eps).reshape(x.shape)


@pytest.mark.parametrize("make, shapes, reference", [
  (lambda: nn.Linear(3, 5), [(2, 4, 3)], lambda p, x: x @ p["weight"].T + p["bias"]),
  (lambda: nn.Linear(3, 5, bias=False), [(3,)], lambda p, x: x @ p["weight"].T),
  (lambda: nn.GroupNorm(2, 6, eps=1e-3), [(3, 6, 4)], lambda p, x: grouped(x, 2, 1e-3) * column(p["weight"], x) + column(p["bias"], x)),
  (lambda: nn.GroupNorm(3, 6, affine=False), [(2, 6, 2, 3)], lambda p, x: grouped(x, 3, 1e-5)),
  (lambda: nn.InstanceNorm(4), [(2, 4, 3, 2)], lambda p, x: grouped(x, 4, 1e-5) * column(p["weight"], x) + column(p["bias"], x)),
  (lambda: nn.LayerNorm(5), [(3, 5)], lambda p, x: normed(x, -1, 1e-5) * p["weight"] + p["bias"]),
  (lambda: nn.LayerNorm((2, 3), eps=1e-2), [(4, 2, 3)], lambda p, x: normed(x, (1, 2), 1e-2) * p["weight"] + p["bias"]),
  (lambda: nn.LayerNorm(5, elementwise_affine=False), [(3, 5)], lambda p, x: normed(x, -1, 1e-5)),
  (lambda: nn.LayerNorm2d(4), [(2, 4, 3, 2)], lambda p, x: normed(x, 1, 1e-5) * column(p["weight"], x) + column(p["bias"], x)),
  (lambda: nn.RMSNorm(5), [(3, 5)], lambda p, x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * p["weight"]),
  (lambda: nn.RMSNorm(5, eps=0.1, elementwise_affine=False), [(3, 5)], lambda p, x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 0.1))])
def test_layers(make, shapes, reference): check(make(), [values(*s) for s in shapes], reference)


def test_embedding():
  index = np.array([[3, 0, 1], [3, 3, 2]], np.int32)
  check(nn.Embedding(4, 3), [index], lambda p, i: p["weight"][i])
  with pytest.raises(TypeError, match="integers"): nn.Embedding(4, 3)(Tensor([1.0]))


@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 5), (2, 3, 4, 5), (2, 3, 2, 3, 2)])
def test_batch_norm(shape):
  norm = nn.BatchNorm(3, eps=1e-4, momentum=0.3)
  axes = tuple(i for i in range(len(shape)) if i != 1)
  with Tensor.train():
    check(norm, [values(*shape)], lambda p, x: normed(x, axes, 1e-4) * column(p["weight"], x) + column(p["bias"], x))
  mean, var = np.zeros(3), np.ones(3)
  norm = nn.BatchNorm2d(3, momentum=0.3, affine=False)
  with Tensor.train():
    for step in range(3):
      x = values(*shape).astype(np.float32)
      n = x.size / 3
      norm(Tensor(x)).realize()
      mean, var = 0.7 * mean + 0.3 * x.mean(axes), 0.7 * var + 0.3 * x.var(axes) * n / (n - 1)
      np.testing.assert_allclose(norm.running_mean.numpy(), mean, rtol=1e-4, atol=1e-5)
      np.testing.assert_allclose(norm.running_var.numpy(), var, rtol=1e-4)
  assert norm.num_batches_tracked.item() == 3 and norm.num_batches_tracked.dtype is dtypes.int64
  want = (x - column(mean, x)) / np.sqrt(column(var, x) + 1e-5)
  np.testing.assert_allclose(norm(Tensor(x)).numpy(), want, rtol=1e-4, atol=1e-5)
  untracked = nn.BatchNorm3d(3, track_running_stats=False, affine=False)
  np.testing.assert_allclose(untracked(Tensor(x)).numpy(), normed(x, axes, 1e-5), rtol=1e-3, atol=1e-4)
  assert not hasattr(untracked, "running_mean")


def sigmoid(x): return 1 / (1 + np.exp(-x))


def lstm(p, x, h, c, suffix=""):
  i, f, g, o = np.split(x @ p["weight_ih" + suffix].T + h @ p["weight_hh" + suffix].T + p["bias_ih" + suffix] + p["bias_hh" + suffix], 4, 1)
  c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
  return sigmoid(o) * np.tanh(c), c


def gru(p, x, h, suffix=""):
  a, b = x @ p["weight_ih" + suffix].T + p["bias_ih" + suffix], h @ p["weight_hh" + suffix].T + p["bias_hh" + suffix]
  (ar, az, an), (br, bz, bn) = np.split(a, 3, 1), np.split(b, 3, 1)
  z = sigmoid(az + bz)
  return (1 - z) * np.tanh(an + sigmoid(ar + br) * bn) + z * h


def sequence(p, x, step, layers, state):
  for k in range(layers):
    s, ys = [v[k] for v in state], []
    for t in range(x.shape[1]):
      s = list(step(p, x[:, t], *s, f"_l{k}"))
      ys.append(s[0])
    x = np.stack(ys, 1)
  return x


def test_cells():
  x, h, c = values(2, 3), values(2, 4), values(2, 4)
  cell, both = nn.LSTMCell(3, 4), lambda p, x, h, c: np.concatenate(lstm(p, x, h, c), 1)
  class Joined:
    def __init__(self): self.cell = cell
    def __call__(self, x, h, c):
      h, c = self.cell(x, (h, c))
      return h.cat(c, dim=1)
  check(Joined(), [x, h, c], lambda p, *a: both({k.removeprefix("cell."): v for k, v in p.items()}, *a))
  check(nn.GRUCell(3, 4), [x, h], gru)
  zeros = np.zeros((2, 4))
  check(nn.GRUCell(3, 4), [x], lambda p, x: gru(p, x, zeros))
  assert nn.LSTMCell(3, 4, bias=False)(Tensor(x.astype(np.float32)))[1].shape == (2, 4)
  assert nn.GRUCell(3, 4, bias=False).bias_hh is None


def test_sequences():
  class Outputs:
    def __init__(self, inner): self.inner = inner
    def __call__(self, *inputs): return self.inner(inputs[0], inputs[1:] if len(inputs) == 3 else inputs[1])[0]
  def inner(p): return {k.removeprefix("inner."): v for k, v in p.items()}
  x, h, c = values(2, 4, 3), values(2, 2, 5), values(2, 2, 5)
  check(Outputs(nn.LSTM(3, 5, num_layers=2)), [x, h, c], lambda p, x, h, c: sequence(inner(p), x, lstm, 2, (h, c)))
  check(Outputs(nn.GRU(3, 5, num_layers=2)), [x, h], lambda p, x, h: sequence(inner(p), x, lambda *a: (gru(*a),), 2, (h,)))
  y, (h, c) = nn.LSTM(3, 5, num_layers=2)(Tensor(x.astype(np.float32)))
  np.testing.assert_allclose(y[:, -1].numpy(), h[1].numpy())
  with pytest.raises(ValueError, match="for 1 layers"): nn.GRU(3, 5)(Tensor.ones(2, 4, 3), Tensor.ones(2, 5))


def test_attention_without_keys():
  """A query without any key gives 0, and gradients are finite, whether its row is used or not."""
  random = np.random.default_rng(1)
  mask = np.array([[True, False, True], [False, False, False], [True, True, True]])
  for attn_mask in (mask, np.where(mask, 0, -np.inf).astype(np.float32), np.where(mask, .5, -np.inf).astype(np.float16)):
    for rows in (slice(None), [0, 2]):
      q, k, v = (Tensor(random.standard_normal((1, 2, 3, 4)).astype(np.float32), requires_grad=True) for _ in range(3))
      y = q.scaled_dot_product_attention(k, v, attn_mask=Tensor(attn_mask))
      got = y.numpy()
      assert (got[:, :, 1] == 0).all() and np.isfinite(got).all()
      scores = np.where(mask, q.numpy() @ k.numpy().transpose(0, 1, 3, 2) / 2, -np.inf)[:, :, [0, 2]]
      e = np.exp(scores - scores.max(-1, keepdims=True))
      np.testing.assert_allclose(got[:, :, [0, 2]], e / e.sum(-1, keepdims=True) @ v.numpy(), rtol=1e-5)
      q, k, v = (Tensor(t.numpy(), requires_grad=True) for t in (q, k, v))
      y = q.scaled_dot_product_attention(k, v, attn_mask=Tensor(attn_mask))
      y[:, :, rows].sum().backward()
      assert all(np.isfinite(t.grad.numpy()).all() for t in (q, k, v))
      assert (q.grad.numpy()[:, :, 1] == 0).all()


@pytest.mark.parametrize("causal, mask", [(False, None), (True, None), (False, np.array([[True, False, True, True, True]] * 3))])
def test_attention(causal, mask):
  def split(x): return x.reshape(2, -1, 2, 3).transpose(0, 2, 1, 3)
  def reference(p, q, k, v):
    (wq, wk, wv), (bq, bk, bv) = np.split(p["in_proj_weight"], 3), np.split(p["in_proj_bias"], 3)
    q, k, v = split(q @ wq.T + bq), split(k @ wk.T + bk), split(v @ wv.T + bv)
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(3)
    seen = mask if mask is not None else np.tril(np.ones((3, 5), bool), 2) if causal else np.ones((3, 5), bool)
    e = np.where(seen, np.exp(scores - scores.max(-1, keepdims=True)), 0)
    y = (e / e.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(2, 3, 6)
    return y @ p["out_proj.weight"].T + p["out_proj.bias"]
  check(nn.MultiHeadAttention(6, 2), [values(2, 3, 6), values(2, 5, 6), values(2, 5, 6)], reference, is_causal=causal,
        attn_mask=None if mask is None else Tensor(mask))


def test_attention_with_itself():
  layer = nn.MultiHeadAttention(4, 2, bias=False)
  assert sorted(get_state_dict(layer)) == ["in_proj_weight", "out_proj.weight"]
  x = Tensor.rand(2, 3, 4)
  np.testing.assert_array_equal(layer(x).numpy(), layer(x, x, x).numpy())
  with pytest.raises(ValueError, match="not divisible"): nn.MultiHeadAttention(4, 3)


def uniform(t, bound):
  """The numbers are uniform within the bound: no test of this size would see a wrong one with a chance above 1e-4."""
  x = np.sort(t.numpy().reshape(-1)) / bound
  assert np.abs(x).max() <= 1 and x.size >= 900
  distance = np.abs(x - np.linspace(-1, 1, x.size)).max() / 2
  assert distance < 2.3 / math.sqrt(x.size)  # Kolmogorov


@pytest.mark.parametrize("make, bounds", [
  (lambda: nn.Linear(30, 50), {"weight": 30**-0.5}), (lambda: nn.Linear(3, 2000), {"bias": 3**-0.5}),
  (lambda: nn.Conv2d(8, 40, 3, groups=2), {"weight": 72**-0.5}), (lambda: nn.Conv1d(4, 1000, 5), {"weight": 20**-0.5, "bias": 20**-0.5}),
  (lambda: nn.ConvTranspose2d(8, 40, 3, groups=2), {"weight": 72**-0.5}), (lambda: nn.Embedding(50, 30), {"weight": (6 / 80)**0.5}),
  (lambda: nn.LSTMCell(9, 25), {"weight_ih": 0.2, "weight_hh": 0.2}), (lambda: nn.GRUCell(16, 25), {"weight_ih": 0.2, "weight_hh": 0.2}),
  (lambda: nn.GRU(16, 25, 2), {"weight_ih_l0": 0.2, "weight_ih_l1": 0.2, "weight_hh_l1": 0.2}),
  (lambda: nn.MultiHeadAttention(40, 4), {"in_proj_weight": (6 / 160)**0.5, "out_proj.weight": 40**-0.5})])
def test_first_values(make, bounds):
  state = get_state_dict(make())
  for name, bound in bounds.items(): uniform(state[name], bound)
  if "bias_ih" in state or "in_proj_bias" in state:
    for name, t in state.items():
      if "bias" in name: assert not t.numpy().any()


def test_pickled_models():
  class Model: pass
  model = {"a": nn.Conv2d(2, 3, 2), "b": [nn.BatchNorm(3), nn.LSTMCell(3, 2)], "c": nn.MultiHeadAttention(4, 2)}
  model["a"].weight.requires_grad_()
  copy = pickle.loads(pickle.dumps(model))
  mine, theirs = get_state_dict(model), get_state_dict(copy)
  assert list(mine) == list(theirs)
  for name, t in mine.items():
    np.testing.assert_array_equal(t.numpy(), theirs[name].numpy())
    assert (t.dtype, t.requires_grad, t.is_param) == (theirs[name].dtype, theirs[name].requires_grad, theirs[name].is_param)
  x = Tensor.rand(1, 2, 4, 4)
  np.testing.assert_array_equal(copy["b"][0](copy["a"](x)).numpy(), model["b"][0](model["a"](x)).numpy())
  assert len(get_parameters(model)) == len(mine)

