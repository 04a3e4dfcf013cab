# SPDX-License-Identifier: MIT
"""Functions of tensors whose sizes are variables: for each value of the variable what they are for numbers, gradients as well."""
import numpy as np
import pytest
from uopd import Tensor, TinyJit, Variable, dtypes, nn

ROWS = 9
DATA = np.random.default_rng(3).normal(size=(ROWS, 4)).astype(np.float32)


def image(x):
  """(1, 4, n, 1)"""
  return x.T.reshape(1, 4, x.shape[0], 1)


FUNCTIONS = {
  "cumsum": lambda x, n: x.cumsum(0), "cumprod": lambda x, n: x.cumprod(0), "cumprod of rows": lambda x, n: x.cumprod(1),
  "cummax": lambda x, n: x.cummax(0)[0], "cummax positions": lambda x, n: x.cummax(0)[1], "cummin": lambda x, n: x.cummin(0)[0],
  "logcumsumexp": lambda x, n: x.logcumsumexp(0), "median": lambda x, n: x.median(0), "median of rows": lambda x, n: x.median(1, keepdim=True),
  "quantile": lambda x, n: x.quantile(0.3, 0), "diagonal": lambda x, n: x.diagonal(), "diagonal below": lambda x, n: x.diagonal(-2),
  "diagonal above": lambda x, n: x.T.diagonal(1), "diagonal of a product": lambda x, n: (x @ x.T).diagonal(1), "trace": lambda x, n: (x @ x.T).trace(),
  "diag": lambda x, n: x[:, 0].diag(), "diag_embed": lambda x, n: x.diag_embed(-1), "meshgrid": lambda x, n: x[:, 0].meshgrid(x[:, 1])[1],
  "outer": lambda x, n: x[:, 0].outer(x[:, 1]), "tensordot": lambda x, n: Tensor.tensordot(x, x, ([0], [0])), "newton_schulz": lambda x, n: x.newton_schulz(2),
  "roll": lambda x, n: x.roll(2, 0), "roll by the size": lambda x, n: x.roll(n - 3, 0), "roll back": lambda x, n: x.roll(-n, 1),
  "roll of all": lambda x, n: x.roll(n),
  "eye": lambda x, n: Tensor.eye(n) @ x, "wide eye": lambda x, n: x @ Tensor.eye(4, n), "one_hot": lambda x, n: Tensor([0, 2]).one_hot(n) @ x,
  "linspace": lambda x, n: x * Tensor.linspace(-1, 2, n).reshape(n, 1), "unflatten": lambda x, n: x.flatten().unflatten(0, (n, 2, 2)),
  "conv of channels": lambda x, n: x.T.reshape(1, 4, n).transpose(1, 2).conv2d(Tensor.ones(2, 9, 2)) if isinstance(n, Variable) else x.T.reshape(1, 4, n).transpose(1, 2).pad((None, (0, 9 - n), None)).conv2d(Tensor.ones(2, 9, 2)),
  "ceil": lambda x, n: x.reshape(1, n, 4, 1).max_pool2d((3, 1), stride=(2, 1), ceil_mode=True),
  "reflect": lambda x, n: x.reshape(1, n, 4).pad((1, 2, 0, 2), mode="reflect"), "replicate": lambda x, n: x.reshape(1, n, 4).pad((0, 1, 3, 2), mode="replicate"),
  "circular": lambda x, n: x.reshape(1, n, 4).pad((1, 0, 2, 1), mode="circular"),
  "negative padding": lambda x, n: x.reshape(1, n, 4).pad((1, 0, -1, -1), mode="replicate"),
  "linear": lambda x, n: image(x).interpolate((5, 2)), "aligned": lambda x, n: image(x).interpolate((5, 1), align_corners=True),
  "nearest": lambda x, n: image(x).interpolate((7, 1), mode="nearest"), "cubic": lambda x, n: image(x).interpolate((4, 1), mode="cubic"),
  "area": lambda x, n: image(x).interpolate((2, 1), mode="area"), "pixel_shuffle": lambda x, n: image(x).pixel_shuffle(2),
  "conv_transpose2d": lambda x, n: image(x).conv_transpose2d(Tensor.arange(12.).reshape(4, 1, 3, 1), stride=(2, 1), padding=(1, 0)),
  "glu": lambda x, n: x.glu(1), "masked_select": lambda x, n: x.masked_select(x > 0), "bincount": lambda x, n: (x * 2).abs().cast("int32").flatten().bincount(9),
  # What takes so long that a kernel keeps it, for rows that a mask hides.
  "kept rows": lambda x, n: x[:, 0].sigmoid().unsqueeze(0).pad(((0, 2), None)), "a row": lambda x, n: x.T[0].sin(),
  "attention": lambda x, n: x.T.reshape(1, 1, 4, n).scaled_dot_product_attention(x.T.reshape(1, 1, 4, n), x.T.reshape(1, 1, 4, n)),
  "pooled": lambda x, n: x.max_pool2d((2, 2), stride=1), "mean pooled": lambda x, n: x.avg_pool2d((2, 2), stride=1), "repeat": lambda x, n: x[:1].repeat(n, 2, 1),
  "repeat_interleave": lambda x, n: x.repeat_interleave(n - 1, 0), "topk": lambda x, n: x.topk(n - 2, 0)[0], "matrix_power": lambda x, n: (x @ x.T).matrix_power(3),
  "smoothed": lambda x, n: x.T.cross_entropy(Tensor([0, 2, 1, 0]), label_smoothing=0.2), "smoothed targets": lambda x, n: x.T.cross_entropy(x.T.softmax(1), label_smoothing=0.2),
  "rest of a size": lambda x, n: x.flatten().unflatten(0, (n, -1)),
}


