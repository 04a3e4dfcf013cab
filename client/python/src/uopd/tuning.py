# SPDX-License-Identifier: MIT
"""Tuning operations: the daemon searches for faster kernels of a graph. An operation goes on without the client that started it.

>>> from uopd import Tensor, tuning
>>> x = Tensor.ones(16, 16).contiguous().realize()
>>> operation = tuning.start(x @ x, beam=2, candidates=6)
>>> operation.wait().tune.state
'done'

The winners are used by requests with the same beam, of all clients: compute with `Context(BEAM=2)`, or set `tune.beam` of the daemon.
An operation belongs to the tenant that started it (docs/operations/deploying.md); others do not see it.
"""
from __future__ import annotations

import atexit
import math
import os
import time
from typing import Any, Generator, Iterator, NamedTuple, Sequence

from . import _core
from .errors import FailedPrecondition
from .jit import TinyJit
from .runtime import client
from .tensor import Tensor

atexit.register(_core.tune_close_watches)


class Tune(NamedTuple):
  """A tuning operation at one moment. Counts are sums over its kernels.

  state: "planning", "running", "done"; "failed": the graph cannot be planned any more; "cancelled"; "interrupted": the daemon
  ended again and again during it. error: why it failed or was interrupted. host: the daemon that runs it. waits_for: for what it
  waits, if nothing is searched.
  graph: SHA-256 of the graph, hexadecimal. budget_ms, budget_candidates: limits, 0: none. spent_ms: time of its searches.
  candidates: what counts for the budget. pruned, duplicates: see `Kernel`. created_unix_us, ended_unix_us: microseconds since
  1970, 0: not yet. attempts: daemons that began with it, since anything was found.
  kernels: how many there are; the others count those in a state of `Kernel`.
  """
  id: str
  title: str
  tenant: str
  state: str
  error: str
  waits_for: str
  host: str
  graph: str
  beam: int
  budget_ms: int
  budget_candidates: int
  spent_ms: int
  candidates: int
  pruned: int
  duplicates: int
  created_unix_us: int
  ended_unix_us: int
  attempts: int
  kernels: int
  kernels_searching: int
  kernels_tuned: int
  kernels_found: int
  kernels_failed: int
  kernels_skipped: int

  @property
  def over(self) -> bool:
    """True once nothing happens any more, unless somebody resumes it."""
    return self.state not in ("planning", "running")


class Point(NamedTuple):
  """A candidate that was measured.

  candidate: its number among those that were measured or failed, from 1. seconds: time of one run.
  """
  candidate: int
  seconds: float


class Kernel(NamedTuple):
  """A kernel of a tuning operation at one moment.

  number: from 0; those that are expected to take most of the time come first. launches: in one run of the program.
  state: "pending", "waiting", "searching", "tuned", "found" (it was tuned before, or by somebody else),
  "failed", "skipped" (the budget was used up). detail: for what it waits (the search of another daemon, programs before it, a worker), or why
  it failed or was skipped.
  opts, trying: of the best candidate, and of the one that was tried last. best_seconds, heuristic_seconds: time of one run of the
  best candidate, and of the choice without tuning; None: not known. limited: the search ended early, because of the budget.
  Candidates are counted apart: measured; failed to compile or to run; pruned: made and not measured, because the search expected too
  little of them (the number may fall while it goes on); duplicates: not measured, because they gave the program of an earlier one.
  points: what was measured in the present search, in this order. Of a long search only some, at most 512: those that were the fastest
  when they came, the last one, and others.
  """
  number: int
  name: str
  device: str
  launches: int
  state: str
  detail: str
  opts: str
  trying: str
  best_seconds: float | None
  heuristic_seconds: float | None
  measured: int
  failed: int
  pruned: int
  duplicates: int
  search_ms: int
  limited: bool
  points: tuple[Point, ...]

  @property
  def speedup(self) -> float | None:
    """The time without tuning divided by the best one. None: not known."""
    return self.heuristic_seconds / self.best_seconds if self.heuristic_seconds and self.best_seconds else None

  def best_points(self) -> list[Point]:
    """The points that were the fastest when they came: how the best time fell with the number of candidates."""
    best: list[Point] = []
    for point in self.points:
      if not best or point.seconds < best[-1].seconds: best.append(point)
    return best


class Progress(NamedTuple):
  """What is known about an operation: itself, all its kernels, and the numbers of those that changed since the progress before."""
  tune: Tune
  kernels: tuple[Kernel, ...]
  changed: tuple[int, ...]


def _ms(seconds: float | None) -> int:
  """A limit of time for the daemon, which knows 0 as no limit."""
  if seconds is None: return 0
  if not math.isfinite(seconds) or seconds <= 0: raise ValueError(f"a budget is a time above 0 in seconds, or None, not {seconds}")
  return max(1, round(seconds * 1000))


def _count(candidates: int | None) -> int:
  if candidates is None: return 0
  if not 0 < candidates < 2**63: raise ValueError(f"a number of candidates is above 0, or None, not {candidates}")
  return candidates


