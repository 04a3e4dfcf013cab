# SPDX-License-Identifier: MIT
"""Tuning operations: of tensors, graphs and functions under TinyJit; who watches them, who ends them, and what survives what."""
import os
import pathlib
import signal
import subprocess
import threading
import time

import numpy as np
import pytest
import uopd
from a_daemon import ADaemon
from uopd import Context, Tensor, TinyJit, errors, tuning

MATMUL = pathlib.Path(__file__).resolve().parents[2] / "docs/examples/matmul.uop"
MEASURED = 'uopd_tune_candidates_total{outcome="measured"}'


@pytest.fixture(scope="module")
def daemon():
  with ADaemon("--tune-candidates=12") as d: yield d


@pytest.fixture(scope="module")
def slow_daemon():
  """One whose searches do not end in the time of a test."""
  with ADaemon("--tune-candidates=100000") as d: yield d


@pytest.fixture(autouse=True)
def connection_of_its_own():
  before = uopd.runtime._default
  yield
  uopd.runtime._default = before


def many_kernels(count=12):
  x = Tensor.ones(count + 28, 2 * count + 16).contiguous().realize()
  return [(x[:n + 3, :40] @ x[:40, :2 * n + 1]).exp().sum(1) for n in range(count)]


def endless(**options): return tuning.start(many_kernels(60), beam=64, **options)


def idle(daemon):
  """True once nothing waits for tuning."""
  limit = time.monotonic() + 60
  while daemon.metrics().get("uopd_tune_queue", 0) and time.monotonic() < limit: time.sleep(0.05)
  return daemon.metrics().get("uopd_tune_queue", 0) == 0


def test_tensors_are_tuned_and_requests_use_the_winners(daemon):
  uopd.connect(daemon.address)
  a = np.random.default_rng(1).random((30, 20), np.float32)
  x = Tensor(a).realize()
  y = (x @ x.T).sum(1)
  operation = tuning.start(y, beam=2, budget=100, title="a product")
  seen = list(operation.watch())
  last = seen[-1]
  assert last.tune.state == "done" and last.tune.over and last.tune.title == "a product" and last.tune.budget_ms == 100_000
  assert last.tune.beam == 2 and len(last.tune.graph) == 64 and last.tune.ended_unix_us > last.tune.created_unix_us > 0
  assert last.tune.kernels == len(last.kernels) == last.tune.kernels_tuned >= 1
  for k in last.kernels:
    assert k.state == "tuned" and 2 <= k.measured + k.failed <= 12 and k.pruned >= 1 and k.duplicates >= 0 and k.launches == 1
    assert 0 < k.best_seconds <= k.heuristic_seconds and k.speedup >= 1
    assert 2 <= len(k.points) <= k.measured and all(p.seconds > 0 for p in k.points)
    numbers = [p.candidate for p in k.points]
    assert numbers == sorted(set(numbers)) and numbers[0] >= 1
    best = k.best_points()
    assert best[0] == k.points[0] and best[-1].seconds == min(seconds for _, seconds in k.points)
    assert all(a.candidate < b.candidate and a.seconds > b.seconds for a, b in zip(best, best[1:]))
  assert last.tune.pruned == sum(k.pruned for k in last.kernels)
  assert {n for p in seen for n in p.changed} == {k.number for k in last.kernels}
  for before, after in zip(seen, seen[1:]):  # points are added, and none gets lost on the way
    for k, later in zip(before.kernels, after.kernels): assert later.points[:len(k.points)] == k.points
  assert operation.progress().kernels == last.kernels
  assert operation.wait(5).tune == last.tune == tuning.operations()[0] == operation.progress().tune
  # A request with this beam has nothing to measure.
  measured = daemon.metrics()[MEASURED]
  with Context(BEAM=2): np.testing.assert_allclose(y.numpy(), (a @ a.T).sum(1), rtol=1e-4)
  assert idle(daemon) and daemon.metrics()[MEASURED] == measured
  # The same graph once more is found; `again` tunes it anew.
  z = (x @ x.T).sum(1)
  assert tuning.start(z, beam=2).wait().tune.kernels_found == last.tune.kernels
  assert tuning.start(z, beam=2, again=True, candidates=4).wait().tune.candidates > 0


def test_the_beam_and_the_title_come_from_the_settings(daemon):
  uopd.connect(daemon.address)
  x = Tensor.ones(7, 6).contiguous().realize()
  with Context(BEAM=3): operation = tuning.start([x.sum(0), x.max(1)], candidates=6)
  assert operation.wait().tune.beam == 3
  tune = tuning.start(MATMUL, beam=2).wait().tune
  assert tune.title == "matmul.uop" and tune.state == "done" and tune.kernels == 1
  assert tuning.start(MATMUL.read_text(), beam=2).wait().tune.graph == tune.graph


def test_a_function_is_tuned_as_its_replays_send_it(daemon):
  uopd.connect(daemon.address)
  weights = Tensor.ones(16, 8).contiguous().realize()

  def two_requests(x):
    hidden = (x @ weights).relu().realize()
    return (hidden.sum(1) * 2).realize()
  step = TinyJit(two_requests)
  with pytest.raises(errors.FailedPrecondition, match="recorded nothing"): tuning.start_jit(step, beam=2)
  x = np.random.default_rng(2).random((5, 16), np.float32)
  with Context(BEAM=2):
    for _ in range(2): step(Tensor(x))
  operations = tuning.start_jit(step, candidates=40)
  assert len(operations) == 2
  for operation in operations:
    tune = operation.wait().tune
    assert tune.state == "done" and tune.beam == 2 and tune.title == "two_requests" and tune.kernels_failed == 0
  assert idle(daemon)
  measured = daemon.metrics()[MEASURED]
  for i in range(3): np.testing.assert_allclose(step(Tensor(x * i)).numpy(), 2 * i * x.sum(1) * 8, rtol=1e-4)
  assert idle(daemon) and daemon.metrics()[MEASURED] == measured


