# SPDX-License-Identifier: MIT
"""Names of devices, and tensors on several of them: what is made like them, gradients through moves, parameters that move."""
import numpy as np
import pytest
import uopd
from a_daemon import ADaemon
from uopd import Context, Device, Tensor, TinyJit, Variable, dtypes, nn, runtime


@pytest.fixture(scope="module", autouse=True)
def two_devices():
  before = runtime._default
  with ADaemon("--device-list=CPU:0,CPU:1") as d:
    connection = uopd.connect(d.address)
    yield
    connection.close()
  runtime._default = before


TWO = ("CPU", "CPU:1")


class Array(np.ndarray):
  """An array that has `assign`, as a tensor."""
  def assign(self, value): self[...] = value


def test_names():
  assert Device.DEFAULT == "CPU" and Device.devices == ["CPU", "CPU:1"] and Device["cpu:1"].device == "CPU:1" and Device["CPU:0"].device == "CPU"
  assert Device.canonicalize("cpu") == Device.canonicalize("CPU:0") == "CPU" and Device.canonicalize("cpu:1") == f"{Device.DEFAULT}:1" == "CPU:1"
  assert (Tensor([1.0, 2.0], device="CPU") + Tensor([1.0, 1.0]) + Tensor([1.0, 1.0], device="cpu:0")).tolist() == [3, 4]
  assert Tensor([1.0], device="cpu:1").device == "CPU:1" and Tensor([1.0]).to("CPU:1").to("cpu").device == "CPU"
  x = Tensor.arange(4).shard(("CPU:0", "cpu:1"), 0)
  assert x.device == TWO and (x + Tensor.arange(4).shard(TWO, 0)).tolist() == [0, 2, 4, 6]
  Device["CPU"].synchronize()
  assert Device.default.device == "CPU" and Device["CPU"].count() == 2
  with pytest.raises(KeyError, match="no device"): Device["CUDA"]
  with pytest.raises(AttributeError): Device.DEFAULT = "CPU"


def test_default_device_of_a_scope():
  with Context(DEV="CPU:1"):
    assert Device.DEFAULT == "CPU:1" and Tensor([1.0]).device == "CPU:1" and Tensor.zeros(2).device == "CPU:1" and Tensor.rand(2).device == "CPU:1"
    assert (Tensor([1.0, 2.0]) + 1).tolist() == [2, 3]
  assert Device.DEFAULT == "CPU" and Tensor([1.0]).device == "CPU"
  with pytest.raises(ValueError, match="no device"):
    with Context(DEV="CUDA"): pass
  assert Device.DEFAULT == "CPU"


@pytest.mark.parametrize("place", [lambda t: t.to("CPU:1"), lambda t: t.shard(TWO), lambda t: t.shard(TWO, 0), lambda t: t.shard(TWO, 0).to("CPU:1"),
                                   lambda t: (t * 1).to("CPU:1"), lambda t: t.to("CPU:1").to("CPU") * Tensor(1.0)],
                         ids=["to", "replicated", "sharded", "sharded and gathered", "computed", "there and back"])
@pytest.mark.parametrize("realized", [True, False])
def test_gradients_through_moves(place, realized):
  v = [1.0, 2.0, -3.0, 4.0]
  for leaf in (None, True):
    x = Tensor(v, requires_grad=leaf)
    if realized: x.realize()
    (place(x).square() * 3).sum().backward()
    assert x.grad.tolist() == [6 * a for a in v]
    x.assign(x - x.grad).realize()  # they are in one place
    assert x.tolist() == [-5 * a for a in v] and x.device == "CPU"
    x.grad = None
    (place(x).sum().to("CPU") + (x * 2).sum()).backward()
    assert x.grad.tolist() == [3] * 4


