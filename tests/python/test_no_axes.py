# SPDX-License-Identifier: MIT
"""Tensors without axes, and reductions over no axes: what NumPy and PyTorch make of them."""
import numpy as np
import pytest
from uopd import Tensor, dtypes

V = 3.25
# name: (method, reference)
ALONG = {
  "sum": (lambda t, a: t.sum(a), lambda: V), "mean": (lambda t, a: t.mean(a), lambda: V), "max": (lambda t, a: t.max(a), lambda: V),
  "min": (lambda t, a: t.min(a), lambda: V), "prod": (lambda t, a: t.prod(a), lambda: V), "any": (lambda t, a: t.any(a), lambda: True),
  "all": (lambda t, a: t.all(a), lambda: True), "count_nonzero": (lambda t, a: t.count_nonzero(a), lambda: 1),
  "var": (lambda t, a: t.var(a, correction=0), lambda: 0), "std": (lambda t, a: t.std(a, correction=0), lambda: 0),
  "std_mean": (lambda t, a: t.std_mean(a, correction=0)[1], lambda: V), "var_mean": (lambda t, a: t.var_mean(a, correction=0)[1], lambda: V),
  "logsumexp": (lambda t, a: t.logsumexp(a), lambda: V), "logcumsumexp": (lambda t, a: t.logcumsumexp(a), lambda: V),
  "cumsum": (lambda t, a: t.cumsum(a), lambda: V), "cumprod": (lambda t, a: t.cumprod(a), lambda: V),
  "cummax": (lambda t, a: t.cummax(a)[0], lambda: V), "cummin": (lambda t, a: t.cummin(a)[0], lambda: V),
  "cummax_at": (lambda t, a: t.cummax(a)[1], lambda: 0), "argmax": (lambda t, a: t.argmax(a), lambda: 0), "argmin": (lambda t, a: t.argmin(a), lambda: 0),
  "sort": (lambda t, a: t.sort(a)[0], lambda: V), "argsort": (lambda t, a: t.argsort(a), lambda: 0), "topk": (lambda t, a: t.topk(1, a)[0], lambda: V),
  "softmax": (lambda t, a: t.softmax(a), lambda: 1), "log_softmax": (lambda t, a: t.log_softmax(a), lambda: 0), "softmin": (lambda t, a: t.softmin(a), lambda: 1),
  "flip": (lambda t, a: t.flip(a), lambda: V), "roll": (lambda t, a: t.roll(1, a), lambda: V), "median": (lambda t, a: t.median(a), lambda: V),
  "quantile": (lambda t, a: t.quantile(0.25, a), lambda: V), "norm": (lambda t, a: t.norm(2, a), lambda: V),
  "keepdim": (lambda t, a: t.sum(a, keepdim=True), lambda: V), "argmax_keepdim": (lambda t, a: t.argmax(a, keepdim=True), lambda: 0),
}


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("name", ALONG)
def test_axis_of_a_scalar(name, axis):
  method, want = ALONG[name]
  for t in (Tensor(V), Tensor(np.float64(V)), Tensor([V]).sum()):
    y = method(t, axis)
    assert y.shape == () and np.isclose(y.item(), want()), name


@pytest.mark.parametrize("name", ALONG)
def test_other_axes_of_a_scalar_are_refused(name):
  for axis in (1, -2):
    with pytest.raises(IndexError): ALONG[name][0](Tensor(V), axis)


def test_gradients_of_a_scalar():
  for f, want in ((lambda t: t.sum(0), 1), (lambda t: t.softmax(), 0), (lambda t: t.cumsum(), 1), (lambda t: (t * t).max(-1), 2 * V), (lambda t: t.logsumexp(0), 1)):
    x = Tensor(V)
    f(x).backward()
    assert np.isclose(x.grad.item(), want)


def test_repeat_interleave_of_a_scalar(): assert Tensor(2).repeat_interleave(3, 0).tolist() == [2, 2, 2]


# () is no axis at all; None is all of them.
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "max", "min", "any", "all", "logsumexp"])
def test_reductions_over_no_axes(name):
  a = np.array([[1.0, 2.5, 0.0], [-3.0, 4.0, 5.5]], np.float32)
  numpy = {"logsumexp": lambda x, axis: np.log(np.exp(x))}.get(name) or getattr(np, name)
  for axis in ((), []):
    y = getattr(Tensor(a), name)(axis)
    want = numpy(a, axis=())
    assert y.shape == a.shape
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-6)
  assert getattr(Tensor(a), name)(None).shape == ()
  assert np.isnan(Tensor(a).var(()).numpy()).all() and Tensor(a).count_nonzero(()).numpy().tolist() == (a != 0).astype(int).tolist()


def test_zero_sized_axes_beside():
  x = Tensor.zeros(0, 3)
  assert x.sum(0).tolist() == [0, 0, 0] and x.sum(()).shape == (0, 3) and x.cumsum(-1).shape == (0, 3) and x.sum(0).dtype is dtypes.float32
