# SPDX-License-Identifier: MIT
"""Drives a batch with one thread, for requests of many."""
from __future__ import annotations

import collections
import queue
import threading
from collections.abc import Callable

from ...errors import FailedPrecondition, Unavailable
from ..again import loaded_again
from ..batch import Batch, Sequence
from ..sampling import Sampling


class Full(Exception):
  """As many generations wait as may."""


class Unwanted(Exception):
  """Nobody waits for the tokens any more."""


class Generation:
  """Tokens that somebody waits for. `Scheduler.begin` makes it.

  events: each token, and at the end None, or the error that ended it, Unwanted or what the batch raised. reason, before None: stop (the model has ended) or length.
  `cancel` is for any thread.
  """
  def __init__(self, prompt: list[int], most: int | None, sampling: Sampling, is_wanted: Callable[[], bool]) -> None:
    self.prompt, self.most, self.sampling = prompt, most, sampling
    self.events: queue.SimpleQueue[int | Exception | None] = queue.SimpleQueue()
    self.reason = "length"
    self.is_wanted = is_wanted
    self.has_begun = False  # whether a token has come
    self.is_repeated = False  # whether it has been begun twice, because the daemon was not there at first
    self._is_cancelled = False

  def cancel(self) -> None:
    """Nobody waits for more tokens."""
    self._is_cancelled = True

  @property
  def is_over(self) -> bool: return self._is_cancelled or not self.is_wanted()


class Scheduler:
  """Owns a batch: its thread is the only one that uses it. Generations wait for a place of the batch in the order in which they came. Thread-safe."""
  def __init__(self, batch: Batch, is_end: Callable[[int], bool], most_waiting: int, again: Callable[[], Batch] | None = None) -> None:
    """is_end: whether a token ends a sequence. again: makes the batch once more, with the same model, where the daemon was restarted and has lost it; its thread calls it. None: such a
    loss is for ever."""
    self.batch, self._is_end, self._most_waiting, self._again = batch, is_end, most_waiting, again
    self._is_lost = False  # whether the daemon has lost the batch
    self._waiting: collections.deque[Generation] = collections.deque()
    self._running: dict[Sequence, Generation] = {}  # touched by the thread alone
    self._changed = threading.Condition()
    self._is_closed = False
    self._thread = threading.Thread(target=self._work, name="uopd-llm", daemon=True)
    self._thread.start()

  def begin(self, prompt: list[int], most: int | None, sampling: Sampling, is_wanted: Callable[[], bool]) -> Generation:
    """Begins a generation. is_wanted is asked before every step, by the thread, and must not wait: where it is False, the generation ends. ValueError for a prompt that cannot be;
    Full if too many wait."""
    generation = Generation(self.batch.checked(prompt), most, sampling, is_wanted)
    with self._changed:
      if self._is_closed: raise RuntimeError("the server ends")
      if len(self._waiting) >= self._most_waiting: raise Full(f"{len(self._waiting)} requests wait already")
      self._waiting.append(generation)
      self._changed.notify()
    return generation

  @property
  def running(self) -> int:
    """How many generations have a place."""
    return len(self._running)

  def close(self) -> None:
    """Ends all generations, and the thread."""
    with self._changed:
      self._is_closed = True
      self._changed.notify()
    self._thread.join()

  def _work(self) -> None:
    while True:
      with self._changed:
        self._changed.wait_for(lambda: self._waiting or self._running or self._is_closed)
        if self._is_closed:
          for g in [*self._waiting, *self._running.values()]: g.events.put(RuntimeError("the server ends"))
          return
      try:
        if self._is_lost: self._load()
        self._step()
      except Exception as e: self._fail(e)

  def _load(self) -> None:
    assert self._again is not None
    try: self.batch = loaded_again(self._again)
    except Exception as e:
      with self._changed: waiting, self._waiting = self._waiting, collections.deque()
      for g in waiting: g.events.put(e)
      raise
    self._is_lost = False

  def _fail(self, error: Exception) -> None:
    """Ends the generations that have a place; those without a token wait once more if the daemon was restarted."""
    if self._again is not None and isinstance(error, FailedPrecondition): self._is_lost = True
    ended = list(self._running.values())
    self._running.clear()
    for g in reversed(ended):
      if isinstance(error, (FailedPrecondition, Unavailable)) and not g.has_begun and not g.is_repeated:
        g.is_repeated = True
        with self._changed: self._waiting.appendleft(g)
      else: g.events.put(error)

  def _step(self) -> None:
    for s, g in list(self._running.items()):
      if g.is_over:
        self._leave(s)
        g.events.put(Unwanted())
    with self._changed:
      over = [g for g in self._waiting if g.is_over]
      for g in over:
        self._waiting.remove(g)
        g.events.put(Unwanted())
      joining = [self._waiting.popleft() for _ in range(min(self.batch.free, len(self._waiting)))]
    for g in joining: self._running[self.batch.join(g.prompt, g.most, g.sampling)] = g
    if not self._running: return
    for s, token in self.batch.step():
      g = self._running[s]
      g.has_begun = True
      if self._is_end(token): g.reason = "stop"
      else: g.events.put(token)
      if s.done or g.reason == "stop":
        self._leave(s)
        g.events.put(None)

  def _leave(self, sequence: Sequence) -> None:
    self.batch.leave(sequence)
    del self._running[sequence]