def test_gradient_of_a_leaf_elsewhere():
  x = Tensor([1.0, 2.0], device="CPU:1").realize()
  (x.to("CPU") * Tensor([3.0, 4.0])).sum().backward()
  assert x.grad.tolist() == [3, 4]
  assert x.assign(x - x.grad).device == "CPU:1" and x.tolist() == [-2, -2]
  g, = (x.to("CPU") ** 2).sum().gradient(x)
  assert g.tolist() == [-4, -4]


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_what_is_like_a_tensor_in_pieces(axis):
  x = Tensor.arange(8).reshape(4, 2).float().shard(TWO, axis).realize()
  for y, want in ((x.zeros_like(), 0), (x.ones_like(dtype="int32"), 1), (x.full_like(2**53 + 1, dtype="int64"), 2**53 + 1), (x.const_like(2.5), 2.5)):
    assert y.device == TWO and y._h.shard_axis == x._h.shard_axis and y.shape == x.shape and (y.numpy() == want).all()
    assert y.realize().device == TWO
  for y in (x.rand_like(), x.randn_like(dtype=dtypes.float64), x.empty_like()):
    assert y.device == TWO and y._h.shard_axis == x._h.shard_axis and y.shape == x.shape
  assert 0 <= x.rand_like().numpy().min() and len(np.unique(x.rand_like().numpy())) == 8
  for f in (x.zeros_like, x.rand_like, x.randn_like, x.empty_like):
    with pytest.raises(RuntimeError, match="pieces"): f(device="CPU")
  assert (Tensor.full((4, 2), 3).shard(TWO, axis) + x.int()).tolist() == (np.arange(8).reshape(4, 2) + 3).tolist()
  assert Tensor(2.0).shard(TWO).tolist() == 2.0 and Tensor.const(7).shard(TWO).item() == 7
  assert x.zeros_like().assign(x).tolist() == x.tolist()


def test_what_is_no_parameter_stays_none():
  norm = nn.BatchNorm(4)
  for t in nn.state.get_parameters(norm): t.shard_(TWO)
  assert not norm.num_batches_tracked.is_param and norm.weight.is_param and norm.num_batches_tracked.device == TWO
  step = nn.optim.Adam([t for t in nn.state.get_parameters(norm)], lr=0.1)
  assert step.params == [norm.weight, norm.bias] and len(step.buffers) == 3
  with Tensor.train():
    for _ in range(2):
      norm(Tensor.arange(32).reshape(8, 4).float().shard(TWO, 0)).square().mean().backward()
      step.step()
  assert norm.num_batches_tracked.item() == 2
  w = Tensor([1.0], requires_grad=True).to_("CPU:1")
  (w * 3).backward()
  assert w.requires_grad and w.grad.tolist() == [3] and Tensor([1.0]).is_param_(False).to("CPU:1").is_param is False


@pytest.mark.parametrize("axis", [0, 1, None])
def test_symbolic_parts_of_pieces(two_devices, axis):
  def n(value): return Variable("n", 1, 10).bind(value)
  def cut(t, m): return t[:, :m] if axis == 0 else t[:m]
  array = np.arange(40, dtype=np.float32).reshape(10, 4)
  x = Tensor(array).shard(TWO, axis).realize()
  for how in (lambda t: t + 1, lambda t: (t + 1).realize() * 2, lambda t: t.sum(0).realize(), lambda t: t.sum(1)):
    assert np.array_equal(how(cut(x, n(3))).numpy(), how(cut(Tensor(array), 3)).numpy())
  step = TinyJit(lambda m: (cut(x, m) + 1).realize())
  for m in (2, 3, 1, 4): assert np.array_equal(step(n(m)).numpy(), cut(array, m) + 1)
  kept, want = Tensor.zeros(10, 4).shard(TWO, axis).contiguous().realize(), np.zeros((10, 4)).view(Array)
  cut(kept, n(2)).assign(Tensor.ones(*cut(kept, n(2)).shape).shard(TWO, axis))
  cut(want, 2)[:] = 1
  assert np.array_equal(kept.numpy(), want)
  for write in (lambda t, m: t.__setitem__(slice(None, m), 2), lambda t, m: t.__setitem__(slice(m, None), 3), lambda t, m: t.__setitem__(m, 4),
                lambda t, m: t.__setitem__((slice(None), slice(None, m)), 5), lambda t, m: t.__setitem__(slice(m, m + 3), 6), lambda t, m: t[:m][1:].assign(7)):
    write(kept, n(3))
    write(want, 3)
    assert np.array_equal(kept.realize().numpy(), want)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_every_part_that_is_written_arrives(two_devices, axis):
  """Writes to parts of a tensor in pieces, before it is realised: none is lost where a later one does not touch its piece."""
  rng = np.random.default_rng(7)
  def box(size):
    low = int(rng.integers(0, size))
    return slice(low, int(rng.integers(low + 1, size + 1)))
  def writes(t, plan, values):
    for (rows, columns, how), value in zip(plan, values):
      if how == 0: t[rows, columns] = value
      elif how == 1: t[rows, columns].assign(value.expand(*t[rows, columns].shape) if isinstance(value, Tensor) else np.full(t[rows, columns].shape, value))
      else: t[rows][:, columns] += value
  for _ in range(25):
    plan = [(box(5), box(4), int(rng.integers(0, 3))) for _ in range(int(rng.integers(2, 6)))]
    values = rng.integers(1, 50, len(plan)).astype(np.float32)
    x, want = Tensor.zeros(5, 4).contiguous().shard(TWO, axis).realize(), np.zeros((5, 4), np.float32).view(Array)
    writes(x, plan, [Tensor(float(v)).shard(TWO) for v in values])
    writes(want, plan, values)
    x.realize() if rng.integers(0, 2) else (x + 1).realize()
    assert np.array_equal(x.numpy(), want), (plan, values)
  plan = [(slice(4, 5), slice(3, 4), 0), (slice(0, 2), slice(0, 2), 1)]
  x, want = Tensor.zeros(5, 4).contiguous().shard(TWO, axis).realize(), np.zeros((5, 4), np.float32).view(Array)
  @TinyJit
  def step(a, b):
    writes(x, plan, (a, b))
    return x.sum().realize()
  for i in range(1, 5):
    writes(want, plan, (i, i + 10.0))
    total = step(Tensor(float(i)).shard(TWO).realize(), Tensor(i + 10.0).shard(TWO).realize())
    assert total.item() == want.sum() and np.array_equal(x.numpy(), want)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_assigned_tensors_stay_where_they_are(axis):
  """Whatever is assigned: a number, a value in other pieces, one of a single device, all elements through views."""
  array = np.arange(12, dtype=np.float32).reshape(4, 3)
  for write, want in ((lambda t: t.assign(3), array * 0 + 3), (lambda t: t.assign(Tensor.zeros(4, 3)), array * 0), (lambda t: t.assign(Tensor(array).shard(TWO, 1) * 2), array * 2),
                      (lambda t: t.assign(Tensor(array).shard(TWO[::-1], 0)), array), (lambda t: t.assign(Tensor(array).shard(TWO)), array),
                      (lambda t: t.assign(Tensor(array)), array), (lambda t: t.reshape(-1).assign(5), array * 0 + 5), (lambda t: t[:].assign(Tensor.ones(4, 3)), array * 0 + 1),
                      (lambda t: t.flip(0).assign(Tensor(array).shard(TWO, 0)), array[::-1])):
    for held in (False, True):  # in place, and beside the old contents
      x = (Tensor(array) + 1).shard(TWO, axis).realize()
      layout, old = x._h.shard_axis, x * 1 if held else None
      write(x)
      assert x.device == TWO and x._h.shard_axis == layout
      assert np.array_equal(x.realize().numpy(), want) and x.device == TWO and x._h.shard_axis == layout
      if held: assert np.array_equal(old.numpy(), array + 1)


