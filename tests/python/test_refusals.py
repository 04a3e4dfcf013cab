# SPDX-License-Identifier: MIT
"""What is refused, and by which exception: those that tinygrad's programs expect. And what has other values or shapes than one may think."""
import math
import pickle

import numpy as np
import pytest
from uopd import Context, Tensor, dtypes, nn
from uopd.helpers import DEBUG, TRAINING, ContextVar


REFUSED = {
  "two ellipses": (IndexError, lambda: Tensor.ones(2, 3)[..., ...]), "positions that do not broadcast": (IndexError, lambda: Tensor.ones(5, 5)[[0, 1], [0, 1, 2]]),
  "assignment there": (IndexError, lambda: Tensor.ones(5, 5).contiguous().__setitem__(([0, 1], [0, 1, 2]), 0)), "a tensor as a limit": (TypeError, lambda: Tensor.ones(4)[:Tensor([3])]),
  "no axes": (IndexError, lambda: Tensor(2)[:]), "numbers beyond a dtype": (OverflowError, lambda: Tensor.arange(129, dtype=dtypes.int8)),
  "the first of them": (OverflowError, lambda: Tensor.arange(-129, 3, dtype=dtypes.int8)), "floats in a shape": (RuntimeError, lambda: Tensor.ones(2.5)),
  "a range of bools": (ValueError, lambda: Tensor.linspace(0, 1, 3, dtype="bool")), "a gradient of several elements": (AssertionError, lambda: Tensor([1.0, 2.0]).gradient()),
  "weights without axes": (AssertionError, lambda: Tensor(2.0).multinomial()), "too many draws": (AssertionError, lambda: Tensor([.5, .5]).multinomial(3)),
  "two ellipses in a formula": (AssertionError, lambda: Tensor.ones(2, 3, 4).rearrange("... a ... -> a ...")), "_ first": (AssertionError, lambda: Tensor.ones(2).rearrange("_a -> _a")),
  "_ last": (AssertionError, lambda: Tensor.ones(2).rearrange("a_ -> a_")), "a joined ellipsis": (AssertionError, lambda: Tensor.ones(2, 3).rearrange("a...b -> b...a")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
  kind, f = REFUSED[name]
  with pytest.raises(kind): f()


# What programs look for in the text.
WORDED = {
  "assign dtype mismatch": (RuntimeError, lambda folder: Tensor.zeros(2).contiguous().assign(Tensor([1, 2]))),
  "shape must be int": (RuntimeError, lambda folder: Tensor.ones(2.0)),
  "non-contiguous view is not supported": (RuntimeError, lambda folder: Tensor.arange(6).to(f"disk:{folder / 'f'}").__setitem__(slice(None, None, 2), Tensor([1, 2, 3]))),
  r"Shape mismatch in layer `weight`: Expected shape \(2, 2\), but found \(4, 4\) in state dict": (
    ValueError, lambda folder: nn.state.load_state_dict(nn.Linear(2, 2, bias=False), {"weight": Tensor.ones(4, 4)})),
}


@pytest.mark.parametrize("text", WORDED)
def test_worded(text, tmp_path):
  kind, f = WORDED[text]
  with pytest.raises(kind, match=text): f(tmp_path)


def test_ranges_up_to_the_limits_of_a_dtype():
  for numbers in ((-128, 128), (127, -129, -1)): assert Tensor.arange(*numbers, dtype=dtypes.int8).tolist() == list(range(*numbers))
  assert Tensor.arange(2**31, 2**31 + 3).dtype is dtypes.int64


def test_padding_of_integers():
  x = Tensor.arange(3).pad((1, 1), value=-math.inf)
  assert x.dtype is dtypes.float32 and x.tolist() == [-math.inf, 0, 1, 2, -math.inf]
  assert Tensor.arange(3).pad((0, 1), value=7.0).dtype is dtypes.int32


def test_memory_of_nothing():
  view = Tensor([], dtype=dtypes.int32).reshape(0, 2).data()
  assert view.shape == (0,) and view.itemsize == 4 and list(view) == []


@pytest.mark.parametrize("shape", [(2, 1, 3), (2, 0, 3), (0, 3), (2, 3, 0)])
def test_running_maxima_have_the_shape_of_the_tensor(shape):
  x = Tensor(np.arange(math.prod(shape), dtype=np.float32).reshape(shape))
  for axis in range(len(shape)):
    for values, where in (x.cummax(axis), x.cummin(axis)): assert values.shape == where.shape == where.numpy().shape == shape


def test_eight_bit_random_numbers():
  for dtype, count in ((dtypes.fp8e4m3, 16), (dtypes.fp8e5m2, 8)):
    x = Tensor.rand(2000, dtype=dtype)
    assert x.dtype is dtype and set((x.numpy() * count).tolist()) == set(range(count))
    assert abs(Tensor.randn(4000, dtype=dtype).numpy().mean()) < .1


def between(x, size, corners):
  """The bytes of an image along its last axis, in exact arithmetic: at most one off, and only where rounding the weight matters."""
  n = x.shape[-1]
  at = np.arange(size) * ((n - 1) / max(size - 1, 1)) if corners else np.clip((np.arange(size) + .5) * n / size - .5, 0, n - 1)
  low = np.minimum(at.astype(int), n - 1)
  return x[..., low] * (1 - (at - low)) + x[..., np.minimum(low + 1, n - 1)] * (at - low)


@pytest.mark.parametrize("n, size", [(5, 9), (64, 10), (3, 3), (1, 4), (7, 1)])
@pytest.mark.parametrize("corners", [False, True])
def test_interpolation_of_bytes(n, size, corners):
  x = np.random.default_rng(n).integers(0, 256, (2, 3, n)).astype(np.uint8)
  y = Tensor(x).interpolate((size,), align_corners=corners)
  assert y.dtype is dtypes.uint8 and np.abs(y.numpy() - between(x.astype(float), size, corners)).max() <= .52
  assert Tensor(x.astype(np.int32)).interpolate((size,)).dtype is dtypes.int32


@pytest.mark.parametrize("dtype", [d.name for d in dtypes.all])
def test_pickles_with_contents_beside_them(dtype):
  x, beside = Tensor([[1, 0, 1], [0, 1, 1]]).cast(dtype), []
  data = pickle.dumps(x, protocol=5, buffer_callback=beside.append)
  assert len(beside) == 1 and len(data) < 300
  for y in (pickle.loads(data, buffers=beside), pickle.loads(pickle.dumps(x, protocol=5)), pickle.loads(pickle.dumps(x, protocol=2))):
    assert y.dtype is x.dtype and y.shape == (2, 3) and y.tolist() == x.tolist()


def test_integers_that_a_dtype_does_not_have():
  numbers = [-1, 0, 2**33, 2**32 + 5]
  for dtype in ("uint8", "int32", "uint32"): assert Tensor(numbers, dtype=dtype).tolist() == np.array(numbers).astype(dtype).tolist()
  assert Tensor(numbers).dtype is dtypes.int64 and Tensor.randn(3, dtype="int8").dtype is dtypes.int8


def test_context_variables():
  v = ContextVar("TEST_OF_CONTEXT_VARIABLES", 3)
  assert v.value == v == 3 and v >= 3 and not v < 3 and ContextVar("TEST_OF_CONTEXT_VARIABLES", 5) is v
  with Context(TEST_OF_CONTEXT_VARIABLES=0, TRAINING=1):
    assert not v and TRAINING and Tensor.training
    with Context(TEST_OF_CONTEXT_VARIABLES=2): assert v.value == 2
    assert v.value == 0
  assert v.value == 3 and not TRAINING and not DEBUG
  with pytest.raises(ValueError): Context(NO_SUCH_VARIABLE=1).__enter__()
