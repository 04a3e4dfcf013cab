# SPDX-License-Identifier: MIT
"""The table "What differs" of docs/python.md: a program for each row that is no list of names, and what it prints with tinygrad and with uopd."""
import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
from test_surface import differences

PEERS = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "uopd" / "peers" / "bin" / "python"

# subject: (program that sets `out`, with tinygrad, with uopd). "E:" and a name: it raises that.
ROWS = {
  "gradients": ("w, x = Tensor([2.0]), Tensor([3.0]); o = nn.optim.SGD([w]); (w * x).sum().backward(); out = [w.grad is not None, x.grad is not None]", [True, True], [True, False]),
  "`requires_grad`": ("out = [hasattr(Tensor([1.0]), n) for n in ('requires_grad', 'is_param')]", [False, True], [True, True]),
  "`Tensor.training`": ("out = [hasattr(Tensor, n) for n in ('training', 'train')]", [False, False], [True, True]),
  "optimisers: gradients after `step()`": ("w = Tensor([2.0]); o = nn.optim.SGD([w]); (w * 3).sum().backward()\nwith Context(TRAINING=1): o.step()\nout = w.grad is None", False, True),
  "`fused` optimisers": ("out = type(nn.optim.LAMB([Tensor([1.0])], fused=True)).__name__", "LAMB", "E:NotImplementedError"),
  "`load_state_dict`": ("m = nn.Linear(1, 1); before = nn.state.get_state_dict(m)['weight']; y = Tensor([[5.0]])\nnn.state.load_state_dict(m, {'weight': y, 'bias': Tensor([1.0])}, verbose=False)\n"
                        "y.assign(Tensor([[7.0]])).realize(); out = m.weight.item()", 7.0, 5.0),
  "`safe_save` metadata": ("nn.state.safe_save({'a': Tensor([1])}, folder + '/m', {'a': 3}); out = True", True, "E:TypeError"),
  "`nn.datasets`, `fetch`": ("try: fetch('http://127.0.0.1:9/none')\nexcept Exception as e: out = isinstance(e, FileNotFoundError)", False, True),
  "`torch_load` of other classes than tensors and containers": (
    "import io, pickle, zipfile\nb = io.BytesIO()\nwith zipfile.ZipFile(b, 'w') as z: z.writestr('m/data.pkl', b'cargparse\\nNamespace\\n)R.')\n"
    "open(folder + '/t', 'wb').write(b.getvalue()); out = type(nn.state.torch_load(folder + '/t')).__name__", "Dummy", "E:ValueError"),
  "tensors of a file that is replaced": ("p = folder + '/f'; open(p, 'wb').write(b'aaaa'); t = Tensor(pathlib.Path(p)); open(p + '2', 'wb').write(b'bbbb'); os.rename(p + '2', p); out = t.tolist()[0]", 98, 97),
  "`v += y` of a view v of a tensor": ("x = Tensor([1, 2, 3]).contiguous().realize(); v = x[1:]; v += 1; out = x.tolist()", [1, 3, 4], [1, 2, 3]),
  "`TinyJit`: arguments that are no tensors": ("f = TinyJit(lambda x, n: (x * n).realize()); out = [f(Tensor([3]).realize(), n).item() for n in range(1, 5)]", [3, 6, 6, 6], "E:ValueError"),
  "`TinyJit`: replays with one tensor as two arguments, with views that begin elsewhere, with numbers as tensors": (
    "f = TinyJit(lambda a, b: (a * b).realize()); x, y = Tensor([1, 2, 3]).realize(), Tensor([2, 3]).realize()\n"
    "out = [f(x[i % 2:i % 2 + 2], y).tolist() for i in range(4)] + [f(y, y).tolist()]", "E:JitError", [[2, 6], [4, 9], [2, 6], [4, 9], [4, 9]]),
  "a variable with several values before one `realize()`": (
    "b = Tensor.zeros(4).contiguous().realize(); v = Variable('i', 0, 3)\nfor i in (0, 1): b[v.bind(i):v.bind(i) + 1].assign(Tensor([i + 1.0]))\nout = b.tolist()",
    "E:RuntimeError", [1.0, 2.0, 0.0, 0.0]),
  "`dropout` of sizes that are variables": (
    "n = Variable('n', 1, 8).bind(3)\nwith Context(TRAINING=1): out = Tensor.ones(8, 4).contiguous().realize()[:n].dropout(0.5).sum().realize().shape == ()", "E:ValueError", True),
  "`x += y` with a y of a wider dtype of the same kind": ("x = Tensor([1], dtype=dtypes.int32).realize(); x += Tensor([2], dtype=dtypes.int64); out = x.tolist()", "E:RuntimeError", [3]),
  "`x[...] = y` with a y of another dtype": ("x = Tensor([1.0, 2.0]).contiguous().realize(); x[:1] = Tensor([5], dtype=dtypes.int32); out = x.tolist()", "E:RuntimeError", [5.0, 2.0]),
  "`x[...]`, `x[:]`, `x[()]`": ("x = Tensor([1]); out = [x[...] is x, x[:] is x, x[()] is x]", [True] * 3, [False] * 3),
  "numbers as tensors, `Tensor(2.0)`": ("w, x = Tensor(2.0), Tensor([3.0]); (x * w).sum().backward(); out = None if w.grad is None else w.grad.item()", None, 3.0),
  "`scatter` with a tensor and `reduce`": ("out = Tensor([1.0, 1.0]).scatter(0, Tensor([0]), Tensor([4.0]), reduce='add').tolist()", "E:TypeError", [5.0, 1.0]),
  "tensors of a file: other slices, `permute`, functions of several of them": (
    "p = folder + '/g'; open(p, 'wb').write(bytes(range(6))); out = Tensor(pathlib.Path(p))[::2].tolist()", "E:RuntimeError", [0, 2, 4]),
  "masks of bools": ("x = Tensor([1, 2, 3]); out = x[x > 1].tolist()", "E:Exception", [2, 3]),
  "labels of -1 in `sparse_categorical_crossentropy`": ("out = round(Tensor([[0.0, 0.0], [0.0, 0.0]]).sparse_categorical_crossentropy(Tensor([1, -1])).item(), 3)", 0.347, 0.693),
  "integers in floating-point operations, and sums with Python's floats": ("with Context(DEFAULT_FLOAT='half'): out = (Tensor([1, 2]) / 2).dtype.itemsize", 2, 4),
  "random numbers": ("Tensor.manual_seed(3); out = bool(0 <= Tensor.rand(4).numpy().min() < 1)", True, True),
  "settings of `Context`": ("with Context(WINO=1, DEFAULT_FLOAT='half'): out = Tensor([1.0]).dtype.itemsize", 2, 2),
  "`function`": ("@function\ndef f(x): return x * 2\nout = f(Tensor([3])).tolist()", [6], [6]),
  "`UOp`": ("v = UOp.variable('n', 1, 8).bind(4); out = [isinstance(v, UOp), Tensor.ones(8)[:v].sum().item()]", [True, 4.0], [True, 4.0]),
  "`repr` of a tensor": ("out = '2.5' in repr(Tensor([2.5, 1.0]))", False, True),
  "`from_blob`": ("out = hasattr(Tensor, 'from_blob')", True, False),
  "`from_url`": ("out = hasattr(Tensor, 'from_url')", True, True),
  "`GlobalCounters.global_ops`, `global_mem`": ("GlobalCounters.reset(); (Tensor.ones(64).contiguous().realize() * 2).realize().tolist(); out = GlobalCounters.global_ops > 0", True, False),
  "`gguf_load`: blocks": ("import importlib; g = importlib.import_module(library + '.llm.gguf'); out = g.ggml_data_to_tensor(Tensor(b'\\0' * 84), 256, 10).shape[0]", "E:ValueError", 256),
  "`zip_extract`, `tar_extract`, `gguf_load`, `safe_load` of broken files": (
    "import json, struct; h = json.dumps({'w': {'dtype': 'F32', 'shape': [2], 'data_offsets': [0, 8]}}).encode()\n"
    "open(folder + '/s', 'wb').write(struct.pack('<Q', len(h)) + h + b'0' * 12); out = nn.state.safe_load(folder + '/s')['w'].shape[0]", 2, "E:ValueError"),
}
# Rows whose difference is none of one value: what waits, where memory is, what other tests show.
ELSEWHERE = {"`realize()`": "test_waiting.py", "`optimizer.device`": "test_placing.py", "`TinyJit`": "test_jit.py",
             "positions of tensors out of range": "test_semantics.py",
             "`shard` of an axis that the number of devices does not divide, `rand` on several devices": "test_placing.py", "what was computed from a tensor before it is assigned": "test_views.py",
             "`TinyJit`: a method of several objects": "test_jit.py", "attention of a query whose mask has no key": "test_nn.py"}