def test_clients_come_and_go_and_one_cancels(slow_daemon):
  uopd.connect(slow_daemon.address)
  operation = endless(request_id="mine")
  assert endless(request_id="mine").id == operation.id
  for progress in operation.watch():
    if any(k.measured >= 2 for k in progress.kernels): break
  assert not progress.tune.over and progress.tune.kernels == len(progress.kernels) >= 12
  with pytest.raises(TimeoutError, match="not over"): operation.wait(0.3)
  uopd.connect(slow_daemon.address)  # another client
  other = tuning.attach(operation.id[:10])
  assert other.id == operation.id and [t.id for t in tuning.operations() if not t.over] == [operation.id]
  last = []
  watcher = threading.Thread(target=lambda: last.append(other.wait(60)))
  watcher.start()
  time.sleep(0.3)
  assert operation.cancel().state == "cancelled"
  watcher.join(60)
  assert last[0].tune.state == "cancelled" and last[0].tune.candidates >= 2
  with pytest.raises(errors.FailedPrecondition, match="cancelled already"): operation.cancel()
  resumed = operation.resume()
  assert resumed.id == operation.id and not resumed.over
  operation.cancel()
  limit = time.monotonic() + 10
  while slow_daemon.metrics()["uopd_tune_watchers"] and time.monotonic() < limit: time.sleep(0.05)
  assert slow_daemon.metrics()["uopd_tune_watchers"] == 0


def test_ctrl_c_ends_the_watch_and_not_the_operation(slow_daemon):
  uopd.connect(slow_daemon.address)
  operation = endless()
  timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
  timer.start()
  begin = time.monotonic()
  with pytest.raises(KeyboardInterrupt):
    for _ in operation.watch(): pass
  assert time.monotonic() - begin < 5
  assert not operation.progress().tune.over
  assert (Tensor([1]) + 1).tolist() == [2]
  operation.cancel()


def test_a_watch_goes_on_after_fork(slow_daemon):
  uopd.connect(slow_daemon.address)
  operation = endless()
  watch = operation.watch()
  assert not next(watch).tune.over
  for _ in range(3):
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
      try: next(watch); text = "no error"
      except uopd.Error as e: text = str(e)
      os.write(write, text.encode())
      os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0 and "parent process" in os.read(read, 1000).decode()
    os.close(read), os.close(write)
    assert next(watch).tune.id == operation.id
  operation.cancel()
  assert [p.tune.state for p in watch][-1] == "cancelled"


def test_a_watch_goes_on_when_the_daemon_is_back():
  with ADaemon("--tune-candidates=100000") as d:
    uopd.connect(d.address)
    operation = endless()
    watch = operation.watch()
    next(watch)
    d.process.kill()
    d.process.wait(60)
    os.unlink(d.folder.name + "/ready.json")
    d.process = subprocess.Popen(d.process.args)
    progress = next(p for p in watch if f"pid {d.process.pid} " in p.tune.host)
    assert progress.tune.id == operation.id and not progress.tune.over and progress.tune.kernels == len(progress.kernels)
    uopd.connect(d.address)
    tuning.attach(operation.id).cancel()
    assert [p.tune.state for p in watch][-1] == "cancelled"


def test_what_is_wrong_raises_by_its_name(daemon):
  uopd.connect(daemon.address)
  x = Tensor.ones(3, 4).contiguous().realize()
  with pytest.raises(errors.InvalidArgument, match="beam"): tuning.start(x + 1)  # neither here nor in the settings
  with pytest.raises(errors.InvalidArgument, match="nothing to compute"): tuning.start(x, beam=2)
  with pytest.raises(errors.InvalidArgument, match="title"): tuning.start(x + 1, beam=2, title="t" * 257)
  with pytest.raises(errors.InvalidArgument, match="reading the text"): tuning.start("no graph", beam=2)
  with pytest.raises(errors.InvalidArgument): tuning.start(b"\xff" * 100, beam=2)
  with pytest.raises(ValueError, match="beam"): tuning.start(x + 1, beam=65)
  for budget in (0, -1, float("nan"), float("inf")):
    with pytest.raises(ValueError, match="budget"): tuning.start(x + 1, beam=2, budget=budget)
  with pytest.raises(ValueError, match="candidates"): tuning.start(x + 1, beam=2, candidates=0)
  with pytest.raises(TypeError, match="start_jit"): tuning.start(TinyJit(lambda: None), beam=2)
  with pytest.raises(TypeError, match="int"): tuning.start([x + 1, 2], beam=2)
  for call in (tuning.attach, lambda i: tuning.Operation(i).cancel(), lambda i: tuning.Operation(i).wait()):
    with pytest.raises(LookupError, match="no tuning operation"): call("f00f00")
  with pytest.raises(errors.InvalidArgument, match="id"): tuning.attach("")
  operation = tuning.start(x + 1, beam=2)
  operation.wait()
  with pytest.raises(errors.FailedPrecondition, match="left no kernel out"): operation.resume(candidates=5)
  uopd.close()
  with pytest.raises(errors.FailedPrecondition, match="closed"): operation.progress()
