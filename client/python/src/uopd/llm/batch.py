# SPDX-License-Identifier: MIT
"""Several sequences of one model that are computed together. They join and leave between steps."""
from __future__ import annotations

import collections
import dataclasses
import math
import operator
import statistics
import time
from typing import Any, Iterable, Iterator

from .. import _core, runtime
from ..dtype import dtypes
from ..jit import TinyJit
from ..tensor import Tensor
from ..variable import Size, Variable
from .model import AHEAD, CHUNK, LONG, Model
from .places import Rows, Span
from .sampling import GREEDY, LAST, Sampling, choose, settings


class Sequence:
  """One sequence of a batch. `Batch.join` makes it.

  prompt: its first tokens. said: the tokens that followed, as far as they have come. done: whether no more will come.
  """
  def __init__(self, prompt: list[int], most: int, sampling: Sampling, slot: _Slot, known: int) -> None:
    self.prompt, self.said, self.done = prompt, list[int](), False
    self._most, self._sampling, self._slot = most, sampling, slot
    self._known = known  # tokens of the prompt whose keys and values the slot has, or is about to have
    self._asked = 0      # tokens behind the prompt that have come or are asked for

  @property
  def _has_more(self) -> bool:
    """Whether a step can compute another token of it."""
    return not self.done and 0 < self._asked < self._most


class _Slot:
  """Memory for one sequence: a row of the caches."""
  def __init__(self, number: int) -> None: self.number, self.seen, self.is_free = number, list[int](), True


@dataclasses.dataclass
class _Loop:
  """Steps that were asked for together."""
  sequences: list[Sequence]
  left: int  # steps that have not come
  steps: Iterator[tuple[Any, ...]]  # the tokens of the rows, and whether one of these is the last of its sequence


class _Ahead:
  """How many steps are asked for ahead: enough for the daemon to be busy while an answer and the next request travel."""
  MOST = 128

  def __init__(self, anything: Tensor) -> None:
    """Measures how long a message and its answer travel."""
    self.steps, self.part = AHEAD + 1, 1  # in all, and in one loop
    self._gaps: collections.deque[float] = collections.deque(maxlen=16)  # between steps that came, in seconds
    self._last = math.nan
    trips = []
    for _ in range(4):
      begin = time.perf_counter()
      (anything + 1).numpy()
      trips.append(time.perf_counter() - begin)
    self._trip = min(trips[1:])

  def came(self) -> None:
    """A step has come."""
    now = time.perf_counter()
    if now - self._last > 0: self._gaps.append(now - self._last)
    self._last = now
    # The median: steps that were already here come at once, and a daemon without work lets one wait for a whole trip.
    if self._gaps: self.steps = min(max(AHEAD + 1, math.ceil(self._trip / statistics.median(self._gaps)) + 2), self.MOST)
    self.part = self.steps // 2 if self.steps > AHEAD + 1 else 1


def _common(a: list[int], b: list[int]) -> int:
  n = 0
  while n < min(len(a), len(b)) and a[n] == b[n]: n += 1
  return n