RUNNER = """
import json, os, pathlib, sys, tempfile
library = sys.argv[1]
if library == "tinygrad":
  from tinygrad import *
  from tinygrad import nn
  from tinygrad.uop.ops import UOp
else:
  from uopd import *
out = {}
for name, code in json.load(sys.stdin).items():
  with tempfile.TemporaryDirectory() as folder:
    space = {**globals(), "folder": folder, "library": library}
    try:
      exec(code, space)
      out[name] = space["out"]
    except Exception as e: out[name] = "E:" + " ".join(c.__name__ for c in type(e).__mro__)
print(json.dumps(out, default=lambda v: v.item()))
"""


def run(python, library, **env):
  programs = {name: textwrap.dedent(code) for name, (code, _, _) in ROWS.items()}
  done = subprocess.run([python, "-c", RUNNER, library], input=json.dumps(programs), capture_output=True, text=True, timeout=600, env={**os.environ, **env})
  assert done.returncode == 0, done.stderr[-3000:]
  return json.loads(done.stdout.splitlines()[-1])


def wrong(got, side):
  def same(value, want): return value == want or isinstance(want, str) and want.startswith("E:") and isinstance(value, str) and value.startswith("E:") and want[2:] in value[2:].split()
  return {name: (got[name], row[side]) for name, row in ROWS.items() if not same(got[name], row[side])}


