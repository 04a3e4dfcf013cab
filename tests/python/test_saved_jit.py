# SPDX-License-Identifier: MIT
"""Pickles of recorded functions: what is loaded replays as what was pickled, here and in another process, and shares its state with the model that is
in the same pickle."""
import collections
import copy
import io
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import uopd
from a_daemon import ADaemon
from uopd import Context, Tensor, TinyJit, Variable, dtypes, nn
from uopd.errors import FailedPrecondition, JitError

Pair = collections.namedtuple("Pair", "left right")
DEVICES = ("CPU:0", "CPU:1")


def values(*shape, at=0, dtype=np.float32): return Tensor((np.arange(np.prod(shape)).reshape(shape) % 7 + at).astype(dtype))


def captured_weights():
  layer = nn.Linear(3, 4)
  return lambda x: layer(x).relu(), lambda i: ((values(2, 3, at=i),), {})


def keywords_and_structures():
  def f(x, *, pair, scale=2): return {"sum": (x * scale + pair[0]).sum(1), "both": Pair(pair[1].max(), [x, x + 1])}
  return f, lambda i: ((values(2, 3, at=i),), {"pair": [values(3, at=i), values(4)], "scale": 3})


def state_that_is_returned():
  total = Tensor.zeros(3).contiguous().realize()
  return lambda x: total.assign(total + x), lambda i: ((values(3, at=i),), {})


def state_that_is_not_returned():
  total = Tensor.ones(3).contiguous().realize()

  def f(x):
    between = (x + 1).realize()
    total.assign(total * 0.5 + between).realize()
    return between * total
  return f, lambda i: ((values(3, at=i),), {})


def random_numbers():
  def f(x):
    r = Tensor.randn(4)
    return (r + 1).realize(), (r * x).realize(), x.dropout(0.5)
  return f, lambda i: ((values(4, at=i),), {})


def an_argument_that_is_assigned():
  def f(x, y):
    x.assign(x * 2 + y)
    return x, y, x + y
  return f, lambda i: ((values(3, at=i).realize(), values(3).realize()), {})


def variables():
  table = values(10).realize()
  return lambda at: (table[at:at + 1] * 2).realize(), lambda i: ((Variable("at", 0, 9).bind(i),), {})


def a_cache():
  cache = Tensor.zeros(2, 8).contiguous().realize()

  def f(x, at):
    cache[:, at:at + 1].assign(x).realize()
    return cache[:, :at + 1].sum(1).realize(), (cache[:, :at + 1] * 2).realize()
  return f, lambda i: ((values(2, 1, at=i), Variable("at", 0, 7).bind(i)), {})


def symbolic_inputs():
  whole = values(9)
  return lambda x: (x + 1).realize(), lambda i: ((whole[:Variable("n", 1, 9).bind(i + 1)],), {})


def training():
  layer = nn.Linear(3, 2)
  optimizer = nn.optim.Adam(nn.state.get_parameters(layer), lr=0.05)

  def f(x, y):
    optimizer.zero_grad()
    loss = layer(x.dropout(0.1)).sparse_categorical_crossentropy(y).backward()
    optimizer.step()
    return loss.realize(), layer.weight
  return f, lambda i: ((values(4, 3, at=i), values(4, dtype=np.int32) % 2), {})


def other_dtypes():
  count = Tensor.zeros(3, dtype=dtypes.int64).contiguous().realize()
  return (lambda x: (count.assign(count + x.cast(dtypes.int64)), x.cast(dtypes.bfloat16), x > 2, Tensor.zeros(0, 2)),
          lambda i: ((values(3, at=i, dtype=np.uint8),), {}))


def several_devices():
  weight = values(3).shard(DEVICES).realize()
  total = Tensor.zeros(4, 3).contiguous().shard(DEVICES, 0).realize()

  def f(x):
    total.assign(total + x * weight)
    return total, x + 1, (x * weight).sum(0)
  return f, lambda i: ((values(4, 3, at=i).shard(DEVICES, 0),), {})


PROGRAMS = {f.__name__: f for f in (captured_weights, keywords_and_structures, state_that_is_returned, state_that_is_not_returned, random_numbers,
                                    an_argument_that_is_assigned, variables, a_cache, symbolic_inputs, training, other_dtypes, several_devices)}


