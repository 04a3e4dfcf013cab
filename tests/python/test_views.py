# SPDX-License-Identifier: MIT
"""Reading is no change, and views write through: gradients with and without reads, and assignments to views against NumPy."""
import numpy as np
import pytest
from a_device import of_device
from uopd import Tensor, TinyJit, nn


def test_reading_before_backward():
  w = Tensor([2.0, 1.0]).realize()
  loss = (w * 3).sum()
  loss.item()
  loss.backward()
  assert w.grad.tolist() == [3, 3]
  x = Tensor([1.0, 2.0, 3.0]).realize()
  y = x * x
  z = y * 2
  for read in (y.numpy, z.tolist, z.realize, lambda: repr(y)): read()
  (y * z).sum().backward()
  np.testing.assert_allclose(x.grad.numpy(), 8 * x.numpy() ** 3)
  np.testing.assert_allclose(y.grad.numpy(), 4 * x.numpy() ** 2)


@pytest.mark.parametrize("reads", [False, True])
def test_a_network_whose_activations_are_read(reads):
  Tensor.manual_seed(5)
  layers = [nn.Linear(4, 4) for _ in range(3)]
  optimizer = nn.optim.SGD(nn.state.get_parameters(layers), lr=.1)
  x, seen = Tensor(np.ones((2, 4), np.float32)), []
  with Tensor.train():
    for _ in range(4):
      h = x
      for layer in layers:
        h = layer(h).tanh()
        if reads: h.numpy()
      loss = h.square().mean()
      if reads: seen.append(loss.item())
      optimizer.zero_grad()
      loss.backward()
      if reads: loss.item()
      optimizer.step()
      if not reads: seen.append(loss.item())
  if not hasattr(test_a_network_whose_activations_are_read, "first"): test_a_network_whose_activations_are_read.first = seen
  np.testing.assert_allclose(seen, test_a_network_whose_activations_are_read.first, rtol=1e-5)
  assert seen[-1] < seen[0]


def test_assignments_to_views():
  x = Tensor.zeros(5).contiguous().realize()
  x[2:4].assign(Tensor.ones(2)).realize()
  assert x.tolist() == [0, 0, 1, 1, 0]
  x.shrink(((0, 2),)).assign(7)
  part = x[1:4]
  part[1:] += 10
  assert x.tolist() == [7, 7, 11, 11, 0] and part.tolist() == [7, 11, 11]
  m = Tensor.arange(12).reshape(3, 4).contiguous().realize()
  m.T[1:3].flip(0)[0].assign(Tensor([-1, -2, -3]))
  assert m.tolist() == [[0, 1, -1, 3], [4, 5, -2, 7], [8, 9, -3, 11]]
  m[::2][1, ::3] *= 10
  assert m[2].tolist() == [80, 9, -3, 110]
  with pytest.raises(ValueError): m[0].assign(Tensor([1, 2]))
  with pytest.raises(ValueError): m[0] = Tensor([1, 2])
  assert m[0].tolist() == [0, 1, -1, 3]


AT = {"a slice": slice(0, 1), "a mask": [True, False, False], "a tensor of bools": np.array([True, False, False]), "a position": [0], "positions": np.array([0, 0])}


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("at", AT.values(), ids=AT)
def test_only_written_elements_of_a_view_reach_the_tensor(at, stored):
  """The view is older than what was assigned to the tensor: its other elements are not those of the tensor."""
  base = Tensor([1.0, 2.0, 3.0, 4.0])
  x = base.realize() if stored else base * 1
  view, twin = x[0:3].reshape(1, 3), x.flip(0)
  part = view[0]
  x.assign(Tensor.full((4,), 7.0))
  part[Tensor(at) if isinstance(at, np.ndarray) else at] = 5
  assert part.tolist() == [5, 2, 3] and view.tolist() == [[5, 2, 3]]
  assert x.tolist() == [5, 7, 7, 7] and twin.tolist() == [4, 3, 2, 1]


def test_gradients_of_what_was_not_written_are_the_tensors():
  w, v = Tensor([1.0, 2.0, 3.0]).realize(), Tensor([10.0]).realize()
  x = w * 1
  part = x[0:2]
  x.assign(w * 3)
  part[Tensor([1])] = v
  (x * x).sum().backward()
  assert x.tolist() == [3, 10, 9] and w.grad.tolist() == [18, 0, 54] and v.grad.tolist() == [20]


NOTHING_TO_DO = {
  "x[0:2]": lambda x: x[0:2], "x[:]": lambda x: x[:], "reshape": lambda x: x.reshape(3), "float()": lambda x: x.float(), "Tensor(x)": lambda x: Tensor(x),
  "dropout": lambda x: x.dropout(.5), "cat": lambda x: Tensor.cat(x), "pad": lambda x: x.pad((0, 0)), "roll": lambda x: x.roll(0, 0), "detach": lambda x: x.detach(),
  "+x": lambda x: +x, "permute": lambda x: x.permute(0), "expand": lambda x: x.expand(3), "to": lambda x: x.to(x.device), "split": lambda x: x.split(3)[0],
  "clone": lambda x: x.clone(), "contiguous": lambda x: x.contiguous(), "abs": lambda x: x.abs(), "squeeze": lambda x: x.squeeze(), "tile": lambda x: x.repeat(1)}