def test_a_replay_names_the_pieces_of_another_argument():
  f = TinyJit(lambda x: (x + 1).realize())
  for _ in range(2): f(Tensor.ones(4).contiguous().shard(TWO, 0).realize())
  with pytest.raises(uopd.errors.JitError, match=r"on CPU:0; the function was recorded with f32 \(4\) on CPU:0, CPU:1 in pieces \(2, 2\) along axis 0"):
    f(Tensor.ones(4).contiguous().realize())


def test_random_programs_on_devices(monkeypatch):
  import stateful_fuzz
  monkeypatch.delenv("UOPD_DEVICE_LIST", raising=False)
  reports = []
  count, _, different = stateful_fuzz.fuzz(1, 40, "devices", report=reports.append)
  assert (count, different) == (40, 0), "\n".join(reports)


def test_values_of_several_devices_do_not_meet():
  a, b = Tensor([1.0, 2.0, 3.0]), Tensor([1, 2, 0], device="CPU:1")
  c = b.float()
  for f in (lambda: a + c, lambda: (a > 1).where(a, c), lambda: a.cat(c), lambda: a.gather(0, b), lambda: a[b], lambda: a.scatter(0, b, a), lambda: a @ c,
            lambda: a.reshape(1, 3).sparse_categorical_crossentropy(b[:1]), lambda: a.assign(c), lambda: a.__setitem__(slice(0, 1), c[:1])):
    with pytest.raises(uopd.errors.InvalidArgument): f()
  with pytest.raises(ValueError): Tensor([1.0], device="CPU:7")
  with pytest.raises(ValueError): a.to("NONE")
  assert a.tolist() == [1, 2, 3] and (a + c.to("CPU")).tolist() == [2, 4, 3]
  # What needs no device goes where the others are.
  y = Tensor.ones(3) * c
  assert y.device == "CPU:1" and y.tolist() == [1, 2, 0] and Tensor.full((3,), 2.0).pow(c).realize().device == "CPU:1"


def test_pieces_of_different_sizes():
  x = Tensor.arange(5).shard(TWO, 0)
  assert x.tolist() == [0, 1, 2, 3, 4] and (x + 1).device == TWO and Tensor.rand(5, device=TWO).device == TWO
