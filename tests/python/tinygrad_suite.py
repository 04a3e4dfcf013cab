#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tinygrad's own tests with uopd in tinygrad's place: which pass, which give other values, which raise.

  tests/python/tinygrad_suite.py FOLDER [FILE...] [--reference] [-k EXPRESSION] [--failed JSON] [--json OUT] [--limit SECONDS] [-v]

FOLDER is a checkout of tinygrad; its tests are in FOLDER/test. FILE: paths below test/; without any those of FILES, as far as they are there. Needs pytest, hypothesis,
PyTorch and the package tinygrad in the environment of this Python, and UOPD_ADDRESS or UOPD_DAEMON. When a test is imported, its imports of tinygrad's public names become
imports of uopd; internals stay tinygrad's, and a test that asks uopd's tensors for them counts as `internals`. tinygrad_apart.txt names those that count
apart: more `internals`, and tests that ask for what docs/python.md has otherwise (`differs`). `worded`: refused with another text; `environment`: files or versions that this machine lacks. --reference runs the same tests with tinygrad itself (DEV=CPU).
--json writes the outcome of each test. With two such files, tinygrad_suite.py --compare UOPD REFERENCE says what passes there and not here;
--failed UOPD with --reference runs only the tests that this takes. Each file runs in a process of its own."""
import argparse
import ast
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

FILES = ["backend/test_ops.py", "backend/test_tensor.py", "backend/test_nn.py", "backend/test_optim.py", "backend/test_dtype.py", "backend/test_dtype_alu.py",
         "backend/test_randomness.py", "backend/test_setitem.py", "backend/test_jit.py", "backend/test_symbolic_jit.py", "backend/test_symbolic_ops.py",
         "backend/test_tensor_variable.py", "backend/test_multitensor.py", "backend/test_pickle.py", "backend/test_to_numpy.py", "backend/test_transcendental.py",
         "unit/test_assign.py", "unit/test_attention.py", "unit/test_conv.py", "unit/test_disk_tensor.py", "unit/test_function.py", "unit/test_getitem_ops.py", "unit/test_gguf.py",
         "unit/test_gradient.py", "unit/test_indexing.py", "unit/test_jit.py", "unit/test_jit_cases.py", "unit/test_jit_footguns.py", "unit/test_linalg.py", "unit/test_masked_tensor.py",
         "unit/test_multitensor.py", "unit/test_randomness.py", "unit/test_realize_is_realize.py", "unit/test_rearrange_einops.py", "unit/test_symbolic_tensor.py", "unit/test_tar.py",
         "unit/test_tensor_data.py", "unit/test_tensor_io.py", "null/test_tensor.py", "null/test_gradient.py", "null/test_indexing.py", "null/test_multitensor.py", "null/test_attention.py",
         "null/test_tensor_io.py", "null/test_rearrange_einops.py"]
# Modules of tinygrad with public names, and where uopd has these. A name that uopd's module lacks comes from tinygrad.
PUBLIC = {"tinygrad": "uopd", "tinygrad.tensor": "uopd.tensor", "tinygrad.dtype": "uopd.dtype", "tinygrad.device": "uopd.runtime", "tinygrad.helpers": "uopd.helpers",
          "tinygrad.engine.jit": "uopd.jit", "tinygrad.engine": "uopd.engine", "tinygrad.nn": "uopd.nn", "tinygrad.nn.state": "uopd.nn.state", "tinygrad.nn.optim": "uopd.nn.optim",
          "tinygrad.nn.datasets": "uopd.nn.datasets", "tinygrad.llm.gguf": "uopd.llm.gguf", "tinygrad.function": "uopd.function"}
# Context is in tinygrad's helpers, and Device and Context are in one module here.
ELSEWHERE = {("tinygrad.helpers", "Context"): "uopd", ("tinygrad.helpers", "GlobalCounters"): "uopd", ("tinygrad.uop.ops", "UOp"): "uopd"}
SHIMS = "tinygrad_suite_shims"  # functions of tinygrad about dtypes, for those of uopd
PRIVATE_HERE = {"T", "Any", "runtime"}  # names that the modules here have for themselves
# What tests ask of tensors that only tinygrad's own have (docs/python.md lists them).
INTERNAL_NAMES = """uop _buffer _uop linear_with_vars schedule_linear schedule lazydata custom_kernel call callify as_param alu ufix renderer compiler allocator captured keccak hash
  image_conv2d image_dot decode_hevc_frame invalids random_bits from_blob _linears arch vec ptr base""".split()
INTERNAL = re.compile(rf"has no attribute '({'|'.join(INTERNAL_NAMES)})'|'(Size|Variable)' has no attribute|type object 'Tensor' has no attribute '_|KernelCountException"
                      r'|no driver "PYTHON"')  # the device that interprets tinygrad's own nodes
# Tests that this environment cannot run, whatever uopd does: files that a test would download (uopd downloads nothing, docs/python.md, and says so;
# tinygrad without a network raises URLError), and a PyTorch or NumPy that lacks what the test compares with.
ENVIRONMENT = re.compile(r"is not there, and nothing is downloaded|URLError|Name or service not known|module '(torch|numpy)[.\w]*' has no attribute"
                         r"|RuntimeError: \"\w+\" not implemented for '\w+'")
# Refused by both, with another text.
WORDED = re.compile(r'AssertionError: ".*" does not match "', re.S)
WRONG = re.compile(r"Not equal to tolerance|Arrays are not |not almost equal|Mismatched elements|Lists differ|Items are not equal|!= |forward pass failed|backward pass failed|DID NOT|mismatch")
ACCEPTED = re.compile(r"not raised|DID NOT RAISE")


def apart():
  """The tests that are counted apart: {file::test: kind}."""
  lines = pathlib.Path(__file__).with_name("tinygrad_apart.txt").read_text().splitlines()
  return {name.removesuffix(":"): kind for line in lines if line and line[0] != "#" for kind, name, _ in [line.split(" ", 2)]}


class Rewriter(ast.NodeTransformer):
  """Imports of tinygrad's public names become imports of uopd."""
  def visit_ImportFrom(self, node):
    if node.level or node.module not in PUBLIC and not (node.module or "").startswith("tinygrad."): return node
    if node.module not in PUBLIC:
      return [ast.ImportFrom(SHIMS if hasattr(sys.modules[SHIMS], a.name) else ELSEWHERE.get((node.module, a.name), node.module), [a], 0) for a in node.names]
    out = []
    for a in node.names:
      here = SHIMS if hasattr(sys.modules[SHIMS], a.name) else ELSEWHERE.get((node.module, a.name), PUBLIC[node.module])
      module = importlib.import_module(here)
      ours = hasattr(module, a.name) and a.name not in PRIVATE_HERE
      out.append(ast.ImportFrom(here if ours else node.module, [a], 0))
    return out
  def visit_FunctionDef(self, node):
    # How many kernels a recorded function has is the daemon's business.
    if node.name == "assert_jit_cache_len": node.body = [ast.Pass()]
    self.generic_visit(node)
    return node
  def visit_Import(self, node):
    for a in node.names:
      if a.name in PUBLIC: a.name, a.asname = PUBLIC[a.name], a.asname or a.name.partition(".")[0]
    return node


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
  """Modules of the package test, rewritten."""
  def __init__(self, root, rewrite): self.root, self.rewrite = root, rewrite
  def find_spec(self, name, path=None, target=None):
    if name.partition(".")[0] not in ("test", "extra", "examples"): return None
    place = self.root.joinpath(*name.split("."))
    for file in (place / "__init__.py", place.with_suffix(".py")):
      if file.is_file(): return importlib.util.spec_from_file_location(name, file, loader=self, submodule_search_locations=[str(place)] if file.name == "__init__.py" else None)
    if place.is_dir():
      spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
      spec.submodule_search_locations = [str(place)]
      return spec
    return None
  def create_module(self, spec): return None
  def exec_module(self, module):
    text = pathlib.Path(module.__file__).read_text()
    tree = ast.parse(text, module.__file__)
    if self.rewrite: tree = ast.fix_missing_locations(Rewriter().visit(tree))
    exec(compile(tree, module.__file__, "exec"), module.__dict__)


