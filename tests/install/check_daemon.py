"""Installs the component `daemon` into a temporary folder: the programs run there, and their manual pages and completions are those that
the programs make."""
import pathlib
import shutil
import subprocess
import sys
import tempfile


def run(*command):
  done = subprocess.run(command, capture_output=True, text=True)
  if done.returncode: sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
  return done.stdout


def main(build):
  with tempfile.TemporaryDirectory() as folder:
    prefix = pathlib.Path(folder) / "prefix"
    run("cmake", "--install", build, "--component", "daemon", "--prefix", prefix)
    uopctl = next(prefix.glob("bin/uopctl"))
    assert run(uopctl, "--version").startswith("uopctl "), "uopctl does not run"
    assert run(next(prefix.glob("bin/uopd")), "--version").startswith("uopd "), "uopd does not run"
    made = {"share/man/man1/uopctl.1": ("man", "uopctl"), "share/man/man8/uopd.8": ("man", "uopd"),
            "share/bash-completion/completions/uopctl": ("completion", "bash"), "share/zsh/site-functions/_uopctl": ("completion", "zsh")}
    for name, arguments in made.items():
      assert (prefix / name).read_text() == run(uopctl, *arguments), f"{name} is an old one"
    for page in prefix.glob("share/man/man*/*"):
      if not shutil.which("man"): continue
      assert "EXIT STATUS" in run("man", "-l", page), page
      complaints = subprocess.run(["man", "--warnings", "-l", page], capture_output=True, text=True, env={"LC_ALL": "C.UTF-8", "MANWIDTH": "80", "PATH": "/usr/bin:/bin"})
      assert not complaints.stderr, complaints.stderr


main(*sys.argv[1:])