class Batch:
  """Computes up to `slots` sequences of a model at once, each of at most `context` tokens. The tokens of a sequence do not depend on what else is computed, but for how sums are rounded.

  A step computes one token of every sequence: the weights are read once for all of them. The prompt of a sequence that joins is computed in parts between these steps. A recording for
  each power of two serves all numbers of sequences below it, one where all take the likeliest tokens and one for everything else: after the first steps no graph is sent, whoever joins
  and leaves with whatever settings. Steps are asked for before those ahead have come, as many as the way to the daemon and back takes, in loops that the daemon ends by itself where a
  sequence comes to one of the tokens `ends`. The batch has caches of its own, beside that of the model. Not for several threads at once.
  """
  def __init__(self, model: Model, slots: int = 4, context: int | None = None, ends: Iterable[int] = ()) -> None:
    """context: no more than the model's max_context, which it is without one. ends: tokens that end a sequence; each is its last one."""
    if not 1 <= slots <= 64: raise ValueError(f"slots is {slots}; 1 to 64 are possible")
    if context is not None and context < 1: raise ValueError(f"context is {context}")
    self.model, self.context = model, min(context or model.max_context, model.max_context)
    c = model.config
    self._slots = [_Slot(i) for i in range(slots)]
    # One more row, which the rows of a step work on that belong to no sequence.
    self._caches = [Tensor.zeros(slots + 1, 2, c.shared_heads, self.context, c.head_width).contiguous().realize() for _ in range(c.layers)]
    # The tokens at all positions, (rows, LAST + positions), behind LAST that are -1. A step reads its inputs there, and writes what it has chosen.
    self._tokens = self._no_tokens().contiguous().realize()
    self._counts = Tensor.zeros(slots + 1, c.words).contiguous().realize()  # how often each word was said behind the prompt; not for sequences that are greedy
    self._is_whole = True  # whether the memory has contents: the daemon loses what a run wrote as it was cut off
    self._sizes = sorted({min(n, self.context) for n in (CHUNK, LONG)})  # of parts of prompts
    self._recordings: dict[tuple[int, bool], TinyJit[tuple[Tensor, ...]]] = {}  # of steps by their number of rows, of parts of prompts by their length below 0; and whether they are random
    self._settings: tuple[list[Sampling], list[Tensor]] = ([], [])  # the latest ones of a step, and these on the daemon
    self._joining: collections.deque[Sequence] = collections.deque()
    self._running: list[Sequence] = []
    self._ends = frozenset(operator.index(t) for t in ends)
    self._end_tokens = Tensor(sorted(self._ends) or [-1], dtype=dtypes.int32).realize()
    # Whether a sequence came to its end in the latest step. The daemon runs no loop behind such a step that was asked for before it is known here.
    self._over = Tensor.zeros(1, dtype=dtypes.int32).contiguous().realize()
    self._resumes = True  # whether the next loop is run although it is so: that is known here
    self._coming: collections.deque[tuple[Sequence, _core.Reading] | _Loop] = collections.deque()  # first tokens behind prompts, and steps
    self._ahead = _Ahead(self._over)

  @property
  def free(self) -> int:
    """How many sequences can join."""
    return sum(s.is_free for s in self._slots)

  def join(self, prompt: list[int], most: int | None = None, sampling: Sampling = GREEDY) -> Sequence:
    """A new sequence: at most `most` tokens will follow the prompt, and no more than the context has room for. Tokens at the beginning of the prompt that are in the memory of a sequence
    that has ended are not computed again. Errors are those of Model.generate; RuntimeError without a free place."""
    prompt = self.checked(prompt)
    if most is not None and operator.index(most) < 1: raise ValueError(f"most is {most}")
    free = [s for s in self._slots if s.is_free]
    if not free: raise RuntimeError(f"all {len(self._slots)} places of the batch are taken")
    # What is longest in common; without anything in common the place whose memory is worth least.
    slot = max(free, key=lambda s: (_common(s.seen, prompt), -len(s.seen)))
    known = min(_common(slot.seen, prompt), len(prompt) - 1)
    room = self.context - len(prompt) + 1
    slot.is_free = False
    sequence = Sequence(prompt, room if most is None else min(most, room), sampling, slot, known)
    self._joining.append(sequence)
    return sequence

  def warm_up(self) -> None:
    """Computes steps of all kinds, so that nothing is compiled afterwards. The batch must be empty."""
    sizes = sorted({min(1 << i, len(self._slots)) for i in range(7)})
    ends, self._ends = self._ends, frozenset()  # otherwise fewer sequences would be left
    for sampling in (GREEDY, Sampling(1.0)):
      for i, n in enumerate(self._sizes * 2):  # the first two of a length make the recording
        self.join([i % self.model.config.words] * n, 1, sampling)
        while self.step(): pass
      for n in sizes:
        for i in range(n): self.join([i % self.model.config.words], n + 4, sampling)
        while self.step(): pass
    self._ends = ends

  def checked(self, prompt: list[int]) -> list[int]:
    """The prompt, if it can join; ValueError or TypeError else."""
    prompt = [operator.index(t) for t in prompt]
    if not prompt: raise ValueError("the prompt has no tokens")
    if len(prompt) > self.context: raise ValueError(f"the prompt has {len(prompt)} tokens; the context has {self.context}")
    wrong = [t for t in prompt if not 0 <= t < self.model.config.words]
    if wrong: raise ValueError(f"the prompt has the token {wrong[0]}; the model has {self.model.config.words} words")
    return prompt

  def leave(self, sequence: Sequence) -> None:
    """Ends a sequence. Its place is free from now on; steps that were asked for are computed for nothing."""
    if sequence.done: return
    sequence.done = True
    # The last token that has come is in the caches only if a step behind it was asked for.
    computed = sequence.prompt[:sequence._known] + sequence.said[:max(sequence._asked - 1, 0)]
    sequence._slot.seen, sequence._slot.is_free = computed, True
    if sequence in self._joining: self._joining.remove(sequence)
    if sequence in self._running: self._running.remove(sequence)

  def step(self) -> list[tuple[Sequence, int]]:
    """Waits for the next tokens: sequences, each with its next token. A sequence that has all its tokens leaves. [] when there is nothing to compute.

    After an error all sequences have ended.
    """
    try:
      self._repair()
      while True:
        while self._asked_ahead() < self._ahead.steps and self._ask(): pass
        if not self._coming: return []
        found = [(s, t) for s, t in self._next() if not s.done]
        for s, t in found:
          s.said.append(t)
          if len(s.said) == s._most or t in self._ends: self.leave(s)
        if found: return found
    except BaseException:  # Ctrl-C too, which cancels what was asked for
      for s in [*self._joining, *self._running]: self.leave(s)
      for slot in self._slots: slot.seen = []
      self._coming.clear()
      self._is_whole = False
      raise

  def _asked_ahead(self) -> int: return sum(x.left if isinstance(x, _Loop) else 1 for x in self._coming)

  def _next(self) -> list[tuple[Sequence, int]]:
    """Waits for the tokens of the first step, or of the first prompt, that has not come."""
    first = self._coming[0]
    if not isinstance(first, _Loop):
      self._coming.popleft()
      return [(first[0], int.from_bytes(first[1].contents(), "little", signed=True))]
    came = next(first.steps, None)
    self._ahead.came()
    assert came is not None, "a loop ended before its steps"
    tokens, over = came
    first.left -= 1
    if over[0]: self._end_loops()
    elif not first.left: self._coming.popleft()
    return list(zip(first.sequences, tokens.tolist()))

  def _end_loops(self) -> None:
    """A step was the last one of its loop. What was asked for behind it is not run, but for prompts."""
    for x in self._coming:
      if not isinstance(x, _Loop): continue
      for s in x.sequences: s._asked -= x.left
    self._coming = collections.deque(x for x in self._coming if not isinstance(x, _Loop))
    self._resumes = True

  def _no_tokens(self) -> Tensor: return Tensor.full((len(self._slots) + 1, LAST), -1, dtype=dtypes.int32).cat(Tensor.zeros(len(self._slots) + 1, self.context + 1, dtype=dtypes.int32), dim=1)

  def _repair(self) -> None:
    """Gives the memory contents again, where the recordings have it."""
    if self._is_whole: return
    self._tokens.assign(self._no_tokens())
    for t in (self._counts, *self._caches): t.assign(Tensor.zeros(*t.shape))
    self._over.assign(Tensor.zeros(1, dtype=dtypes.int32))
    Tensor.realize(self._tokens, self._counts, self._over, *self._caches)
    self._is_whole = self._resumes = True

  def _ask(self) -> bool:
    """Asks for a part of a prompt, and for a step of the sequences behind theirs. False if there is nothing to ask for."""
    running = [s for s in self._running if s._has_more]  # without one whose prompt ends in this part: its first token is read before the next ones
    if self._joining: self._ask_part(self._joining[0])
    elif not running: return False
    return not running or self._ask_step(running) or bool(self._joining)

  def _ask_part(self, sequence: Sequence) -> None:
    prompt, sizes = sequence.prompt, self._sizes[:1] if self._running else self._sizes  # nobody waits for more than a short part
    n = max(n for n in sizes if n - sizes[0] < len(prompt) - sequence._known)
    # A part must have room at its longest. Near the end of the context it begins earlier, with tokens that are computed once more.
    at = min(sequence._known, self.context - n)
    end = min(len(prompt), at + n)
    part = Tensor(prompt[at:end] + [0] * (n - (end - at)), dtype=dtypes.int32).realize()  # of constant length: axes of symbolic length are computed more slowly
    count = Variable("count", 1, n).bind(end - at)
    slot, at0 = Variable("slot", 0, len(self._slots)).bind(sequence._slot.number), Variable("at", 0, self.context - 1).bind(at)
    random = [] if sequence._sampling.is_greedy else list(settings([sequence._sampling]))
    token, = self._recording(-n, bool(random))(part, count, slot, at0, random)
    sequence._known = end
    if end < len(prompt): return
    self._joining.popleft()
    self._running.append(sequence)
    sequence._asked = 1
    self._coming.append((sequence, _core.begin_read(token._h)))

  def _ask_step(self, running: list[Sequence]) -> bool:
    """False if steps that were asked for have to come first."""
    rows = min(1 << (len(running) - 1).bit_length(), len(self._slots))
    pads = rows - len(running)
    places = [(s._slot.number, len(s.prompt) + s._asked - 1) for s in running] + [(len(self._slots), 0)] * pads
    chosen = [s._sampling for s in running] + [GREEDY] * pads
    is_random = not all(s.is_greedy for s in chosen)
    if is_random and self._settings[0] != chosen: self._settings = chosen, list(settings(chosen))
    slots = [Variable(f"slot{i}", 0, len(self._slots)).bind(slot) for i, (slot, _) in enumerate(places)]
    ats = [Variable(f"at{i}", 0, self.context - 1).bind(at) for i, (_, at) in enumerate(places)]
    recording, settings_now = self._recording(rows, is_random), self._settings[1] if is_random else []
    room = min(s._most - s._asked for s in running)
    steps = 1
    loop: Iterator[tuple[Any, ...]]
    if recording.captured and runtime.jit:
      steps = min(self._ahead.part, room)
      loop = recording.repeat(steps, slots, ats, settings_now, advance={f"at{i}": 1 for i in range(len(running))}, until=1, unless_over=not self._resumes)
    elif any(isinstance(x, _Loop) for x in self._coming): return False  # this step is run however those end
    else: loop = iter([tuple(t.numpy() for t in recording(slots, ats, settings_now))])
    self._resumes = False
    for s in running: s._asked += steps
    self._coming.append(_Loop(list(running), steps, loop))
    return True

  def _recording(self, rows: int, is_random: bool) -> TinyJit[tuple[Tensor, ...]]:
    key = rows, is_random
    if key not in self._recordings: self._recordings[key] = TinyJit(self._step_of if rows > 0 else self._part_of)
    return self._recordings[key]

  def _part_of(self, tokens: Tensor, count: Size, slot: Size, at: Size, random: list[Tensor]) -> tuple[Tensor, ...]:
    """Computes a part of a prompt, of which the first `count` tokens count; gives the token behind these."""
    self._tokens[slot:slot + 1, at + LAST:at + count + LAST].assign(tokens[:count].reshape(1, count))
    scores = self.model.scores(tokens, Span(self.model.config, self._caches, slot, at, tokens.shape[0]), count)
    return self._chosen(scores, [slot], [at + count], random, begins=True)

  def _step_of(self, slots: list[Size], ats: list[Size], random: list[Tensor]) -> tuple[Tensor, ...]:
    """Computes the token at each position; gives those behind them, and whether one of these ends its sequence."""
    inputs = [self._tokens[slot, at + LAST:at + LAST + 1] for slot, at in zip(slots, ats)]
    places = Rows([Span(self.model.config, self._caches, slot, at, 1) for slot, at in zip(slots, ats)])
    scores = self.model.scores(inputs[0].cat(*inputs[1:]), places)
    return self._chosen(scores, slots, [at + 1 for at in ats], random, begins=False)

  def _chosen(self, scores: Tensor, slots: list[Size], positions: list[Size], random: list[Tensor], begins: bool) -> tuple[Tensor, ...]:
    """Chooses the token of each row for its position, and writes down what the next steps need. random: the settings, or nothing for the likeliest tokens.
    begins: whether these are the first tokens behind prompts."""
    def joined(parts: list[Tensor]) -> Tensor: return parts[0].cat(*parts[1:]).contiguous()
    if random:
      recent = joined([self._tokens[slot:slot + 1, p:p + LAST] for slot, p in zip(slots, positions)])
      at = joined([Tensor.zeros(1, 1, dtype=dtypes.int32) + p for p in positions])
      counts = Tensor.zeros(*scores.shape).contiguous() if begins else joined([self._counts[slot:slot + 1] for slot in slots])
      tokens = choose(scores, random[0], random[1], at, recent, counts).contiguous()
      counts = counts + (tokens.reshape(-1, 1) == Tensor.arange(scores.shape[1], dtype=dtypes.int32).reshape(1, -1))
      for i, slot in enumerate(slots): self._counts[slot:slot + 1].assign(counts[i:i + 1])
    else: tokens = scores.argmax(-1).cast(dtypes.int32).contiguous()
    for i, (slot, p) in enumerate(zip(slots, positions)): self._tokens[slot:slot + 1, p + LAST:p + LAST + 1].assign(tokens[i:i + 1].reshape(1, 1))
    if begins:
      Tensor.realize(tokens, self._tokens, self._counts, *self._caches)
      return tokens,
    is_sequence = joined([Tensor.zeros(1, dtype=dtypes.int32) + slot for slot in slots]) < len(self._slots)
    ended = (tokens.reshape(-1, 1) == self._end_tokens.reshape(1, -1)).any(1) & is_sequence
    self._over.assign(ended.any().cast(dtypes.int32).reshape(1))
    Tensor.realize(tokens, self._tokens, self._counts, self._over, *self._caches)
    return tokens, self._over