class Operation:
  """A tuning operation of the daemon, by its id. `start`, `start_jit` and `attach` make it.

  It uses the connection that was the one of new tensors when it was made, and may be used by several threads.
  """
  def __init__(self, id: str) -> None:
    self._client = client()
    self.id = id

  def __repr__(self) -> str: return f"<tuning operation {self.id}>"

  def _news(self, timeout: float | None) -> Generator[Progress, None, None]:
    """Progress after progress, until it is over; DeadlineExceeded after `timeout` seconds."""
    limit = None if timeout is None else time.monotonic() + timeout
    kernels: dict[int, Kernel] = {}
    watch = _core.tune_watch(self._client, self.id)
    try:
      while (news := watch.next(None if limit is None else max(0.0, limit - time.monotonic()))) is not None:
        if news["replaced"]: kernels = {}
        changed = [Kernel(**{**k, "points": tuple(Point(*p) for p in k["points"])}) for k in news["kernels"]]
        kernels.update((k.number, k) for k in changed)
        yield Progress(Tune(**news["tune"]), tuple(kernels[n] for n in sorted(kernels)), tuple(k.number for k in changed))
    finally: watch.close()

  def watch(self) -> Iterator[Progress]:
    """What is known now, and then what changes, until the operation is over. The last one has `tune.over`.

    A loop that is slow gets fewer progresses. Leaving the loop, or Ctrl-C, leaves the operation alone. If the daemon goes away, the
    watch goes on when it is back within two minutes. Raises ResourceExhausted if too many watch.
    """
    return self._news(None)

  def wait(self, timeout: float | None = None) -> Progress:
    """Waits until the operation is over, for at most `timeout` seconds: then it raises DeadlineExceeded, and the operation goes on."""
    last: Progress | None = None
    for last in self._news(timeout): pass
    assert last is not None  # the daemon says something before it ends the stream
    return last

  def progress(self) -> Progress:
    """What is known now."""
    news = self._news(None)
    try: return next(news)
    finally: news.close()

  def cancel(self) -> Tune:
    """Ends it; winners that it has found stay. FailedPrecondition: it is over, or another daemon runs it."""
    return Tune(**_core.tune_cancel(self._client, self.id))

  def resume(self, *, budget: float | None = None, candidates: int | None = None) -> Tune:
    """Goes on with an operation that is over and has left kernels out. `budget` (seconds) and `candidates` add to what it had.

    FailedPrecondition: it is not over, has left nothing out, or has used up its budget and gets no more.
    """
    return Tune(**_core.tune_resume(self._client, self.id, _ms(budget), _count(candidates)))


def _start(graph: _core.TuneGraph, beam: int | None, budget: float | None, candidates: int | None, again: bool, request_id: str,
           title: str) -> Operation:
  if beam is not None and not 1 <= beam <= 64: raise ValueError(f"a beam is between 1 and 64, not {beam}")
  return Operation(_core.tune_start(client(), graph, beam, again, _ms(budget), _count(candidates), request_id, title)["id"])


def start(what: Tensor | Sequence[Tensor] | str | bytes | os.PathLike[str], *, beam: int | None = None, budget: float | None = None,
          candidates: int | None = None, again: bool = False, request_id: str = "", title: str = "") -> Operation:
  """Starts to tune the kernels of a graph. Nothing is computed, except by the searches.

  what: a tensor, or tensors that are computed in one request, none of which is realised yet; or a graph: its text (docs/ir.md), its
  wire form as bytes, or the `pathlib.Path` of a file with its text.
  beam: 1 to 64; None: that of the settings (`Context(BEAM=n)`), or `tune.beam` of the daemon. The other settings of a `Context`
  count as for a request.
  budget: seconds for the searches of all kernels together; candidates: the same for candidates. The kernels that take most of the
  time come first and get most of it. None: no limit.
  again: tune also what was tuned before. title: a name for people.
  request_id: not empty: a second call with this id gives the operation of the first.

  InvalidArgument: no beam, a bad graph, or nothing to compute. ResourceExhausted: too many operations are not over.
  """
  c = client()
  if isinstance(what, (Tensor, list, tuple)):
    tensors: Sequence[Any] = [what] if isinstance(what, Tensor) else what
    for t in tensors:
      if not isinstance(t, Tensor): raise TypeError(f"tensors are tuned, not {type(t).__name__}")
    graph = _core.tune_tensors(c, [t._h for t in tensors])
  elif isinstance(what, bytes): graph = _core.tune_bytes(c, what)
  elif isinstance(what, str): graph = _core.tune_text(c, what)
  elif isinstance(what, os.PathLike):
    with open(what, encoding="utf-8") as file: graph = _core.tune_text(c, file.read())
    title = title or os.path.basename(what)[:256]
  else: raise TypeError(f"start takes tensors or a graph, not {type(what).__name__}; start_jit takes a function under TinyJit")
  return _start(graph, beam, budget, candidates, again, request_id or os.urandom(16).hex(), title)


def start_jit(function: TinyJit[Any], *, beam: int | None = None, budget: float | None = None, candidates: int | None = None,
              again: bool = False, title: str = "") -> list[Operation]:
  """Starts to tune what the replays of a function under TinyJit send: an operation for each graph, mostly one.

  Replays use the winners if they were recorded with the same beam: `reset()` the function afterwards and call it twice within
  `Context(BEAM=n)`, or set `tune.beam` of the daemon. beam None: the one with which it was recorded. The rest is as for `start`; `budget`
  and `candidates` are of each operation.

  FailedPrecondition: nothing is recorded, because the function was not called twice.
  """
  graphs = function._jit.graphs() if function.captured and function._jit is not None else []
  if not graphs: raise FailedPrecondition("this TinyJit has recorded nothing: call it twice first")
  title = title or getattr(function, "__name__", "")[:256]
  return [_start(g, beam, budget, candidates, again, os.urandom(16).hex(), title) for g in graphs]


def attach(id: str) -> Operation:
  """An operation that runs or is over, by its id or the first digits of it. NotFound: there is none of this tenant."""
  operation = Operation(id)
  operation.id = operation.progress().tune.id
  return operation


def operations() -> list[Tune]:
  """The operations of this tenant that the daemon knows, the newest first. Operators see all."""
  return [Tune(**t) for t in _core.tune_list(client())]