def stand_in():
  """What tests ask tinygrad for about its CPU device and about dtypes, with uopd's dtypes: which there are, what rounds to them."""
  import types
  import numpy as np
  import tinygrad
  import tinygrad.dtype as theirs
  import uopd
  from tinygrad.runtime.ops_python import from_storage_scalar
  back = {d.name: d for d in uopd.dtypes.all}
  names = {getattr(theirs.dtypes, n): d for n, d in vars(uopd.dtypes).items() if isinstance(d, uopd.DType) and hasattr(theirs.dtypes, n) and not n.startswith("default_")}
  to = {ours: other for other, ours in names.items()}
  weak = {theirs.dtypes.weakint: uopd.dtypes.int32, theirs.dtypes.weakfloat: uopd.dtypes.float32}  # of Python's numbers: the defaults here

  class Renderer:
    def supported_dtypes(self): return {names[d] for d in tinygrad.Device["CPU"].renderer.supported_dtypes() if d in names}
    def __getattr__(self, name): return getattr(tinygrad.Device["CPU"].renderer, name)
  uopd.runtime.DaemonDevice.renderer = Renderer()
  uopd.runtime.DaemonDevice.__getattr__ = lambda self, name: getattr(tinygrad.Device["CPU"], name)
  m = types.ModuleType(SHIMS)
  m.DTYPES_DICT = back
  m.truncate = {ours: f for other, f in theirs.truncate.items() for ours in [names.get(other)] if ours is not None}
  m._to_np_dtype = lambda d: np.dtype(d.numpy_name or "float32").type
  m._from_np_dtype = lambda d: back[np.dtype(d).name]
  m.least_upper_dtype = lambda *ds: (lambda up: names.get(up) or weak.get(up, up))(theirs.least_upper_dtype(*(to.get(d, d) for d in ds)))
  m._to_torch_dtype = lambda d: theirs._to_torch_dtype(to[d])
  m.fp8_to_float = lambda x, dtype: theirs.fp8_to_float(x, to.get(dtype, dtype))
  m.float_to_fp8 = lambda x, dtype: theirs.float_to_fp8(x, to.get(dtype, dtype))
  m.from_storage_scalar = lambda x, dtype: from_storage_scalar(x, to[dtype])
  m.sym_infer = lambda size, values: size if isinstance(size, int) else size.sym_infer(values)
  sys.modules[SHIMS] = m
  # Dtypes that only tinygrad has are in no list of what a device has.
  for name in ("fp8e4m3fnuz", "fp8e5m2fnuz", "weakint", "weakfloat", "void"): setattr(uopd.dtypes, name, getattr(theirs.dtypes, name))
  uopd.dtypes.fp8_fnuz, uopd.dtypes.weaks = theirs.dtypes.fp8_fnuz, theirs.dtypes.weaks