def results(f, x, n):
  y = f(x, n)
  if not dtypes.is_float(y.dtype): return [y.numpy()]
  g, = (y * y).sum().gradient(x)
  return [y.numpy(), g.numpy()]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_a_variable_size(name):
  f, whole = FUNCTIONS[name], Tensor(DATA).realize()
  variable = Variable("n", 3, ROWS)
  for n in (3, 6, ROWS):
    bound = variable.bind(n)
    for got, want in zip(results(f, whole[:bound], bound), results(f, Tensor(DATA[:n]), n), strict=True):
      assert got.shape == want.shape
      np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_a_replay_with_another_size():
  whole, variable = Tensor(DATA).realize(), Variable("n", 3, ROWS)
  f = TinyJit(lambda x: (x.cumprod(0), x.median(0), x.roll(1, 0), x.diagonal()))
  for n in (4, 7, 3, ROWS, 5):
    got = f(whole[:variable.bind(n)])
    want = DATA[:n]
    for a, b in zip(got, (np.cumprod(want, 0), np.median(want, 0), np.roll(want, 1, 0), np.diagonal(want))): np.testing.assert_allclose(a.numpy(), b, rtol=1e-5)


def test_what_has_as_many_steps_as_columns_needs_numbers():
  x = Tensor(DATA).realize()[:Variable("n", 3, ROWS).bind(4)]
  for f in (lambda: x.svd(), lambda: x.qr(), lambda: (x @ x.T).inverse()):
    with pytest.raises(ValueError, match="a dimension is symbolic"): f()[0].numpy()


def test_kernels_that_are_larger_than_the_size_of_now_are_refused():
  x = image(Tensor(DATA).realize()[:Variable("n", 3, ROWS).bind(4)])
  for f in (lambda: x.conv2d(Tensor.ones(1, 4, 5, 1)), lambda: x.max_pool2d((5, 1)), lambda: x.avg_pool2d((5, 1)), lambda: x.max_pool2d((2, 1), stride=(3, 1), ceil_mode=True)):
    with pytest.raises(ValueError): f()


def test_random_numbers_in_a_variable_shape():
  n = Variable("n", 1, 8).bind(5)
  for t in (Tensor.rand(n, 3), Tensor.randn(n, 3), Tensor.randint(n, 3), Tensor.uniform(n, 3), Tensor.normal(n, 3), Tensor.rand(n, 3).rand_like(),
            Tensor.rand(n, 3).randn_like(), Tensor.rand(n, 3).bernoulli()):
    assert t.numpy().shape == (5, 3)


def at(*values): return np.array(values)


ITEMS = [(at(0, -1, 2), at(1, 3, 0)), (at(0, -1), slice(None), at(2, 0)), (slice(None), at(1, -4), at(0, 2)), (at([0, 1], [-2, 2]), at(1, 3)), (None, at(1, 0), slice(1, 3), 1),
         (at(2, 1), 1, at(0, -3)), (slice(1, None), at([1], [2]), at(0, 2, 1)), (at(0, 1), at(1, 0), at(2, 2)), (slice(None), slice(None, None, -1), at(0, 1))]


