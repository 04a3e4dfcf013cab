# SPDX-License-Identifier: MIT
"""Long waits: what is shown of them, and Ctrl-C, which ends them here and on the daemon."""
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import uopd
from a_daemon import ADaemon
from a_device import of_device
from slow_link import SlowLink
from uopd import Context, Tensor, TinyJit, progress


@pytest.fixture(scope="module")
def daemon():
  with ADaemon("--listen=127.0.0.1:0") as d: yield d


@pytest.fixture(autouse=True)
def connection_of_its_own(daemon):
  before = uopd.runtime._default
  uopd.connect(daemon.address)
  yield
  uopd.runtime._default = before


def compiles():
  """Many kernels, none of which was compiled before."""
  total, salt = Tensor.zeros(()), time.time()
  for i in range(120):
    x = Tensor.ones(7 + i, 50 + i).contiguous()
    total = total + (x.exp().sum(0) * salt + (x @ x.T).sin().max(1).sum()).max().contiguous()
  with Context(CACHELEVEL=0): return total.realize().item()


def runs():
  x = Tensor.rand(1000, 1000)
  for _ in range(400): x = (x @ x).sin().contiguous()
  return x.numpy()


step = TinyJit(lambda x: (x @ x).sin().contiguous())


def side(): return of_device(1500, INTERP=64)


def replays():
  x = Tensor.rand(side(), side()).realize()
  for _ in range(100_000): step(x)


def uploads():
  x = Tensor(np.ones(300_000_000, np.uint8))
  return x[5:6].item()


def interrupted(work, after=1.0):
  """Seconds from Ctrl-C to its exception. A fast machine may end `work` sooner than that: `work` begins again."""
  sent, limit = [], time.monotonic() + 60
  def interrupt():
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
  timer = threading.Timer(after, interrupt)
  timer.start()
  try:
    with pytest.raises(KeyboardInterrupt):
      while time.monotonic() < limit: work()
  finally: timer.cancel()
  return time.monotonic() - sent[0]


@pytest.mark.parametrize("work", [compiles, runs, replays])
def test_ctrl_c_ends_it_here_and_on_the_daemon(daemon, work):
  before = daemon.metrics()["uopd_rpc_in_flight"]
  assert interrupted(work) < 1.5
  begin = time.monotonic()
  assert (Tensor([1]) + 1).tolist() == [2]
  assert time.monotonic() - begin < 1.5  # nothing is ahead of it
  assert uopd.client().progress()["calls"] == 0
  limit = time.monotonic() + 5
  while daemon.metrics()["uopd_rpc_in_flight"] > before + 1 and time.monotonic() < limit: time.sleep(0.05)
  assert daemon.metrics()["uopd_rpc_in_flight"] <= before + 1  # the stream of this connection


def test_a_function_is_replayed_after_ctrl_c():
  step.reset()
  assert interrupted(replays) < 1.5
  x = np.random.default_rng(1).random((side(), side()), np.float32)
  np.testing.assert_allclose(step(Tensor(x)).numpy(), np.sin(x @ x), atol=2e-3)


def test_ctrl_c_ends_an_upload(daemon):
  with SlowLink(daemon.address, 20e6) as address:
    uopd.connect(address)
    begin = time.monotonic()
    assert interrupted(uploads) < 3  # 300 MB would take 15 s
    assert time.monotonic() - begin < 6
    assert (Tensor([1]) + 1).tolist() == [2]


def test_ctrl_c_in_a_handler_of_its_own_kind(daemon):
  """A handler may use tensors; what is waited for goes on."""
  seen, before = [], signal.signal(signal.SIGINT, lambda *_: seen.append((Tensor([1]) + 1).tolist()))
  n = of_device(800, INTERP=32)
  try:
    limit = time.monotonic() + 60
    timer = threading.Timer(0.4, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    while not seen and time.monotonic() < limit:  # the signal meets one of these waits, however fast the machine is
      x = Tensor.rand(n, n)
      for _ in range(100): x = (x @ x).sin().contiguous()
      assert x.numpy().shape == (n, n)
    timer.join()
    assert seen == [[2]]
  finally: signal.signal(signal.SIGINT, before)


def shown(code, address, **environment):
  r = subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
                      f"import uopd, test_waiting as t\nuopd.connect({address!r})\n{code}"],
                     capture_output=True, timeout=120, env={**os.environ, **environment})
  assert r.returncode == 0, r.stderr
  return r.stderr.decode().split("\r")


def test_compiles_are_shown_by_kernels(daemon):
  lines = shown("t.compiles()", daemon.address, UOPD_PROGRESS="1")
  counts = [tuple(map(int, s.split("] ")[1].split(" kernels")[0].split(" of "))) for s in lines if s.startswith("uopd: compiling [")]
  assert counts and counts == sorted(counts) and counts[-1][0] > counts[0][0] and counts[-1][1] > 100, lines
  assert lines[-1] == "" and not lines[-2].strip()  # the line is taken away


def test_uploads_are_shown_by_bytes(daemon):
  with SlowLink(daemon.address, 60e6) as address:
    lines = shown("t.uopd.Tensor(t.np.ones(100_000_000, 'uint8'))[5:6].item()", address, UOPD_PROGRESS="1")
  parts = [float(s.split("] ")[1].split(" MB")[0]) for s in lines if s.startswith("uopd: uploading [")]
  assert len(parts) > 2 and parts == sorted(parts) and parts[-1] > parts[0], lines


def test_nothing_is_shown_where_nobody_looks(daemon):
  assert shown("t.compiles()", daemon.address) == [""]
  assert shown("with uopd.Context(PROGRESS=0): t.compiles()", daemon.address, UOPD_PROGRESS="1") == [""]
  assert shown("(t.Tensor([1]) + 1).tolist()", daemon.address, UOPD_PROGRESS="1") == [""]  # too quick


def test_tuning_is_told():
  with Context(BEAM=2, IGNORE_BEAM_CACHE=1):
    (Tensor.rand(400, 300) @ Tensor.rand(300, 200)).sum(0).numpy()
    assert uopd.client().progress()["kernels_to_tune"] >= 1
  assert progress.line({"calls": 1, "kernels_to_tune": 3}, 1.0) == "uopd: running 1 call, tuning: 3 kernels left, 1.0 s"


def test_a_read_of_what_was_computed_after_a_request_that_failed():
  """The request was to write what the next one reads. Whoever reads the result is told, even if the answer had not come when it was sent."""
  for _ in range(5):
    x = Tensor(np.arange(6.0, dtype=np.float32)).realize()
    x.assign(x * 10 + Tensor.rand(2**30, 2**12).contiguous()[0, :6])  # 16 TiB
    with pytest.raises(uopd.errors.ResourceExhausted):
      x.realize()
      (x + 1).sum().item()
    assert (Tensor([1.0]) + 1).item() == 2  # it is told once