@pytest.fixture(scope="module", autouse=True)
def two_devices():
  before = uopd.runtime._default
  with ADaemon("--device-list=CPU:0,CPU:1") as daemon:
    uopd.connect(daemon.address)
    yield daemon
    uopd.close()
  uopd.runtime._default = before


def bits(value):
  """What a result is made of, with the contents of its tensors."""
  if isinstance(value, Tensor): return value.shape and [int(uopd.variable.now(d)) for d in value.shape], value.dtype.name, value.tolist()
  if isinstance(value, dict): return {key: bits(v) for key, v in value.items()}
  return type(value).__name__, [bits(v) for v in value]


def recorded(program):
  Tensor.manual_seed(4)
  function, inputs = PROGRAMS[program]()
  jit = TinyJit(function)
  with Tensor.train():
    for i in range(3): call(jit, inputs, i)
  return jit, inputs


def call(jit, inputs, i):
  """The result of a call, and the arguments after it."""
  args, kwargs = inputs(i)
  Tensor.manual_seed(i)
  with Tensor.train(): result = jit(*args, **kwargs)
  return bits(result), [bits(a) for a in args if isinstance(a, Tensor)]


@pytest.mark.parametrize("program", PROGRAMS)
def test_replays_as_what_was_pickled(program):
  jit, inputs = recorded(program)
  data = pickle.dumps(jit)
  assert jit.captured
  loaded, again = pickle.loads(data), pickle.loads(pickle.dumps(pickle.loads(data), protocol=2))
  assert loaded.captured and loaded.fxn is None
  for i in range(3, 7):
    want = call(jit, inputs, i)
    assert call(loaded, inputs, i) == want and call(again, inputs, i) == want


WORKER = """
import os, pickle, sys
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import uopd
uopd.connect(sys.argv[2])
import test_saved_jit as t
jit = pickle.load(sys.stdin.buffer)
_, inputs = t.PROGRAMS[sys.argv[3]]()
print(repr([t.call(jit, inputs, i) for i in range(3, 6)]))
"""


@pytest.mark.parametrize("program", ["training", "a_cache", "several_devices"])
def test_in_another_process(program, two_devices):
  jit, inputs = recorded(program)
  data = pickle.dumps(jit)
  done = subprocess.run([sys.executable, "-c", WORKER, __file__, two_devices.address, program], input=data, capture_output=True)
  assert done.returncode == 0, done.stderr.decode()[-3000:]
  assert done.stdout.decode().strip() == repr([call(jit, inputs, i) for i in range(3, 6)])


class Trainer:
  def __init__(self):
    self.net, self.count = nn.Linear(3, 1), Tensor.zeros(1).contiguous().realize()
    self.optimizer = nn.optim.SGD(nn.state.get_parameters(self.net), lr=0.1)
    self.step = TinyJit(self.train)
  def train(self, x):
    self.count.assign(self.count + 1)
    loss = (self.net(x) - 1).square().mean().backward()
    self.optimizer.step()
    return loss.realize()


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_model_and_its_step_stay_together(protocol):
  trainer, x = Trainer(), values(4, 3)
  with Tensor.train():
    for _ in range(3): trainer.step(x)
  # The model first, and the step first.
  for whole in (trainer.__dict__, dict(reversed(trainer.__dict__.items()))):
    whole = {key: whole[key] for key in whole if key != "optimizer"}
    loaded = pickle.loads(pickle.dumps(whole, protocol=protocol))
    weight = loaded["net"].weight.tolist()
    assert weight == trainer.net.weight.tolist()
    loss = loaded["step"](values(4, 3)).item()
    assert loaded["net"].weight.tolist() != weight and loaded["count"].item() == 4 and trainer.count.item() == 3
    loaded["net"].weight.assign(Tensor.zeros(1, 3))
    loaded["net"].bias.assign(Tensor([1.0]))
    assert loaded["step"](values(4, 3)).item() == 0 != loss
    # What was loaded keeps together too.
    later = pickle.loads(pickle.dumps(loaded, protocol=protocol))
    later["step"](values(4, 3))
    assert later["count"].item() == 6 and loaded["count"].item() == 5
    copied = copy.deepcopy(loaded)
    copied["step"](values(4, 3))
    assert copied["count"].item() == 6 and loaded["count"].item() == 5