@pytest.mark.parametrize("items", ITEMS, ids=str)
def test_tensors_of_positions_beside_variables(items):
  data = np.random.default_rng(5).integers(-9, 9, size=(ROWS, 4, 3)).astype(np.int32)
  variable = Variable("n", 3, ROWS)
  of_tensors = tuple(Tensor(i) if isinstance(i, np.ndarray) else i for i in items)
  # An integer is taken before tensors select, as PyTorch and tinygrad do it.
  first = tuple(i if isinstance(i, int) else slice(None) for i in items if i is not None)
  numbers = [i for i in items if not isinstance(i, int)]
  for n in (3, 5, ROWS):
    x = Tensor(data).realize()
    want = data[:n][first][tuple(numbers)]
    assert x[:variable.bind(n)][of_tensors].tolist() == want.tolist()
    changed = data.copy()
    for value in (np.int32(7), np.arange(want.size, dtype=np.int32).reshape(want.shape), np.arange(want.shape[-1], dtype=np.int32)):
      part = x[:variable.bind(n)]
      rows = part[of_tensors].shape[0]
      # What has an axis whose size is made of variables fits in one of the same size only.
      same = value.ndim == want.ndim and not isinstance(rows, int)
      part[of_tensors] = Tensor(np.resize(value, (ROWS, *want.shape[1:])))[:rows] if same else Tensor(value)
      changed[:n][first][tuple(numbers)] = value
      assert x.tolist() == changed.tolist()


def test_positions_beyond_a_variable_size_read_0_and_write_nothing():
  x = Tensor(DATA).realize()
  part = x[:Variable("n", 3, ROWS).bind(4)]
  assert part[Tensor([1, 4, -5, 8]), Tensor([1, 1, 1, 4])].tolist() == [DATA[1, 1], 0, 0, 0]
  part[Tensor([4, -5, 0, 8]), Tensor([1, 1, 4, -5])] = 1.0
  assert np.array_equal(x.numpy(), DATA)
  assert part.take(Tensor([5, -1, 16])).tolist() == [DATA[1, 1], DATA[3, 3], 0]


def test_sizes_beside_tensors_and_numbers():
  n = Variable("n", 1, 8).bind(3)
  t = Tensor([1, 3])
  assert (n == t).tolist() == (t == n).tolist() == [False, True] and (n != t).tolist() == [True, False]
  assert (n < t).tolist() == [False, False] and (n <= t).tolist() == [False, True] and (n > t).tolist() == [True, False] and (n >= t).tolist() == [True, True]
  assert n < 9.5 and not n > 8.0 and n >= 0.5 and n <= 8.0 and n + 1 > 1.5 and n != "n" and n != 3
  with pytest.raises(ValueError, match="depends on the values"): n < 2.5
  assert (2 * n + 1) // 2 == n and (4 * n + 7) % 4 == 3 and Tensor.arange(0, 2 * n, 2).shape == (n,)
  assert Tensor.arange(0, 2 * n, 2).tolist() == [0, 2, 4]


def test_random_numbers_by_variable_limits():
  n = Variable("n", 2, 8).bind(5)
  assert sorted(Tensor.randperm(n).tolist()) == [0, 1, 2, 3, 4]
  drawn = Tensor.randint(200, low=-n, high=n).numpy()
  assert drawn.min() == -5 and drawn.max() == 4
  assert np.abs(Tensor.uniform(200, low=-n, high=n).numpy()).max() > 4
  assert Tensor.glorot_uniform(n, 3).numpy().shape == Tensor.kaiming_normal(n, 3).numpy().shape == (5, 3)
  assert np.abs(Tensor.scaled_uniform(n, 5).numpy()).max() <= 0.2 and np.abs(Tensor.kaiming_uniform(n, 3, a=0).numpy()).max() <= 2**.5


def test_layers_over_a_variable_batch_in_training():
  whole, n = Tensor(DATA).realize(), Variable("n", 3, ROWS)
  with Tensor.train():
    of_all, of_part = nn.BatchNorm(4), nn.BatchNorm(4)
    for k in (5, 3, ROWS):
      np.testing.assert_allclose(of_part(whole[:n.bind(k)]).numpy(), of_all(whole[:k]).numpy(), rtol=1e-5, atol=1e-6)
    for a, b in zip(nn.state.get_parameters(of_part), nn.state.get_parameters(of_all)): np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)
    dropped = whole[:n.bind(5)].dropout(0.5).numpy()
    assert dropped.shape == (5, 4) and np.all((dropped == 0) | (np.abs(dropped - 2 * DATA[:5]) < 1e-5)) and 0 < (dropped == 0).sum() < 20
