# SPDX-License-Identifier: MIT
"""TinyJit.repeat: a loop on the daemon gives what so many replays give, bit for bit, and ends where it should."""
import itertools

import numpy as np
import pytest
import uopd
from a_daemon import ADaemon
from slow_link import SlowLink
from uopd import Tensor, TinyJit, Variable, dtypes, errors
from uopd.errors import JitError


def machine():
  """A function with state, an input, a variable and two outputs; and the state."""
  state = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4)).realize()
  trace = Tensor.zeros(40, 4).contiguous().realize()

  @TinyJit
  def step(x, at):
    new = (state * 0.9 + x.reshape(1, 4)).sin()
    trace[at:at + 1].assign(new[:1])
    state.assign(new)
    total, over = new.sum(), (new[0, 0] > 0.5).cast(dtypes.int32)
    Tensor.realize(total, over, state, trace)
    return total, over
  return step, state, trace


def replayed(x, start, by, steps, stops):
  """The outputs of replays one by one, and the state behind them."""
  step, state, trace = machine()
  at = Variable("at", 0, 39)
  for i in range(2): step(Tensor(x), at.bind(i))
  out = []
  for i in range(steps):
    total, over = step(Tensor(x), at.bind(start + by * i))
    out.append((total.numpy(), over.numpy()))
    if stops and out[-1][1]: break
  return out, state.numpy(), trace.numpy()


@pytest.mark.parametrize("start,by,steps,stops", [(2, 1, 20, False), (39, -3, 13, False), (5, 0, 7, False), (2, 1, 38, True), (2, 1, 1, True)])
def test_a_loop_is_as_many_replays(start, by, steps, stops):
  x = np.array([0.3, -1, 2, 0.05], np.float32)
  want, want_state, want_trace = replayed(x, start, by, steps, stops)
  step, state, trace = machine()
  at = Variable("at", 0, 39)
  for i in range(2): step(Tensor(x), at.bind(i))
  before = uopd.stats()
  found = list(step.repeat(steps, Tensor(x), at.bind(start), advance={"at": by}, until=1 if stops else None))
  after = uopd.stats()
  assert len(found) == len(want) and (not stops or steps == 1 or len(want) < steps)
  for (a, b), (c, d) in zip(found, want):
    assert a.tobytes() == c.tobytes() and b.tobytes() == d.tobytes()
  assert state.numpy().tobytes() == want_state.tobytes() and trace.numpy().tobytes() == want_trace.tobytes()
  assert after["graphs_sent"] == before["graphs_sent"]
  # Replays and loops go on with what the loop left.
  total, _ = step(Tensor(x), at.bind(0))
  assert np.isfinite(total.item()) and not np.array_equal(state.numpy(), want_state)


def test_an_input_that_the_function_assigns_is_the_state_of_the_loop():
  @TinyJit
  def grow(x):
    x.assign(x * 2)
    y = x.sum()
    Tensor.realize(x, y)
    return y
  for _ in range(2): grow(Tensor([1.0, 2.0]).contiguous().realize())
  x = Tensor([1.0, 2.0]).contiguous().realize()
  assert [float(y) for y, in grow.repeat(5, x)] == [6, 12, 24, 48, 96]
  assert x.tolist() == [32, 64]


def test_a_loop_behind_one_that_was_stopped_is_not_run():
  n, over = Tensor([0]).contiguous().realize(), Tensor([0]).contiguous().realize()
  limit = Tensor([5]).contiguous().realize()

  @TinyJit
  def count():
    n.assign(n + 1)
    over.assign((n >= limit).cast(dtypes.int32))
    y = n + 0
    Tensor.realize(n, over, y)
    return y, over
  for _ in range(2): count()
  loops = [count.repeat(2, until=1, unless_over=True) for _ in range(4)]
  assert [[int(y[0]) for y, _ in loop] for loop in loops] == [[3, 4], [5], [], []]
  assert n.item() == 5 and over.item() == 1
  assert [int(y[0]) for y, _ in count.repeat(3, until=1)] == [6]  # without the condition one step runs
  limit.assign(Tensor([100])).realize()
  assert [int(y[0]) for y, _ in count.repeat(3, until=1)] == [7, 8, 9]
  assert [int(y[0]) for y, _ in count.repeat(2, until=1, unless_over=True)] == [10, 11]


def test_steps_come_while_the_loop_runs():
  """The first step is there long before the last one."""
  a = Tensor(np.eye(400, dtype=np.float32)).contiguous().realize()

  @TinyJit
  def slow():
    a.assign(a @ a)
    y = a[0, 0] + 0
    Tensor.realize(a, y)
    return y
  for _ in range(2): slow()
  loop = slow.repeat(300)
  next(loop)
  assert len(list(loop)) == 299


