# SPDX-License-Identifier: MIT
"""The wheel that deploy/wheel builds: its size, its libraries, a machine without gRPC, and the time that `import uopd` takes.

UOPD_WHEEL names the wheel. tests/run builds one first.
"""
import os
import re
import resource
import statistics
import subprocess
import sys
import zipfile

import pytest
from uopd.daemon import OwnDaemon

WHEEL = os.environ.get("UOPD_WHEEL", "")
needs_wheel = pytest.mark.skipif(not WHEEL, reason="UOPD_WHEEL is not set; tests/run python builds a wheel and sets it")
SYSTEM = re.compile(r"(libc|libm|libgcc_s|libstdc\+\+|libpthread|libdl|librt|libatomic|libz|ld-linux-x86-64)\.so\.\d+")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
  """An environment that has the wheel and NumPy, and nothing else. Gives its interpreter and its packages."""
  folder = tmp_path_factory.mktemp("wheel")
  subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
  python = str(folder / "bin" / "python")
  subprocess.run([sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "--python", python, "install", WHEEL], check=True)
  return python, next(folder.glob("lib/python3*/site-packages"))


@needs_wheel
def test_size_tag_stubs_and_licences():
  assert os.path.getsize(WHEEL) < 15e6
  assert "-manylinux_2_" in WHEEL
  names = zipfile.ZipFile(WHEEL).namelist()
  assert {"uopd/py.typed", "uopd/_core.pyi", "uopd/nn/__init__.py", "uopd/llm/serving/page.html"} <= set(names)
  assert any(re.search(r"dist-info/licenses/libgrpc\d", name) for name in names)


@needs_wheel
def test_every_library_is_inside(installed):
  _, packages = installed
  inside = {path.name: path for path in (packages / "uopd.libs").iterdir()}
  assert any(name.startswith("libgrpc-") for name in inside)
  for path in [*inside.values(), *(packages / "uopd").glob("*.so")]:
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", subprocess.run(["readelf", "-dW", path], capture_output=True, text=True, check=True).stdout)
    assert needed or path.parent.name == "uopd.libs", path
    outside = [name for name in needed if name not in inside and not SYSTEM.fullmatch(name)]
    assert not outside, f"{path.name} needs {outside}"
    assert not re.search(r"LLVM|sqlite|libcuda|libnv|libamd|libhsa", " ".join([path.name, *needed]), re.IGNORECASE)


# Runs where the system's files of these libraries are empty.
WITHOUT_GRPC = """
import ctypes, sys
for name in ("libgrpc.so.29", "libgrpc++.so.1.51", "libprotobuf.so.32", "libabsl_base.so.20220623"):
  try: ctypes.CDLL(name)
  except OSError: continue
  sys.exit(f"{name} of the system is still there")
import numpy as np
from uopd import Tensor
a, b = np.random.rand(30, 40).astype(np.float32), np.random.rand(40, 20).astype(np.float32)
assert np.allclose((Tensor(a) @ Tensor(b)).numpy(), a @ b, atol=1e-4)
used = {line.split()[-1] for line in open("/proc/self/maps") if "libgrpc" in line or "libabsl" in line or "libprotobuf" in line}
assert len(used) > 10 and all("/uopd.libs/" in path for path in used), used
print("the product is right")
"""


def namespace():
  """What gives a command mounts of its own; None where the system allows nobody that."""
  for command in ["unshare", "-m"], ["unshare", "-rm"]:
    if subprocess.run([*command, "mount", "--bind", "/dev/null", "/dev/null"], capture_output=True).returncode == 0: return command
  return None


@needs_wheel
def test_works_without_grpc(installed):
  python, packages = installed
  inside = {re.sub(r"-[0-9a-f]{8}\.so.*", "", path.name) for path in (packages / "uopd.libs").iterdir()}
  known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
  libraries = [line.split() for line in known.splitlines() if "=>" in line]
  hidden = {os.path.realpath(words[-1]) for words in libraries if words[0].split(".so")[0] in inside}
  assert any("libgrpc.so" in path for path in hidden)
  command = namespace()
  if command is None: pytest.skip("mount namespaces are not allowed here")
  daemon = OwnDaemon(os.environ["UOPD_DAEMON"])  # outside of the namespace: it needs the libraries
  try:
    hide = 'for f in "${@:3}"; do mount --bind /dev/null "$f" || exit 3; done; exec "$1" -c "$2"'
    run = subprocess.run([*command, "bash", "-c", hide, "hide", python, WITHOUT_GRPC, *sorted(hidden)], capture_output=True, text=True,
                         timeout=60, env={**os.environ, "UOPD_ADDRESS": daemon.address})
    assert run.stdout == "the product is right\n", run.stdout + run.stderr
  finally: daemon.stop()


def processor_ms(python, code):
  """Processor time of a process, which other programs of the machine hardly change."""
  before = resource.getrusage(resource.RUSAGE_CHILDREN)
  subprocess.run([python, "-c", code], check=True)
  after = resource.getrusage(resource.RUSAGE_CHILDREN)
  return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


def test_import_time(request):
  python = request.getfixturevalue("installed")[0] if WHEEL else sys.executable
  processor_ms(python, "import numpy, uopd")  # writes the bytecode
  pairs = [(processor_ms(python, "import numpy"), processor_ms(python, "import numpy, uopd")) for _ in range(9)]
  over = statistics.median(both - numpy for numpy, both in pairs)
  print(f"import numpy: {statistics.median(n for n, _ in pairs):.0f} ms; import uopd over it: {over:.0f} ms of processor time")
  assert over < 150
