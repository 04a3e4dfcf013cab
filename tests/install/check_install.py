"""Installs the daemon and looks at its unit of systemd. Then installs the client library into a temporary folder, moves it, and uses it as a stranger does: every header alone and without
gRPC or protobuf, the example project by find_package and by pkg-config, and both programs against a daemon. Nothing of
the build is used, and the library exports nothing but its own names."""
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


def check_daemon(build, folder):
  """The unit follows the prefix, also one with blanks and percent signs, and the staging folder of packagers is not in it."""
  prefix = pathlib.Path(folder) / "d" / "at 100%"
  for stage in "", f"{folder}/stage":
    run("cmake", "--install", build, "--component", "daemon", "--prefix", prefix, env={**os.environ, "DESTDIR": stage})
    place = pathlib.Path(f"{stage}{prefix}")
    unit = (place / "lib" / "systemd" / "system" / "uopd.service").read_text()
    assert "@uopd" not in unit, unit
    escaped = str(prefix).replace("%", "%%")
    assert f'\nExecStart="{escaped}/bin/uopd" --data-dir ${{STATE_DIRECTORY}}\n' in unit, unit
    for line in "Type=notify", "RestartPreventExitStatus=2", "OOMPolicy=continue", "ExecReload=/bin/kill -HUP $MAINPID":
      assert f"\n{line}\n" in unit, f"{line} is missing:\n{unit}"
    assert run(place / "bin" / "uopd", "--version").startswith("uopd ")
  # systemd itself reads the unit. Names of users, folders and other units are of no interest here.
  if shutil.which("systemd-analyze"):
    said = subprocess.run(["systemd-analyze", "verify", "--man=no", prefix / "lib" / "systemd" / "system" / "uopd.service"],
                          capture_output=True, text=True)
    ours = [line for line in said.stderr.splitlines() if "uopd" in line]
    assert not ours, "\n".join(ours)


def check_header(header, flags):
  """Compiles the header alone. Returns the error, or None."""
  depends = subprocess.run([*compiler(), "-std=c++20", "-Wall", "-Wextra", "-Werror", *flags, "-x", "c++", "-fsyntax-only", "-M",
                            "-include", header, "/dev/null"], capture_output=True, text=True)
  if depends.returncode: return f"{header} does not compile alone:\n{depends.stderr}"
  foreign = [word for word in depends.stdout.split() if FOREIGN.search(word)]
  return f"{header} includes {foreign}" if foreign else None


def check_texts(prefix, source, build, first):
  """No installed text names a folder of the checkout, or the prefix that it was first installed into."""
  for path in prefix.rglob("*"):
    if not path.is_file() or path.suffix not in (".h", ".def", ".cmake", ".pc"): continue
    for foreign in source, build, first:
      assert foreign not in path.read_text(), f"{path} names {foreign}"


def check_library(library):
  """The names of the file and its links, what it needs, and what it exports."""
  dynamic = run("readelf", "-dW", library)
  assert not re.search(r"LLVM|sqlite|libcuda|RUNPATH|RPATH", dynamic), dynamic
  [soname] = re.findall(r"SONAME.*\[(.*)\]", dynamic)
  version = os.readlink(library.parent / soname).removeprefix("libuopd-client.so.")
  major, minor, _ = version.split(".")
  assert soname == f"libuopd-client.so.{major}.{minor}" and os.readlink(library) == soname
  exported = [line.split(" ", 2)[-1] for line in run("nm", "-DC", "--defined-only", library).splitlines()]
  foreign = [name for name in exported if not re.match(r"(typeinfo (name )?for |vtable for )?uopd::", name)]
  assert len(exported) > 300 and not foreign, foreign[:10]
  return version


def check_versions(prefix, folder, version):
  """find_package takes the versions that are compatible, and no other."""
  major, minor, patch = map(int, version.split("."))
  wanted = {f"{major}.{minor}": True, version: True, f"{major}.{minor}.{patch + 1}": False, f"{major}.{minor + 1}": False, f"{major + 1}": False}
  lines = [f"find_package(uopd {v} CONFIG QUIET)\nif(NOT uopd_CONSIDERED_VERSIONS MATCHES {version} OR NOT uopd_FOUND STREQUAL {int(fits)})\n"
           f"  message(FATAL_ERROR \"uopd {v}: ${{uopd_FOUND}} ${{uopd_CONSIDERED_VERSIONS}}\")\nendif()" for v, fits in wanted.items()]
  (folder / "versions").mkdir()
  (folder / "versions" / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(versions LANGUAGES CXX)\n" + "\n".join(lines))
  run("cmake", "-S", folder / "versions", "-B", folder / "versions" / "build", f"-DCMAKE_PREFIX_PATH={prefix}")


def main(source, build, daemon):
  with tempfile.TemporaryDirectory() as folder:
    check_daemon(build, folder)
    prefix = pathlib.Path(folder) / "prefix"
    run("cmake", "--install", build, "--component", "client", "--prefix", f"{folder}/first")
    os.rename(f"{folder}/first", prefix)
    packages = next(prefix.glob("lib/**/pkgconfig"))
    check_texts(prefix, source, build, f"{folder}/first")
    version = check_library(packages.parent / "libuopd-client.so")
    check_versions(prefix, pathlib.Path(folder), version)
    environment = {**os.environ, "PKG_CONFIG_PATH": str(packages)}
    flags = run("pkg-config", "--cflags", "uopd", env=environment).split()
    headers = sorted(f"uopd/{path.name}" for path in (prefix / "include" / "uopd").glob("*.h"))
    assert len(headers) > 20, headers
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
      errors = [error for error in pool.map(lambda header: check_header(header, flags), headers) if error]
    if errors: sys.exit("\n".join(errors))

    example = pathlib.Path(folder) / "project"
    shutil.copytree(pathlib.Path(source) / "client" / "examples" / "project", example)
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    run("cmake", "-S", example, "-B", f"{folder}/build", "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_PREFIX_PATH={prefix}", *launcher)
    run("cmake", "--build", f"{folder}/build")
    libs = run("pkg-config", "--libs", "uopd", env=environment).split()
    run(*compiler(), "-std=c++20", "-O2", *flags, "-c", example / "matmul.cc", "-o", f"{folder}/matmul.o")
    run("c++", f"{folder}/matmul.o", "-o", f"{folder}/matmul", *libs)

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