@pytest.mark.parametrize("name", NOTHING_TO_DO)
@pytest.mark.parametrize("stored", [False, True])
def test_other_tensors_keep_their_values(name, stored):
  make, f = (lambda: Tensor([1.0, 2.0, 3.0]).realize()) if stored else (lambda: Tensor([0.0, 1.0, 2.0]) + 1), NOTHING_TO_DO[name]
  x = make()
  old = f(x)
  x += 10
  assert old.tolist() == [1, 2, 3][:len(old)] and x.tolist() == [11, 12, 13]
  y = make()
  new = f(y)
  new *= 0
  assert y.tolist() == [1, 2, 3] and new.tolist() == [0] * len(new)


def test_random_programs_agree_with_numpy():
  """Tensors and views of them are assigned, read and computed with; NumPy's views say what an assignment changes."""
  for seed in range(of_device(25, CL=2)):
    rng = np.random.default_rng(seed)
    base = [rng.integers(0, 50, (4, 6)).astype(np.float32) for _ in range(3)]
    arrays, tensors = [b.copy() for b in base], [Tensor(b) for b in base]

    def key():
      kind = rng.integers(5)
      i, j = int(rng.integers(4)), int(rng.integers(6))
      return [(slice(i, None), slice(None, j + 1)), (i,), (slice(None), j), (slice(None, None, -1), slice(j % 2, None, 2)), (Ellipsis, slice(0, j + 1))][kind]
    for _ in range(30):
      k, n = int(rng.integers(3)), int(rng.integers(3))
      a, t, what = arrays[k], tensors[k], int(rng.integers(6))
      if what == 0:
        i = key()
        a[i] = v = float(rng.integers(50))
        t[i] = v
      elif what == 1:
        i = key()
        a[i] = arrays[n][i] * 2 % 97
        t[i] = tensors[n][i] * 2 % 97
      elif what == 2:
        i = key()
        a[i] += 1
        t[i] += 1
      elif what == 3:
        a.T[1:4][:, ::-1][1:] = v = float(rng.integers(50))
        t.T[1:4][:, ::-1][1:].assign(v)
      elif what == 4:
        arrays[k] = (a + arrays[n]) % 89
        tensors[k] = (t + tensors[n]) % 89
      else: np.testing.assert_array_equal(t.numpy() if rng.integers(2) else t.realize().numpy(), a)
    for a, t in zip(arrays, tensors): np.testing.assert_array_equal(t.numpy(), a, err_msg=f"seed {seed}")


def test_a_view_in_a_recorded_function():
  x = Tensor.zeros(4, 3).contiguous().realize()

  @TinyJit
  def f(v):
    x[1:3].assign(x[1:3] + v)
    x[0] += 1
    return x.sum().realize()
  want = np.zeros((4, 3), np.float32)
  for i in range(5):
    v = np.full((2, 3), i, np.float32)
    want[1:3] += v
    want[0] += 1
    assert f(Tensor(v)).item() == want.sum()
    np.testing.assert_array_equal(x.numpy(), want)


@pytest.mark.parametrize("stored", [False, True])
def test_assignments_to_other_bits(stored):
  x = Tensor([1.0, 2.0, 3.0, 4.0]).realize() if stored else Tensor([0.0, 1.0, 2.0, 3.0]) + 1
  bits = np.array([4, 3, 2, 1], np.float32).view(np.uint32)
  x.bitcast("uint32").assign(Tensor(bits))
  assert x.tolist() == [4, 3, 2, 1]
  x[:2].bitcast("uint32").bitcast("int32").flip(0).assign(Tensor(bits[:2].view(np.int32)))
  assert x.tolist() == [3, 4, 2, 1]
  x.reshape(2, 2).bitcast("int32")[1] = Tensor(bits[2:].view(np.int32)).flip(0)
  assert x.tolist() == [3, 4, 1, 2]


def test_whoever_has_a_gradient_sees_the_sum():
  x = Tensor([3.0])
  (x * 2).sum().backward()
  seen, before = x.grad, x.grad + 0
  (x * 3).sum().backward()
  assert x.grad is seen and seen.tolist() == [5] and before.tolist() == [2]
  copy = x.clone()
  (x * 5).sum().backward()
  assert seen.tolist() == [10] and copy.grad.tolist() == [5] and copy.grad is not seen


def test_a_gradient_is_no_view_of_its_tensor():
  a, b = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize(), Tensor([1.0, 1.0, 1.0, 1.0]).realize()
  (a.reshape(4) * b).sum().backward()
  b.grad.assign(b.grad * 0)
  assert a.tolist() == [[1, 2], [3, 4]] and b.tolist() == [1, 1, 1, 1] and b.grad.tolist() == [0, 0, 0, 0]


def test_writes_that_leave_no_element_as_it_was():
  x = Tensor.arange(6).contiguous().realize()
  x[::-2] = -3
  y = x.relu()
  x[0::2] = -3
  assert x.tolist() == [-3] * 6 and y.tolist() == [0, 0, 2, 0, 4, 0]


def test_lists_of_integers_of_numpy():
  x, want = Tensor.arange(12).reshape(6, 2), np.arange(12).reshape(6, 2)
  for index in (list(np.array([0, 2])), [np.int64(1), 3], [np.uint8(5)], list(np.array([-1, 0], np.int32))):
    assert np.array_equal(x[index].numpy(), want[index])
  x[list(np.array([0, 5]))] = 7
  want[[0, 5]] = 7
  assert np.array_equal(x.numpy(), want)
