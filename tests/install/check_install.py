"""Installs the client library into a temporary folder and uses it as a stranger does: every header alone and without gRPC or
protobuf, the example project by find_package and by pkg-config, and both programs against a daemon."""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

# What a program that uses the library must not see.
FOREIGN = re.compile(r"/(grpc|grpcpp|google/protobuf|sqlite3|llvm)[-/.]|\.pb\.h")


def run(*command, **kwargs):
  done = subprocess.run(command, capture_output=True, text=True, **kwargs)
  if done.returncode: sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
  return done.stdout


def compiler():
  return (["ccache"] if shutil.which("ccache") else []) + [os.environ.get("CXX", "c++")]


def check_header(header, flags):
  """Compiles the header alone. Returns the error, or None."""
  depends = subprocess.run([*compiler(), "-std=c++20", "-Wall", "-Wextra", "-Werror", *flags, "-x", "c++", "-fsyntax-only", "-M",
                            "-include", header, "/dev/null"], capture_output=True, text=True)
  if depends.returncode: return f"{header} does not compile alone:\n{depends.stderr}"
  foreign = [word for word in depends.stdout.split() if FOREIGN.search(word)]
  return f"{header} includes {foreign}" if foreign else None


def main(source, build, daemon):
  with tempfile.TemporaryDirectory() as folder:
    prefix = pathlib.Path(folder) / "prefix"
    run("cmake", "--install", build, "--component", "client", "--prefix", prefix)
    packages = next(prefix.glob("lib/**/pkgconfig"))
    environment = {**os.environ, "PKG_CONFIG_PATH": str(packages)}
    flags = run("pkg-config", "--cflags", "uopd", env=environment).split()
    headers = sorted(f"uopd/{path.name}" for path in (prefix / "include" / "uopd").glob("*.h"))
    assert len(headers) > 20, headers
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
      errors = [error for error in pool.map(lambda header: check_header(header, flags), headers) if error]
    if errors: sys.exit("\n".join(errors))

    example = pathlib.Path(source) / "client" / "examples" / "project"
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    run("cmake", "-S", example, "-B", f"{folder}/build", "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_PREFIX_PATH={prefix}", *launcher)
    run("cmake", "--build", f"{folder}/build")
    libs = run("pkg-config", "--libs", "uopd", env=environment).split()
    run(*compiler(), "-std=c++20", "-O2", *flags, "-c", example / "matmul.cc", "-o", f"{folder}/matmul.o")
    run("c++", f"{folder}/matmul.o", "-o", f"{folder}/matmul", *libs)
    needed = run("readelf", "-d", packages.parent / "libuopd-client.so")
    assert not re.search(r"LLVM|sqlite|libcuda", needed), needed

    ready = pathlib.Path(folder) / "ready"
    server = subprocess.Popen([daemon, f"--listen=unix:{folder}/socket", "--http-listen=", f"--ready-file={ready}",
                               f"--log-file={folder}/log", f"--data-dir={folder}/state"])
    try:
      limit = time.monotonic() + 20
      while not ready.exists() and server.poll() is None and time.monotonic() < limit: time.sleep(0.02)
      assert ready.exists(), "the daemon does not start"
      address = json.loads(ready.read_text())["listen"]
      with_library = {**os.environ, "LD_LIBRARY_PATH": str(packages.parent)}
      for program in f"{folder}/build/matmul", f"{folder}/matmul":
        output = run(program, address, env=with_library)
        assert "the product is right" in output, output
    finally:
      server.terminate()
      server.wait()


main(*sys.argv[1:])
