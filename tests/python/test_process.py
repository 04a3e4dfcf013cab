# SPDX-License-Identifier: MIT
"""The package as part of a process: its own daemon, fork(), threads, Ctrl-C, pickling, import."""
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import uopd
from uopd import Tensor, dtypes


def python(code, **kwargs):
  return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, **kwargs)


def test_import_connects_to_nothing_and_leaves_numpy_out():
  r = python("import sys, uopd; print('numpy' in sys.modules, uopd.runtime._default)", env={**os.environ, "UOPD_DAEMON": "/nowhere"})
  assert r.stdout == "False None\n", r.stderr


def test_without_daemon_says_how_to_get_one():
  environment = {k: v for k, v in os.environ.items() if k not in ("UOPD_DAEMON", "UOPD_ADDRESS")} | {"PATH": "/nowhere"}
  r = python("from uopd import Tensor; Tensor([1])", env=environment)
  assert r.returncode == 1 and "UOPD_DAEMON" in r.stderr


def test_a_daemon_that_is_no_program_is_named(tmp_path):
  environment = {k: v for k, v in os.environ.items() if k != "UOPD_ADDRESS"} | {"UOPD_DAEMON": "/nowhere/uopd", "TMPDIR": str(tmp_path)}
  r = python("from uopd import Tensor; Tensor([1])", env=environment)
  assert "ConnectionError: the daemon /nowhere/uopd cannot be started" in r.stderr and "getting_started" in r.stderr, r.stderr
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("end", ["", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"])
def test_own_daemon_ends_with_the_process(end):
  environment = {k: v for k, v in os.environ.items() if k != "UOPD_ADDRESS"}
  r = python(f"from uopd import Tensor, daemon; Tensor([1]).numpy(); print(daemon._own._process.pid, flush=True)\n{end}", env=environment)
  pid = int(r.stdout)
  limit = time.monotonic() + 10
  while time.monotonic() < limit and os.path.exists(f"/proc/{pid}") and open(f"/proc/{pid}/stat").read().split()[2] != "Z": time.sleep(0.02)
  assert not os.path.exists(f"/proc/{pid}") or open(f"/proc/{pid}/stat").read().split()[2] == "Z"


def test_tensors_of_the_parent_are_refused_after_fork():
  x = Tensor([1.0, 2.0]).realize()
  read, write = os.pipe()
  if os.fork() == 0:
    try: x.numpy(); text = "no error"
    except uopd.Error as e: text = str(e)
    os.write(write, text.encode())
    os._exit(0)
  os.close(write)
  assert "parent process" in os.read(read, 1000).decode()
  os.wait()
  assert x.tolist() == [1.0, 2.0]


def test_fork_before_the_first_tensor_and_after_it():
  r = python("""
import os
from uopd import Tensor, Error
if os.fork() == 0:
  print("child", (Tensor([5]) + 1).tolist(), flush=True)
  os._exit(0)
os.wait()
x = Tensor([1.0]).realize()
x.numpy()
if os.fork() == 0:
  print("second child", (Tensor([5]) + 2).tolist(), flush=True)
  if os.fork() == 0:
    print("grandchild", (Tensor([5]) + 3).tolist(), flush=True)
    os._exit(0)
  os.wait()
  print("second child", (Tensor([5]) + 4).tolist(), flush=True)
  os._exit(0)
os.wait()
print("parent", (x + 1).tolist())
""")
  assert r.stdout == "child [6]\nsecond child [7]\ngrandchild [8]\nsecond child [9]\nparent [2.0]\n", r.stderr


def test_fork_while_calls_run_and_threads_wait():
  r = python("""
import os, threading
import numpy as np
from uopd import Tensor
x = Tensor.rand(300, 300)
results = []
def work():
  for i in range(20): results.append(((x * i) @ x).sum().item())
threads = [threading.Thread(target=work) for _ in range(3)]
for t in threads: t.start()
ends = []
for k in range(12):
  y = Tensor(np.ones((1000, 1000), np.float32)) + k  # an upload on its way
  if (pid := os.fork()) == 0:
    os._exit(0 if (Tensor([k]) + 1).item() == k + 1 else 1)
  ends.append(os.waitpid(pid, 0)[1])
  assert y.sum().item() == (k + 1) * 1e6
for t in threads: t.join()
print(ends == [0] * 12, len(results), len(set(results)))
""")
  assert r.stdout == "True 60 20\n", (r.stdout, r.stderr[-3000:])


def test_parent_and_child_wait_for_answers_at_the_same_time():
  r = python("""
import os
from uopd import Tensor
def work(k): return all((Tensor([i + k]) + 1).item() == i + k + 1 for i in range(1500))
assert work(0)
pid = os.fork()
ok = work(pid == 0)
if pid == 0: os._exit(0 if ok else 1)
print(ok, os.waitpid(pid, 0)[1])
""")
  assert r.stdout == "True 0\n", (r.stdout, r.stderr[-3000:])


def test_threads_share_a_connection():
  wrong = []

  def work(k):
    for i in range(30):
      if (Tensor(np.full(5, k)) * i + 1).tolist() != [k * i + 1] * 5: wrong.append((k, i))
  threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
  for t in threads: t.start()
  for t in threads: t.join(60)
  assert not wrong and not any(t.is_alive() for t in threads)


def test_ctrl_c_ends_a_wait():
  x = Tensor.rand(2000, 2000)
  for _ in range(600): x = (x @ x).sin().contiguous()  # 10 TFLOP: seconds on any CPU
  threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
  begin, finished = time.monotonic(), False
  with pytest.raises(KeyboardInterrupt):
    x.numpy()
    finished = True
    time.sleep(5)
  assert not finished and time.monotonic() - begin < 3
  assert (Tensor([1]) + 1).tolist() == [2]  # the connection goes on


def test_pickle_keeps_bits():
  for dtype in dtypes.all:
    x = Tensor([[0, 1, 1], [1, 0, 1]], dtype=dtype)
    y = pickle.loads(pickle.dumps(x))
    assert y.dtype is dtype and y.tolist() == x.tolist()


def test_error_names_the_line_of_the_caller():
  with pytest.raises(ValueError, match="test_process.py"):
    Tensor([1.0, 2.0]) + Tensor([1.0, 2.0, 3.0])
