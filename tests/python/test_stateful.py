# SPDX-License-Identifier: MIT
"""A short form of stateful_fuzz.py, and what its longer runs have found: each as a small program."""
import numpy as np
import pytest
import stateful_fuzz
from a_device import of_device
from uopd import Tensor, TinyJit


@pytest.mark.parametrize("choices", [{"jit": False, "gradients": False}, {"jit": False}, {}], ids=["values", "gradients", "recorded functions"])
def test_random_programs(choices):
  reports, programs = [], of_device(40, CL=3)
  count, refused, different = stateful_fuzz.fuzz(1, programs, report=reports.append, **choices)
  assert (count, different) == (programs, 0) and sum(refused.values()) < 8, "\n".join(reports)


def test_where_an_assignment_writes_is_no_value():
  """The part of x that is written is also the value of another tensor, which gets memory of its own meanwhile."""
  x = Tensor([[-4, 7, -4], [-4, -9, -1]])
  v, rest = x.chunk(2, 0)
  x[0] = 4
  w = x.shrink(((0, 2), None))
  assert x.tolist() == [[4, 4, 4], [-4, -9, -1]] and v.tolist() == [[-4, 7, -4]] and w.tolist() == x.tolist() and rest.tolist() == [[-4, -9, -1]]
  x = Tensor([[-4, 7, -4], [-4, -9, -1]]).realize()
  t = Tensor.zeros(1, 3, dtype="int32").contiguous().realize()
  t.assign(x[0:1])
  x[0:1] = 4
  u = Tensor.zeros(2, 3, dtype="int32").contiguous().realize()
  u.assign(x)
  x[1] = 5
  x.realize(t, u)
  assert t.tolist() == [[-4, 7, -4]] and u.tolist() == [[4, 4, 4], [-4, -9, -1]] and x.tolist() == [[4, 4, 4], [5, 5, 5]]


def test_only_views_write_through():
  for make in (lambda x: x.repeat(1, 1), lambda x: x.expand(2, 3), lambda x: x.pad(((0, 0), (0, 0))), lambda x: x.roll(3, 1), lambda x: x.sum(0, keepdim=True)[0]):
    x = Tensor([[1, 2, 3], [4, 5, 6]]) + 0
    make(x).flatten()[1:].assign(0)
    assert x.tolist() == [[1, 2, 3], [4, 5, 6]]
  for offset, want in ((0, [[0, 2, 3], [4, 0, 6]]), (1, [[1, 0, 3], [4, 5, 0]]), (-1, [[1, 2, 3], [0, 5, 6]])):
    x = Tensor([[1, 2, 3], [4, 5, 6]])
    x.diagonal(offset).assign(0)
    assert x.tolist() == want


def test_an_old_view_is_assigned_its_own_value():
  x = Tensor([1.0, 2.0, 3.0, 4.0])
  old, same = x[1:3], x[1:3]
  x -= 1
  same = x[1:3]
  same.assign(same)
  assert x.tolist() == [0, 1, 2, 3]
  old[:1] = old[:1]
  assert x.tolist() == [0, 2, 2, 3] and old.tolist() == [2, 3]


def test_indices_whose_bounds_are_hard_to_see():
  """Rows of one length that are read as rows of another one: the kernels have to verify."""
  rng = np.random.default_rng(3)
  for a, b in (((2, 2, 3), (3, 4)), ((3, 4), (2, 2, 3)), ((3, 5), (5, 3)), ((2, 3, 4), (4, 6)), ((7, 2), (2, 7))):
    v = rng.integers(-9, 9, a).astype(np.float32)
    x, r, w = Tensor(v).detach(), Tensor(v).reshape(b), v.reshape(b).copy()
    y = x.reshape(b)
    y.assign(y.flip(0))
    np.testing.assert_array_equal(y.numpy(), np.flip(w, 0))
    np.testing.assert_array_equal(x.numpy(), np.flip(w, 0).reshape(a))
    z = Tensor.zeros(*a)
    z.reshape(b)[Tensor([1, 0]), -2] = -0.25
    w[:] = 0
    w[:2, -2] = -0.25
    np.testing.assert_array_equal(z.numpy(), w.reshape(a))
    assert r.shape == b


@pytest.mark.parametrize("read", [lambda x, old: None, lambda x, old: x.realize(), lambda x, old: old.numpy()], ids=["none", "new", "old"])
@pytest.mark.parametrize("assign", [lambda x: x.assign(x * 2), lambda x: x.T.assign(x.T * 2), lambda x: x[:].assign(x * 2)], ids=["whole", "view", "alias"])
def test_gradients_by_what_a_tensor_was_before_it_was_assigned(assign, read):
  for make in (lambda x: x[:], lambda x: +x):
    x = Tensor([[0.0, -4.0, -0.5]])
    old, kept = make(x), assign(x)
    read(x, old)
    assert x.sum().gradient(old)[0].tolist() == [[2, 2, 2]] and kept.numel() == 3
  x = Tensor([[0.0, -4.0, -0.5]])
  turned = x.T
  turned.assign(turned * 2)  # two tensors of one request, one of which is computed from the other
  old = turned.detach()
  x.realize()
  assert (x.sum() + old.sum()).gradient(turned)[0].tolist() == [[1], [1], [1]]


def test_a_history_of_what_is_written_in_the_same_request():
  x = Tensor([[1.5, 5.5], [6.0, -3.0], [5.5, -2.0]]).contiguous().realize()
  x[0:2] = x[1:3] * -0.25
  y = x.flip(1)
  y.realize()
  np.testing.assert_array_equal(((y + x) * x).sum().gradient(x)[0].numpy(), 2 * (y + x).numpy())
  z = Tensor([[-4.0], [3.5]])
  z.assign(-0.25)
  part = z.unsqueeze(0)
  part.numpy()
  (part * -2.0).sum().backward()
  assert part.grad.tolist() == [[[-2], [-2]]]


def test_no_gradient_is_asked_for_behind_a_detach():
  x, y = Tensor([[-0.5, -2.5], [5.0, -1.0]]), Tensor([1.0, 2.0])
  d = x.detach()
  d.assign(y.reshape(1, 2) + 1.5)
  d.tolist()
  z = d.cumsum(0)
  x -= 3.0
  d.numpy()
  (z * x.detach()).sum().backward()  # x was computed from its own old contents: nothing here asks for them
  assert y.grad is not None


def test_results_that_no_call_of_a_recorded_function_computes():
  state = Tensor([1.0, 2.0]).realize()

  @TinyJit
  def f(x):
    made = Tensor([5.5])
    return x.float(), x[:], x.reshape(1, 2), state.flatten(), made, x + 1
  for i in range(4):
    state.assign(Tensor([1.0 + i, 2.0]))
    out = f(Tensor([float(i), 7.0]))
    assert [t.tolist() for t in out] == [[i, 7], [i, 7], [[i, 7]], [1 + i, 2], [5.5], [i + 1, 8]]
    out[4][0] = -1.0  # the next call makes it anew
    if i: out[3].assign(out[3] * 0)  # a result is no view
    assert state.tolist() == [1 + i, 2]


def test_data_that_a_recorded_function_reads_and_then_overwrites():
  @TinyJit
  def f(x):
    t = Tensor([7, 9])
    before = (t + x).realize()
    t[:1].assign(5)
    return before, t
  for i in range(5): assert [t.tolist() for t in f(Tensor([i]))] == [[7 + i, 9 + i], [5, 9]]