def outcome(report_text, crash):
  """What a failure is: internals, environment, worded, wrong, accepted or raised."""
  if INTERNAL.search(crash) or INTERNAL.search(report_text[-3000:]): return "internals"
  if ENVIRONMENT.search(crash): return "environment"
  if WORDED.match(crash): return "worded"
  if "Unexpected success" in crash: return "passed"  # of a test that is expected to fail with tinygrad
  if ACCEPTED.search(crash): return "accepted"
  if crash.startswith(("AssertionError", "Exception")) or WRONG.search(crash): return "wrong"
  return "raised"


def run_file(root, file, args):
  """In a process of its own: the tests of one file. Prints one line of JSON for each."""
  import pytest
  if not args.reference:
    stand_in()
  sys.meta_path.insert(0, Finder(root, not args.reference))
  results, known = {}, {} if args.reference else apart()

  class Plugin:
    def pytest_collection_modifyitems(self, items):
      if args.failed is None: return
      failed = {n.split("::", 1)[1] for n, (what, _) in json.loads(args.failed.read_text()).items() if n.startswith(f"{file}::") and what not in ("passed", "skipped")}
      items[:] = [i for i in items if i.nodeid.split("::", 1)[-1] in failed]
    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item):
      def late(*_): raise TimeoutError(f"over {args.limit} s")
      before = signal.signal(signal.SIGALRM, late)
      signal.alarm(args.limit)
      try: yield
      finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    def pytest_runtest_logreport(self, report):
      name = report.nodeid.split("::", 1)[-1]
      if report.skipped: results[name] = ("skipped", str(report.longrepr)[-300:])
      elif report.failed:
        crash = report.longrepr.reprcrash.message if hasattr(report.longrepr, "reprcrash") and report.longrepr.reprcrash else str(report.longrepr)[-2000:]
        what = outcome(str(report.longrepr), crash)
        results[name] = (what if what == "passed" else known.get(f"{file}::{name}", what), crash[:1500])
      elif report.when == "call": results.setdefault(name, ("passed", ""))
    def pytest_collectreport(self, report):
      if report.failed: results["(import)"] = ("internals", str(report.longrepr)[-1500:])
  options = ["-q", "-p", "no:cacheprovider", "--assert=plain", "--import-mode=importlib", "-x" if False else "--tb=short", *(["-k", args.k] if args.k else [])]
  os.chdir(root)

  # pytest's own way to import would read the file as it is: a module of the finder is given to it.
  def import_path(path, **_):
    name = ".".join(pathlib.Path(path).resolve().relative_to(root).with_suffix("").parts)
    return importlib.import_module(name)
  import _pytest.python
  _pytest.python.import_path = import_path
  with open(os.devnull, "w") as null:
    stdout, sys.stdout = sys.stdout, null
    try: pytest.main([*options, str(root / "test" / file)], plugins=[Plugin()])
    finally: sys.stdout = stdout
  with open(args.one, "w") as f: json.dump(results, f)


