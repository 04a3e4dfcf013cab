# SPDX-License-Identifier: MIT
"""Constants by content: what a second client of a model sends, a daemon that starts again, and tensors that lie in constants."""
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import uopd
from a_daemon import ADaemon
from counting_link import CountingLink
from uopd import Tensor, TinyJit, dtypes, errors
from uopd.disk import constants_of

N = 100_000


@pytest.fixture(autouse=True)
def connection_of_its_own():
  before = uopd.runtime._default
  yield
  uopd.runtime._default = before


@pytest.fixture
def daemon():
  with ADaemon("--listen=127.0.0.1:0") as d: yield d


def eventually(holds):
  limit = time.monotonic() + 120
  while not holds():
    assert time.monotonic() < limit
    time.sleep(0.02)


def on_disk(d, count): eventually(lambda: d.metrics().get('uopd_contents{tier="disk"}', 0) >= count)


def in_file(tmp_path, values, name="values"):
  path = tmp_path / name
  path.write_bytes(values.tobytes())
  return Tensor(path).bitcast(dtypes.float32)


def numbers(seed): return np.random.default_rng(seed).standard_normal(N).astype(np.float32)


def test_what_the_daemon_has_is_not_sent_again(daemon, tmp_path):
  values = numbers(1)
  for expected in (values.nbytes, 0):
    with CountingLink(daemon.address) as link:
      uopd.connect(link.address)
      x, = constants_of([in_file(tmp_path, values)])
      np.testing.assert_array_equal((x * 2).numpy(), values * 2)
      assert expected <= link.sent < expected + 20_000
      uopd.close()


def test_a_restarted_daemon_has_them_on_disk(daemon, tmp_path):
  values = numbers(2)
  uopd.connect(daemon.address)
  constants_of([in_file(tmp_path, values)])
  on_disk(daemon, 1)
  uopd.close()
  daemon.restart(signal.SIGKILL)
  with CountingLink(daemon.address) as link:
    uopd.connect(link.address)
    x, = constants_of([in_file(tmp_path, values)])
    np.testing.assert_array_equal(x.numpy(), values)
    assert link.sent < 20_000
    assert daemon.metrics()['uopd_content_opens_total{outcome="disk"}'] == 1
    uopd.close()


def test_a_constant_can_be_assigned_and_others_keep_it(daemon, tmp_path):
  values = numbers(3)
  uopd.connect(daemon.address)
  x, = constants_of([in_file(tmp_path, values)])
  y, = constants_of([in_file(tmp_path, values)])
  view, double = x[:10], (x * 2)
  x.assign(x + 1).realize()
  np.testing.assert_array_equal(x.numpy(), values + 1)
  np.testing.assert_array_equal(view.numpy(), values[:10])  # as of any tensor: what was made before has the old contents
  np.testing.assert_array_equal(double.numpy(), values * 2)
  np.testing.assert_array_equal(y.numpy(), values)
  x.assign(x + 1).realize()  # in memory of its own now
  np.testing.assert_array_equal(x.numpy(), values + 1 + 1)
  y[5:7] = Tensor([1.0, 2.0])
  values[5:7] = 1, 2
  np.testing.assert_array_equal(y.numpy(), values)
  z, = constants_of([in_file(tmp_path, numbers(3))])
  np.testing.assert_array_equal(z.numpy(), numbers(3))


def test_a_recorded_function_reads_constants_and_cannot_assign_them(daemon, tmp_path):
  values = numbers(4)
  uopd.connect(daemon.address)
  w, = constants_of([in_file(tmp_path, values)])
  reads = TinyJit(lambda x: (x * w).realize())
  for i in range(4): np.testing.assert_array_equal(reads(Tensor(numbers(i)).realize()).numpy(), numbers(i) * values)
  @TinyJit
  def writes(x): return w.assign(w + x).realize()
  with pytest.raises(errors.Error, match="a constant cannot be the state of a recorded function"):
    for i in range(4): writes(Tensor(numbers(i)).realize())


def test_parts_of_files_and_tensors_of_all_kinds(daemon, tmp_path, monkeypatch):
  monkeypatch.setattr("uopd.disk.CONSTANTS_AT_ONCE", 3 * N)
  uopd.connect(daemon.address)
  values = numbers(5)
  whole = in_file(tmp_path, values)
  truth = tmp_path / "truth"
  truth.write_bytes(bytes([0, 1, 2, 255]))
  parts = [whole[:10], whole[10:30].reshape(4, 5), Tensor([1.0, 2.0]), Tensor(truth).bitcast(dtypes.bool), whole[:0], whole]
  made = constants_of(parts)
  for part, t in zip(parts, made):
    assert (t.shape, t.dtype) == (part.shape, part.dtype)
    np.testing.assert_array_equal(t.numpy(), part.numpy())


SECOND = """
import sys, uopd
from uopd.llm.model import Model
uopd.connect(sys.argv[1])
print(next(Model.from_gguf(sys.argv[2])[0].generate([5, 7, 11], 1)))
"""


def first_token(address, path):
  return subprocess.run([sys.executable, "-c", SECOND, address, path], check=True, capture_output=True, text=True, timeout=600, env=os.environ).stdout


def test_the_second_client_of_a_model_sends_little_before_its_first_token(daemon, tmp_path):
  pytest.importorskip("gguf")
  from llm_files import write_model
  path = tmp_path / "model.gguf"
  write_model(path, "llama")
  size = path.stat().st_size
  tokens = []
  for low, high in ((size // 2, 2 * size), (1, 100_000)):
    with CountingLink(daemon.address) as link:
      tokens.append(first_token(link.address, str(path)))
      assert low < link.sent < high
  assert size > 10 * 100_000 and tokens[0] == tokens[1]
