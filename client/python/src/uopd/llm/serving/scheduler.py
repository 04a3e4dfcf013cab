# SPDX-License-Identifier: MIT
"""Drives a batch with one thread, for requests of many."""
from __future__ import annotations

import collections
import queue
import threading
from collections.abc import Callable

from ..batch import Batch, Sequence
from ..sampling import Sampling


class Full(Exception):
  """As many generations wait as may."""


class Generation:
  """Tokens that somebody waits for. `Scheduler.begin` makes it.

  events: each token, and at the end None, or the error that ended it: a ConnectionError if it was not wanted any more. reason, before None: stop (the model has ended) or length.
  `cancel` is for any thread.
  """
  def __init__(self, prompt: list[int], most: int | None, sampling: Sampling, is_wanted: Callable[[], bool]) -> None:
    self.prompt, self.most, self.sampling = prompt, most, sampling
    self.events: queue.SimpleQueue[int | Exception | None] = queue.SimpleQueue()
    self.reason = "length"
    self.is_wanted = is_wanted
    self._is_cancelled = False

  def cancel(self) -> None:
    """Nobody waits for more tokens."""
    self._is_cancelled = True

  @property
  def is_over(self) -> bool: return self._is_cancelled or not self.is_wanted()


class Scheduler:
  """Owns a batch: its thread is the only one that uses it. Generations wait for a place of the batch in the order in which they came. Thread-safe."""
  def __init__(self, batch: Batch, is_end: Callable[[int], bool], most_waiting: int) -> None:
    """is_end: whether a token ends a sequence."""
    self.batch, self._is_end, self._most_waiting = batch, is_end, most_waiting
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
      try: self._step()
      except Exception as e:
        for g in self._running.values(): g.events.put(e)
        self._running.clear()

  def _step(self) -> None:
    for s, g in list(self._running.items()):
      if g.is_over:
        self._leave(s)
        g.events.put(ConnectionAbortedError())
    with self._changed:
      over = [g for g in self._waiting if g.is_over]
      for g in over:
        self._waiting.remove(g)
        g.events.put(ConnectionAbortedError())
      joining = [self._waiting.popleft() for _ in range(min(self.batch.free, len(self._waiting)))]
    for g in joining: self._running[self.batch.join(g.prompt, g.most, g.sampling)] = g
    if not self._running: return
    for s, token in self.batch.step():
      g = self._running[s]
      if self._is_end(token): g.reason = "stop"
      else: g.events.put(token)
      if s.done or g.reason == "stop":
        self._leave(s)
        g.events.put(None)

  def _leave(self, sequence: Sequence) -> None:
    self.batch.leave(sequence)
    del self._running[sequence]