def test_what_cannot_be_a_loop_is_refused():
  x = Tensor([1.0]).contiguous().realize()
  at = Variable("at", 0, 9)

  @TinyJit
  def one(y, at):
    x.assign(x + y + at)
    z = x + 0
    Tensor.realize(x, z)
    return z
  with pytest.raises(JitError, match="call it twice"): one.repeat(2, Tensor([1.0]), at.bind(1))
  for _ in range(2): one(Tensor([1.0]), at.bind(1))
  before = x.item()
  for steps in (0, 1025):
    with pytest.raises(uopd.Error, match=f"{steps} steps"): one.repeat(steps, Tensor([1.0]), at.bind(1))
  with pytest.raises(uopd.Error, match="no variable where"): one.repeat(2, Tensor([1.0]), at.bind(1), advance={"where": 1})
  with pytest.raises(uopd.Error, match="at.* outside 0 to 9"): list(one.repeat(4, Tensor([1.0]), at.bind(5), advance={"at": 2}))
  with pytest.raises(uopd.Error, match="leaves 0 to 9"): one.repeat(1000, Tensor([1.0]), at.bind(0), advance={"at": -(1 << 62)})
  with pytest.raises(uopd.Error, match="output 3"): one.repeat(2, Tensor([1.0]), at.bind(1), until=3)
  with pytest.raises(uopd.Error, match="output 0, which is a float"): one.repeat(2, Tensor([1.0]), at.bind(1), until=0)
  with pytest.raises(uopd.Error, match="without `until`"): one.repeat(2, Tensor([1.0]), at.bind(1), unless_over=True)
  with pytest.raises(JitError): one.repeat(2, Tensor([1.0, 2.0]), at.bind(1))
  assert x.item() == before

  @TinyJit
  def several():
    x.assign(x + 1).realize()
    return (x * 2).realize()
  for _ in range(2): several()
  with pytest.raises(JitError, match="2: realise everything together"): several.repeat(2)

  @TinyJit
  def random(): return Tensor.rand(3).realize()
  for _ in range(2): random()
  with pytest.raises(JitError, match="random numbers"): random.repeat(2)

  @TinyJit
  def large(y): return (y * 2).realize()
  for _ in range(2): large(Tensor.zeros(20000).contiguous())
  with pytest.raises(JitError, match="80000 bytes"): large.repeat(2, Tensor.zeros(20000).contiguous())


def test_a_cancelled_loop_ends_behind_the_steps_that_came():
  """The loop would take many times as long as the test."""
  x, a = Tensor([1.0]).contiguous().realize(), Tensor(np.eye(1200, dtype=np.float32)).contiguous().realize()

  @TinyJit
  def one():
    x.assign(x + 1)
    a.assign(a @ a)
    y = x + 0
    Tensor.realize(x, y, a)
    return y
  for _ in range(2): one()
  loop = one.repeat(1024)
  assert [float(y[0]) for y, in itertools.islice(loop, 3)] == [4, 5, 6]
  uopd.client().cancel()
  came = 3
  with pytest.raises(errors.Cancelled):
    for y, in loop:
      came += 1
      assert float(y[0]) == 3 + came
  assert came < 1024
  # The error was told once. What the step that was cut off wrote is lost until it is written.
  x.assign(Tensor([10.0])).realize()
  a.assign(Tensor(np.eye(1200, dtype=np.float32))).realize()
  assert [float(y[0]) for y, in one.repeat(2)] == [11, 12]


class CutLink(SlowLink):
  """Breaks the connection each time the daemon has sent so many bytes, and at most a piece more."""
  piece = 1000

  def __init__(self, target, every):
    super().__init__(target, 0)
    self.every, self.left, self.cuts = every, every, 0

  def _forwarded(self, data, to_daemon):
    if to_daemon: return
    self.left -= len(data)
    if self.left > 0: return
    self.left, self.cuts = self.every, self.cuts + 1
    raise OSError("cut")


def test_a_connection_that_breaks_repeats_no_step():
  """The client asks for the steps whose answers it does not have; those that ran are not run again."""
  before = uopd.runtime._default
  with ADaemon("--listen=127.0.0.1:0") as daemon:
    link = CutLink(daemon.address, 6000)
    try:
      with link as address:
        uopd.connect(address)
        n, over, limit = (Tensor([v]).contiguous().realize() for v in (0, 0, 950))

        @TinyJit
        def count():
          n.assign(n + 1)
          over.assign((n >= limit).cast(dtypes.int32))
          y = n + 0
          Tensor.realize(n, over, y)
          return y, over
        for _ in range(2): count()
        loops = [count.repeat(300, until=1, unless_over=True) for _ in range(5)]
        assert [[int(y[0]) for y, _ in loop] for loop in loops] == [list(range(3, 303)), list(range(303, 603)), list(range(603, 903)), list(range(903, 951)), []]
        assert n.item() == 950 and link.cuts > 3
    finally:
      uopd.runtime._default = before