def test_contents_beside_the_pickle():
  weight = Tensor.rand(300, 300).realize()
  jit = TinyJit(lambda x: x @ weight)
  for _ in range(2): jit(Tensor.ones(300))
  beside = []
  data = pickle.dumps((weight, jit), protocol=5, buffer_callback=beside.append)
  assert len(data) < 20000 and len(beside) == 1 and beside[0].raw().nbytes == 360000
  again, loaded = pickle.loads(data, buffers=beside)
  np.testing.assert_array_equal(again.numpy(), weight.numpy())
  np.testing.assert_array_equal(loaded(Tensor.ones(300)).numpy(), jit(Tensor.ones(300)).numpy())
  again.assign(Tensor.zeros(300, 300))
  assert loaded(Tensor.ones(300)).sum().item() == 0 < jit(Tensor.ones(300)).sum().item()


def test_its_state_is_its_own_without_the_model():
  total = Tensor([1.0]).realize()
  jit = TinyJit(lambda x: total.assign(total + x) * 1)
  for _ in range(2): jit(Tensor([1.0]))
  data = pickle.dumps(jit)
  one, two = pickle.loads(data), pickle.loads(data)
  assert [f(Tensor([1.0])).item() for f in (one, one, two, jit)] == [4, 5, 4, 4] and total.item() == 4


def test_methods_and_subclasses():
  class Net:
    def __init__(self): self.w = Tensor([2.0, 3.0]).realize()
    @TinyJit
    def step(self, x): return x * self.w
  net = Net()
  for _ in range(3): net.step(Tensor([1.0, 1.0]))
  bound = TinyJit(Trainer().net.__call__)
  for _ in range(2): bound(values(2, 3))
  np.testing.assert_array_equal(pickle.loads(pickle.dumps(bound))(values(2, 3)).numpy(), bound(values(2, 3)).numpy())


class Model:
  def __init__(self): self.w = Tensor([2.0]).realize()


def test_objects_as_arguments():
  jit, model = TinyJit(lambda model, x, f: f(x * model.w)), Model()
  for i in range(3): assert jit(model, Tensor([float(i)]), Tensor.relu).item() == 2 * i
  loaded, other = pickle.loads(pickle.dumps((jit, model)))
  other.w.assign(other.w * 5)
  assert loaded(other, Tensor([3.0]), Tensor.relu).item() == 30
  with pytest.raises(JitError, match="argument 0 is"): loaded(model, Tensor([3.0]), Tensor.relu)
  with pytest.raises(JitError, match="argument 2 is"): loaded(other, Tensor([3.0]), Tensor.exp)
  other.w = Tensor([7.0])
  with pytest.raises(JitError, match="0.w is another tensor"): loaded(other, Tensor([3.0]), Tensor.relu)
  gone = TinyJit(lambda model, x: x * model.w)
  for _ in range(2): gone(model, Tensor([1.0]))
  del model
  with pytest.raises(JitError, match="argument 0 of the recording is gone"): pickle.dumps(gone)


def test_what_it_refuses():
  jit = TinyJit(lambda x, scale, y=None: x * scale)
  for _ in range(2): jit(Tensor([1.0, 2.0]), 3)
  f = pickle.loads(pickle.dumps(jit))
  assert f(Tensor([1.0, 1.0]), 3).tolist() == [3, 3]
  with pytest.raises(ValueError, match="recorded with"): f(Tensor([1.0]), 3)
  with pytest.raises(ValueError, match="recorded with"): f(Tensor([1, 2]), 3)
  with pytest.raises(JitError, match="argument 1 is 4"): f(Tensor([1.0, 1.0]), 4)
  with pytest.raises(JitError, match="the arguments with tensors are"): f(Tensor([1.0, 1.0]), 3, y=Tensor([1.0]))
  with pytest.raises(JitError, match="without its function"): f.reset()
  with pytest.raises(JitError, match="without its function"): copy.copy(f)
  with Context(JIT=0), pytest.raises(JitError, match="without its function"): f(Tensor([1.0, 1.0]), 3)
  assert f(Tensor([1.0, 1.0]), 3).tolist() == [3, 3]


def test_what_cannot_be_pickled():
  x = Tensor([1.0]).realize()
  jit = TinyJit(lambda y: y + x)
  for _ in range(2): jit(x)
  with pytest.raises(JitError, match="input 0 by another name"): pickle.dumps(jit)
  inner = TinyJit(lambda y: y + 1)
  for _ in range(2): inner(Tensor([1.0]))
  data = pickle.dumps(inner)
  for use in (lambda: pickle.dumps(inner), lambda: pickle.loads(data)):
    outer = TinyJit(lambda y: (use(), y * 2)[1])
    outer.cnt = 1
    with pytest.raises(JitError, match="is recorded"): outer(Tensor([1.0]))


