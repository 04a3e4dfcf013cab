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
from uopd import Context, Tensor, TinyJit, dtypes


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


def own_environment(): return {k: v for k, v in os.environ.items() if k != "UOPD_ADDRESS"}


def runs(pid):
  """False for a process that has ended, also if nobody has waited for it."""
  try:
    with open(f"/proc/{pid}/stat") as file: return file.read().rpartition(")")[2].split()[0] != "Z"
  except FileNotFoundError: return False


def ends(pid):
  limit = time.monotonic() + 60
  while runs(pid) and time.monotonic() < limit: time.sleep(0.02)
  return not runs(pid)


@pytest.mark.parametrize("end", ["", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"])
def test_own_daemon_ends_with_the_process(end):
  r = python(f"from uopd import Tensor, daemon; Tensor([1]).numpy(); print(daemon._own._process.pid, flush=True)\n{end}", env=own_environment())
  assert ends(int(r.stdout)), r.stderr


def test_own_daemon_outlives_the_thread_that_started_it():
  r = python("""
import threading
from uopd import Tensor, daemon
made = []
t = threading.Thread(target=lambda: made.append(Tensor([1.0, 2.0]).contiguous().realize()))
t.start()
t.join()
stat = open(f"/proc/{daemon._own._process.pid}/stat").read().rpartition(")")[2].split()
print((made[0] + 1).tolist(), daemon._own._process.poll(), stat[1] == str(__import__("os").getpid()))
""", env=own_environment())
  assert r.stdout == "[2.0, 3.0] None True\n", (r.stdout, r.stderr)


def test_own_daemon_ends_with_a_killed_process_whose_child_lives():
  p = subprocess.Popen([sys.executable, "-c", """
import os, signal, time
from uopd import Tensor, daemon
Tensor([1]).numpy()
child = os.fork()
if child == 0: time.sleep(300)
print(daemon._own._process.pid, child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=own_environment())
  pid, child = map(int, p.stdout.readline().split())
  p.wait(60)
  try: assert runs(child) and ends(pid)
  finally: os.kill(child, signal.SIGKILL)


KILL = """
import os, signal, time
import numpy as np
import uopd
from uopd import Tensor, TinyJit, daemon
def kill(wait=True):
  process = daemon._own._process
  os.kill(process.pid, signal.SIGKILL)
  process.wait()
  limit = time.monotonic() + 50
  while wait and time.monotonic() < limit:  # until another one is reached
    try: (Tensor([1]) + 1).tolist()
    except uopd.errors.Unavailable: time.sleep(0.02)
    else: wait = False
"""


def test_work_goes_on_when_the_own_daemon_has_ended():
  r = python(KILL + """
stored = Tensor(np.arange(300000.0)).realize()
stored = (stored + 1).realize()
step = TinyJit(lambda x: (x * 2).realize())
for _ in range(3): step(Tensor([1.0, 2.0]))
address = daemon._own.address
uopd.sync()
kill()
print((Tensor([1]) + 1).tolist(), (Tensor(np.arange(3.0)) * 2).tolist(), step(Tensor([3.0, 4.0])).tolist(), daemon._own.address == address)
try: print(stored.numpy())
except uopd.Error as e: print(type(e).__name__, "restarted" in str(e))
uopd.connect()
print((Tensor([1]) + 1).tolist())
""", env=own_environment())
  assert r.stdout == "[2] [0.0, 2.0, 4.0] [6.0, 8.0] True\nFailedPrecondition True\n[2]\n", (r.stdout, r.stderr)


def test_a_daemon_that_ends_again_and_again_is_started_by_connect():
  r = python(KILL + """
daemon.STARTS_LIMIT = 2
Tensor([1]).numpy()
kill()
Tensor([1]).numpy()
kill(wait=False)
uopd.connect()
print((Tensor([1]) + 1).tolist())
""", env=own_environment())
  assert r.stdout == "[2]\n", (r.stdout, r.stderr)


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


def test_fork_beside_a_thread_that_connects_again():
  r = python("""
import os, threading
from uopd import Tensor
Tensor([1.0]).realize().numpy()
ends = []
for k in range(20):
  pid = os.fork()
  if pid == 0: os._exit(0)
  os.waitpid(pid, 0)                 # the parent's connections are closed now
  begun, stop = threading.Event(), threading.Event()
  def busy():
    begun.set()
    while not stop.is_set(): (Tensor([1.0]) + 1).numpy()
  t = threading.Thread(target=busy)
  t.start()
  begun.wait()
  pid = os.fork()
  if pid == 0: os._exit(0 if (Tensor([1, 2]) * 2).tolist() == [2, 4] else 1)
  ends.append(os.waitpid(pid, 0)[1])
  stop.set()
  t.join()
print(ends == [0] * 20, (Tensor([1.0]) + 1).tolist())
""")
  assert r.stdout == "True [2.0]\n", (r.stdout, r.stderr[-3000:])


def test_a_child_that_is_made_while_a_function_is_recorded():
  r = python("""
import os
from uopd import Error, Tensor, TinyJit
main, calls, ends = os.getpid(), [], []
@TinyJit
def step(x):
  y = (x * 2).realize()
  calls.append(1)
  if len(calls) == 2:
    for mine in (False, True):
      if (pid := os.fork()) == 0:
        if mine: raise KeyError("mine")
        return y
      ends.append(os.waitpid(pid, 0)[1])
  return y
try: results = [step(Tensor([float(i)])).item() for i in range(5)]
except BaseException as e:
  if os.getpid() == main: raise
  right = isinstance(e, (Error, KeyError)) and ("parent process" in str(e) or e.args == ("mine",))
  os._exit(0 if right and (Tensor([1]) + 1).tolist() == [2] else 1)
print(results, ends)
""")
  assert r.stdout == "[0.0, 2.0, 4.0, 6.0, 8.0] [0, 0]\n", (r.stdout, r.stderr[-3000:])


def test_a_child_does_not_get_at_the_parents_gradients():
  r = python("""
import os
from uopd import Error, Tensor
x = Tensor([1.0, 2.0], requires_grad=True)
(x * x).sum().backward()
x.grad.realize()
if (pid := os.fork()) == 0:
  wrong = 0
  for ask in (lambda: x.grad, lambda: x.grad.numpy(), lambda: setattr(x, "grad", None)):
    try:
      ask()
      wrong += 1
    except Error: pass
  os._exit(wrong)
print(os.waitpid(pid, 0)[1], x.grad.tolist())
""")
  assert r.stdout == "0 [2.0, 4.0]\n", (r.stdout, r.stderr[-3000:])


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


def test_scopes_belong_to_their_thread():
  seen, entered, left = [], threading.Barrier(2), threading.Barrier(2)

  def scope(first):
    with Tensor.train(), Context(PROGRESS=int(first)):
      entered.wait(60)
      if first: left.wait(60)  # the other one leaves its scope while this one is in its own
      seen.append((first, Tensor.training, uopd.progress.enabled()))
    if not first: left.wait(60)
  threads = [threading.Thread(target=scope, args=(first,)) for first in (True, False)]
  for t in threads: t.start()
  for t in threads: t.join()
  assert sorted(seen) == [(False, True, False), (True, True, True)]
  assert not Tensor.training and (Tensor.ones(100).dropout(.5).numpy() == 1).all()


def test_a_new_thread_begins_with_what_the_process_has():
  def training_of_a_thread():
    seen = []
    t = threading.Thread(target=lambda: seen.append(Tensor.training))
    t.start()
    t.join()
    return seen[0]
  with Tensor.train():
    assert Tensor.training and not training_of_a_thread()
    Tensor.training = False
    assert not Tensor.training
  assert not Tensor.training
  try:
    Tensor.training = True
    assert Tensor.training and training_of_a_thread()
    with Tensor.train(False): assert not Tensor.training and training_of_a_thread()
    assert Tensor.training
  finally: Tensor.training = False


def test_one_scope_object_in_many_threads():
  @Tensor.train()
  @Context(BEAM=0)
  def deep(n): return Tensor.training and (n == 0 or deep(n - 1)) and Tensor.training
  results = []
  threads = [threading.Thread(target=lambda: results.append(all(deep(20) and not Tensor.training for _ in range(20)))) for _ in range(4)]
  for t in threads: t.start()
  for t in threads: t.join()
  assert results == [True] * 4 and not Tensor.training


def test_settings_of_a_scope_change_the_requests_of_its_thread_alone():
  inside, done = threading.Event(), threading.Event()
  errors = []

  def other():
    inside.wait(60)
    try: (Tensor([1.0]) + time.time()).numpy()
    except uopd.Error as e: errors.append(str(e))
    done.set()
  t = threading.Thread(target=other)
  t.start()
  with Context(BEAM=2, REPRODUCIBLE=1):  # both together are refused
    inside.set()
    assert done.wait(60)
    with pytest.raises(uopd.Error): (Tensor([1.0]) + time.time()).numpy()
  t.join()
  assert not errors
  assert (Tensor([1.0]) + 1).tolist() == [2.0]


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
