# SPDX-License-Identifier: MIT
"""What programs import beside tensors: environment variables, files, counters, times."""
from __future__ import annotations

import collections
import contextlib
import functools
import operator
import os
import pathlib
import sys
import time
from typing import Any, Callable, Iterable, TypeVar

from . import runtime
from .context_var import BEAM as BEAM, DEBUG as DEBUG, FLOAT16 as FLOAT16, IMAGE as IMAGE, JIT as JIT, NOOPT as NOOPT, RING as RING
from .context_var import TRAINING as TRAINING, WINO as WINO, ContextVar as ContextVar
from .runtime import Context as Context

T = TypeVar("T")


def getenv(key: str, default: Any = 0) -> Any:
  """An environment variable as a value of the type of the default.

  >>> getenv("NO_SUCH_VARIABLE", 3), getenv("NO_SUCH_VARIABLE", "x")
  (3, 'x')
  """
  return type(default)(os.environ.get(key, default))


def prod(x: Iterable[Any]) -> Any:
  """The product of numbers; 1 of none."""
  return functools.reduce(operator.mul, x, 1)


def _downloads() -> pathlib.Path:
  return pathlib.Path(os.environ.get("UOPD_DOWNLOADS") or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "uopd" / "downloads")


def fetch(url: str, name: pathlib.Path | str | None = None, subdir: str | None = None, gunzip: bool = False, allow_caching: bool = True,
          headers: dict[str, str] | None = None, sha256: str | None = None, extract: bool = False) -> pathlib.Path:
  """The path of a file: of a path, of a file: URL, or of what was put into the folder of downloads. Nothing is downloaded: the
  file of another URL is looked for in UOPD_DOWNLOADS (~/.cache/uopd/downloads if it is not set), in `subdir`, by `name` or by the last part of the URL.

  gunzip, extract: the path of what was unpacked, beside the file or in the folder of downloads. sha256: checked. With a `name` that is a path, the file is copied
  there. headers and allow_caching mean nothing here.

  >>> import tempfile, os
  >>> path = os.path.join(tempfile.mkdtemp(), "x"); f = open(path, "w"); f.close()
  >>> fetch("file://" + path) == fetch(path) == pathlib.Path(path)
  True
  """
  import hashlib
  import urllib.parse
  parts = urllib.parse.urlsplit(url)
  if parts.scheme == "file":
    if parts.netloc not in ("", "localhost"): raise ValueError(f"{url} names a file of another machine")
    path = pathlib.Path(urllib.parse.unquote(parts.path))
  elif not parts.scheme or url.startswith(("/", ".")): path = pathlib.Path(url)
  else:
    folder = _downloads() / (subdir or "")
    names = [str(name)] if name is not None else [pathlib.PurePosixPath(urllib.parse.unquote(parts.path)).name, hashlib.md5(url.encode()).hexdigest()]
    path = next((folder / n for n in names if n and (folder / n).is_file()), folder / names[0])
    if not path.is_file():
      raise FileNotFoundError(f"{path} is not there, and nothing is downloaded: put what {url} names there, or name another folder by UOPD_DOWNLOADS")
  if not path.is_file(): raise FileNotFoundError(f"there is no file {path}")
  if sha256 is not None:
    with open(path, "rb") as f: digest = hashlib.file_digest(f, "sha256").hexdigest()
    if digest != sha256: raise RuntimeError(f"the SHA-256 of {path} is {digest}, not {sha256}")
  if gunzip: path = _unpacked(path, ".gunzip", lambda to: _gunzip(path, to))
  if extract: return _unpacked(path, ".extract", lambda to: _extract(path, to))
  return path


def _gunzip(path: pathlib.Path, to: pathlib.Path) -> None:
  import gzip
  import shutil
  with gzip.open(path) as source, open(to, "wb") as out: shutil.copyfileobj(source, out)


def _extract(path: pathlib.Path, to: pathlib.Path) -> None:
  """The regular files of a tar file, none of them outside of the folder."""
  import shutil
  import tarfile
  to.mkdir()
  with tarfile.open(path) as tar:
    for member in tar:
      inside = pathlib.PurePosixPath(member.name)
      if inside.is_absolute() or ".." in inside.parts: raise ValueError(f"{path} has a file outside of its folder: {member.name}")
      source = tar.extractfile(member) if member.isreg() else None
      if source is None: continue
      (to / inside).parent.mkdir(parents=True, exist_ok=True)
      with open(to / inside, "wb") as out: shutil.copyfileobj(source, out)


def _unpacked(path: pathlib.Path, suffix: str, make: Callable[[pathlib.Path], None]) -> pathlib.Path:
  """What make() makes of a file, beside it if that can be written, else in the folder of downloads. It is made once for each state of the file."""
  import tempfile
  beside = path.parent if os.access(path.parent, os.W_OK) else _downloads()
  beside.mkdir(parents=True, exist_ok=True)
  now = path.stat()
  out = beside / f"{path.name}.{now.st_size:x}.{now.st_mtime_ns:x}{suffix}"
  if out.exists(): return out
  with tempfile.TemporaryDirectory(dir=beside) as folder:
    made = pathlib.Path(folder) / "out"
    make(made)
    with contextlib.suppress(OSError): made.rename(out)  # another process was faster
  if not out.exists(): raise OSError(f"{out} cannot be made")
  return out