def double(x): return x * 2


def test_what_is_not_recorded_is_pickled_with_its_function():
  jit = TinyJit(double)
  for calls in range(2):
    loaded = pickle.loads(pickle.dumps(jit))
    assert loaded.fxn is double and not loaded.captured
    assert [loaded(Tensor([float(i)])).item() for i in range(4)] == [0, 2, 4, 6]
    jit(Tensor([1.0]))
  calls = []

  def fails(x):
    calls.append(x)
    if len(calls) == 2: raise KeyError
    return x + 1
  jit = TinyJit(fails)
  jit(Tensor([1.0]))
  with pytest.raises(KeyError): jit(Tensor([1.0]))
  with pytest.raises((pickle.PicklingError, AttributeError), match="fails"): pickle.dumps(jit)


def test_copies_record_anew():
  layer = nn.Linear(2, 2)
  jit = TinyJit(layer.__call__)
  for _ in range(2): jit(values(1, 2))
  for other in (copy.copy(jit), copy.deepcopy({"layer": layer, "jit": jit})["jit"]): assert not other.captured and other.fxn is not None


def test_it_can_be_looked_at_without_its_classes():
  jit, _ = recorded("keywords_and_structures")

  class Anything:
    def __init__(self, *args): pass

  class Reader(pickle.Unpickler):
    def find_class(self, module, name): return Pair if name == "Pair" else type(name, (Anything,), {})
  assert type(Reader(io.BytesIO(pickle.dumps(jit))).load()).__name__ == "TinyJit"


def test_damaged_bytes():
  jit, _ = recorded("training")
  _, (_, captured, _) = jit.__reduce__()
  good = captured.data
  for at in range(0, len(good), 7):
    captured.data = good[:at] + bytes([good[at] ^ 1]) + good[at + 1:]
    with pytest.raises((ValueError, FailedPrecondition), match="recording"): TinyJit(None, captured)
  captured.data = good
  assert TinyJit(None, captured).captured
  captured.shared.pop()
  with pytest.raises(ValueError, match="are given"): TinyJit(None, captured)


def test_a_device_that_the_daemon_lacks(two_devices):
  jit, _ = recorded("several_devices")
  data = pickle.dumps(jit)
  code = "import pickle, sys, uopd\nuopd.connect(sys.argv[1])\ntry: pickle.load(sys.stdin.buffer)\nexcept uopd.Error as e: print(e)\nuopd.sync()"
  with ADaemon("--device-list=CPU:0") as one:
    done = subprocess.run([sys.executable, "-c", code, one.address], input=data, capture_output=True)
  assert b"CPU:1" in done.stdout and b"of a recording" in done.stdout and done.returncode == 0, (done.stdout, done.stderr[-2000:])


def test_shared_state_is_no_argument_of_a_loaded_recording_that_assigns_to_it():
  state = Tensor([1.0, 2.0]).realize()

  def move(x):
    state.assign(state + 1)
    return (x * 10).realize()
  f = TinyJit(move)
  for _ in range(2): f(Tensor([1.0, 1.0]))
  g, own = pickle.loads(pickle.dumps((f, state)))
  with pytest.raises(JitError, match="assigns to by another name"): g(own)
  assert g(own.clone()).tolist() == [30, 40] and own.tolist() == [4, 5]


def test_two_recordings_that_share_state_are_in_one_pickle():
  base = Tensor.zeros(3).contiguous().realize()
  add, read = TinyJit(lambda x: base.assign(base + x).realize()), TinyJit(lambda x: (base * x).realize())
  for _ in range(3):
    add(Tensor([1.0, 2.0, 3.0]))
    read(Tensor([1.0, 1.0, 1.0]))
  for all_of_it in ((add, read, base), (read, add, base), (base, add, read)):
    loaded = pickle.loads(pickle.dumps({"add": add, "read": read, "order": all_of_it, "base": base}))
    loaded["add"](Tensor([10.0, 10.0, 10.0]))
    assert loaded["base"].tolist() == [13, 16, 19] and loaded["read"](Tensor([2.0, 2.0, 2.0])).tolist() == [26, 32, 38]
    assert base.tolist() == [3, 6, 9]