def compare(ours, theirs):
  """What passes with tinygrad and not here."""
  ours, theirs = (json.loads(pathlib.Path(p).read_text()) for p in (ours, theirs))
  passing = {n for n, (what, _) in theirs.items() if what == "passed"} | {n for n, (what, _) in ours.items() if what == "passed"}
  counts = {}
  for n in sorted(passing):
    what, why = ours.get(n, ("not run", ""))
    counts[what] = counts.get(what, 0) + 1
    if what not in ("passed", "skipped"): print(f"{what:10} {n}: {' '.join(why.split())[:160]}")
  print(f"of {len(passing)} that pass with tinygrad, or here:", ", ".join(f"{v} {k}" for k, v in sorted(counts.items())))
  asked = sum(v for k, v in counts.items() if k not in ("internals", "environment", "skipped"))
  print(f"{100 * counts.get('passed', 0) / max(asked, 1):.2f} % of the {asked} that ask for what users have; without those that differ by the table of docs/python.md: "
        f"{100 * counts.get('passed', 0) / max(asked - counts.get('differs', 0), 1):.2f} %")


def main():
  p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  p.add_argument("folder", nargs="?", type=pathlib.Path)
  p.add_argument("files", nargs="*")
  p.add_argument("--reference", action="store_true")
  p.add_argument("-k")
  p.add_argument("--json", type=pathlib.Path)
  p.add_argument("--limit", type=int, default=120, help="seconds of one test")
  p.add_argument("-v", action="store_true", help="each test that does not pass")
  p.add_argument("--compare", nargs=2)
  p.add_argument("--failed", type=pathlib.Path, help="only the tests that do not pass in such a file of --json")
  p.add_argument("--one", help=argparse.SUPPRESS)
  args = p.parse_args()
  if args.compare: return compare(*args.compare)
  root = args.folder.resolve()
  if args.one: return run_file(root, args.files[0], args)
  if not (root / "test").is_dir(): sys.exit(f"{root} has no folder test: give a checkout of tinygrad")
  all_results, counts = {}, {}
  for file in args.files or [f for f in FILES if (root / "test" / f).is_file()]:
    with tempfile.NamedTemporaryFile("r", suffix=".json") as out:
      command = [sys.executable, __file__, str(root), file, "--one", out.name, "--limit", str(args.limit), *(["--reference"] if args.reference else []), *(["-k", args.k] if args.k else []), *(["--failed", str(args.failed.resolve())] if args.failed else [])]
      env = {**os.environ, "DEV": "CPU", "CI": "1", "RUN_SLOW": "1", "UOPD_DEVICE_LIST": ",".join([*(f"CPU:{i}" for i in range(6)), *(f"NULL:{i}" for i in range(6))])}
      done = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
      text = out.read()
    results = json.loads(text) if text else {"(process)": ("raised", f"ended with {done.returncode}: {done.stderr[-1500:]}")}
    here = {}
    for name, (what, why) in results.items():
      all_results[f"{file}::{name}"] = (what, why)
      counts[what], here[what] = counts.get(what, 0) + 1, here.get(what, 0) + 1
      if args.v and what not in ("passed", "skipped"): print(f"  {what:10} {name}: {' '.join(why.split())[:200]}")
    print(f"{file}: {', '.join(f'{v} {k}' for k, v in sorted(here.items())) or 'nothing'}", flush=True)
  print("all:", ", ".join(f"{v} {k}" for k, v in sorted(counts.items())))
  if args.json: args.json.write_text(json.dumps(all_results))


if __name__ == "__main__": main()