class _Counters(type):
  """The counters of GlobalCounters, which the connection counts."""
  _begin: dict[str, Any] = {}

  def _since(cls, name: str) -> Any:
    """The counter, less what it was at reset(). A new connection counts from 0."""
    now, before = runtime.counted(), cls._begin
    return now[name] - (before[name] if before.get("client") is now["client"] else 0)
  @property
  def kernel_count(cls) -> int:
    """The kernels that ran since reset()."""
    return int(cls._since("kernels_run"))
  @property
  def time_sum_s(cls) -> float:
    """The time that the daemon took for runs since reset(), in seconds."""
    return float(cls._since("run_us")) / 1e6
  @property
  def mem_used(cls) -> int:
    """The bytes of the tensors of this connection that are with the daemon. reset() leaves it."""
    return sum(runtime.buffer_bytes().values())
  @property
  def mem_used_per_device(cls) -> dict[str, int]:
    """The same for each device; 0 for one that is not in it."""
    return collections.defaultdict(int, runtime.buffer_bytes())
  @property
  def global_ops(cls) -> int:
    """0: the daemon counts no operations."""
    return 0
  @property
  def global_mem(cls) -> int:
    """0: the daemon does not count what kernels read and write."""
    return 0
  def reset(cls) -> None:
    """Counts from 0 on."""
    cls._begin = dict(runtime.counted())


class GlobalCounters(metaclass=_Counters):
  """What the connection of new tensors did: kernel_count, time_sum_s, mem_used, mem_used_per_device; reset() makes them 0, but for the memory.
  kernel_count, time_sum_s and reset() wait until what was sent is done. global_ops and global_mem are 0: the daemon does not count them.

  >>> from uopd import Tensor
  >>> GlobalCounters.reset()
  >>> (Tensor([1.0, 2.0]) + 1).tolist()
  [2.0, 3.0]
  >>> GlobalCounters.kernel_count
  1
  """


class Timing(contextlib.ContextDecorator):
  """Prints the time of a scope, in milliseconds, and what on_exit makes of its nanoseconds."""
  def __init__(self, prefix: str = "", on_exit: Callable[[int], str] | None = None, enabled: bool = True) -> None:
    self.prefix, self.on_exit, self.enabled = prefix, on_exit, enabled
  def __enter__(self) -> Timing:
    self.st = time.perf_counter_ns()
    return self
  def __exit__(self, *exc: object) -> None:
    self.et = time.perf_counter_ns() - self.st
    if self.enabled: print(f"{self.prefix}{self.et * 1e-6:6.2f} ms" + (self.on_exit(self.et) if self.on_exit else ""))


_COLORS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


def colored(st: str, color: str | None, background: bool = False) -> str:
  """A text in a color of the terminal; bright, if the name of the color is in capitals. As it is without a color, or with the variable NO_COLOR."""
  if color is None or os.environ.get("NO_COLOR"): return st
  code = 10 * background + 60 * (color.upper() == color) + 30 + _COLORS.index(color.lower())
  return f"\x1b[{code}m{st}\x1b[0m"


class tqdm(Iterable[T]):
  """An iterable that shows on standard error how far it is, if that is a terminal. set_description() changes the text before it."""
  def __init__(self, iterable: Iterable[T] | None = None, desc: str = "", disable: bool | None = None, unit: str = "it", unit_scale: bool = False,
               total: int | None = None, rate: int = 100) -> None:
    self._of, self.desc, self.unit, self.n = iterable, desc, unit, 0
    self.disable = disable if disable is not None else not sys.stderr.isatty()
    self.t = total if total is not None else len(iterable) if hasattr(iterable, "__len__") else None  # type: ignore[arg-type]
    self._next = 0.0
  def __iter__(self) -> Any:
    for x in self._of or ():
      yield x
      self.update(1)
    self.update(0, close=True)
  def __enter__(self) -> tqdm[T]: return self
  def __exit__(self, *args: object) -> None: self.update(0, close=True)
  def set_description(self, desc: str) -> None:
    """Another text before the count."""
    self.desc = desc
  def update(self, n: int = 0, close: bool = False) -> None:
    """n more are done."""
    self.n += n
    if self.disable or not close and time.monotonic() < self._next: return
    self._next = time.monotonic() + 0.1
    print(f"\r{self.desc}{': ' if self.desc and not self.desc.endswith(': ') else ''}{self.n}{'' if self.t is None else f'/{self.t}'} {self.unit}\x1b[K",
          end="\n" if close else "", file=sys.stderr, flush=True)


class trange(tqdm[int]):
  """tqdm of range(n)."""
  def __init__(self, n: int, **kwargs: Any) -> None: super().__init__(range(n), total=n, **kwargs)