def test_uopd(): assert wrong(run(sys.executable, "uopd"), 2) == {}


def with_tinygrad():
  for python in (sys.executable, str(PEERS)):
    if os.path.exists(python) and subprocess.run([python, "-c", "import tinygrad"], capture_output=True).returncode == 0: return python
  return None


def test_tinygrad():
  python = with_tinygrad()
  if python is None: pytest.skip("tinygrad is not installed: deploy/install-deps --peers does it")
  assert wrong(run(python, "tinygrad", DEV="CPU"), 1) == {}


def test_every_row_has_a_program():
  named = {first for first, last in differences() if not last.startswith("not there") and first.count("`") < 6 or first in ROWS}
  lists = {first for first, _ in differences()} - named
  assert named - ROWS.keys() - ELSEWHERE.keys() == set() and (ROWS.keys() | ELSEWHERE.keys()) - {first for first, _ in differences()} == set()
  assert len(lists) < 10


def test_context_has_every_setting_of_tinygrad():
  from uopd.runtime import Context
  python = with_tinygrad()
  if python is None: pytest.skip("tinygrad is not installed: deploy/install-deps --peers does it")
  code = "import tinygrad, tinygrad.engine.jit, tinygrad.engine.realize; from tinygrad.helpers import ContextVar as C; print(' '.join(f'{k}={v.value!r}' for k, v in C._cache.items() if k != 'DEV'))"
  settings = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, "DEV": "CPU"}).stdout.split()
  assert len(settings) > 50
  with Context(**{name: eval(value) for name, _, value in (s.partition("=") for s in settings)}): pass  # noqa: S307
