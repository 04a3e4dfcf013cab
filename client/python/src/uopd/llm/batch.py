# SPDX-License-Identifier: MIT
"""Several sequences of one model that are computed together. They join and leave between steps."""
from __future__ import annotations

import collections
import operator

from .. import _core
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


def _common(a: list[int], b: list[int]) -> int:
  n = 0
  while n < min(len(a), len(b)) and a[n] == b[n]: n += 1
  return n


class Batch:
  """Computes up to `slots` sequences of a model at once, each of at most `context` tokens. The tokens of a sequence do not depend on what else is computed, but for how sums are rounded.

  A step computes one token of every sequence: the weights are read once for all of them. The prompt of a sequence that joins is computed in parts between these steps. A recording for
  each power of two serves all numbers of sequences below it, one where all take the likeliest tokens and one for everything else: after the first steps no graph is sent, whoever joins
  and leaves with whatever settings. The batch has caches of its own, beside that of the model. Not for several threads at once.
  """
  def __init__(self, model: Model, slots: int = 4, context: int | None = None) -> None:
    """context: no more than the model's max_context, which it is without one."""
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
    self._recordings: dict[tuple[int, bool], TinyJit[Tensor]] = {}  # of steps by their number of rows, of parts of prompts by their length below 0; and whether they are random
    self._settings: tuple[list[Sampling], list[Tensor]] = ([], [])  # the latest ones of a step, and these on the daemon
    self._joining: collections.deque[Sequence] = collections.deque()
    self._running: list[Sequence] = []
    self._coming: collections.deque[tuple[list[Sequence], _core.Reading]] = collections.deque()

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
    for sampling in (GREEDY, Sampling(1.0)):
      for i, n in enumerate(self._sizes * 2):  # the first two of a length make the recording
        self.join([i % self.model.config.words] * n, 1, sampling)
        while self.step(): pass
      for n in sizes:
        for i in range(n): self.join([i % self.model.config.words], n + 4, sampling)
        while self.step(): pass

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
        while len(self._coming) <= AHEAD and self._ask(): pass
        if not self._coming: return []
        sequences, reading = self._coming.popleft()
        words = [int(t) for t in memoryview(reading.contents()).cast("i")]
        found = [(s, t) for s, t in zip(sequences, words) if not s.done]
        for s, t in found:
          s.said.append(t)
          if len(s.said) == s._most: self.leave(s)
        if found: return found
    except BaseException:  # Ctrl-C too, which cancels what was asked for
      for s in [*self._joining, *self._running]: self.leave(s)
      for slot in self._slots: slot.seen = []
      self._coming.clear()
      self._is_whole = False
      raise

  def _no_tokens(self) -> Tensor: return Tensor.full((len(self._slots) + 1, LAST), -1, dtype=dtypes.int32).cat(Tensor.zeros(len(self._slots) + 1, self.context + 1, dtype=dtypes.int32), dim=1)

  def _repair(self) -> None:
    """Gives the memory contents again, where the recordings have it."""
    if self._is_whole: return
    self._tokens.assign(self._no_tokens())
    for t in (self._counts, *self._caches): t.assign(Tensor.zeros(*t.shape))
    Tensor.realize(self._tokens, self._counts, *self._caches)
    self._is_whole = True

  def _ask(self) -> bool:
    """Asks for a part of a prompt, and for a step of the sequences behind theirs. False if there is nothing to ask for."""
    running = [s for s in self._running if s._has_more]  # without one whose prompt ends in this part: its first token is read before the next ones
    if self._joining: self._ask_part(self._joining[0])
    elif not running: return False
    if running: self._ask_step(running)
    return True

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
    token = self._recording(-n, bool(random))(part, count, slot, at0, random)
    sequence._known = end
    if end < len(prompt): return
    self._joining.popleft()
    self._running.append(sequence)
    sequence._asked = 1
    self._coming.append(([sequence], _core.begin_read(token._h)))

  def _ask_step(self, running: list[Sequence]) -> None:
    rows = min(1 << (len(running) - 1).bit_length(), len(self._slots))
    pads = rows - len(running)
    places = [(s._slot.number, len(s.prompt) + s._asked - 1) for s in running] + [(len(self._slots), 0)] * pads
    chosen = [s._sampling for s in running] + [GREEDY] * pads
    is_random = not all(s.is_greedy for s in chosen)
    if is_random and self._settings[0] != chosen: self._settings = chosen, list(settings(chosen))
    slots = [Variable(f"slot{i}", 0, len(self._slots)).bind(slot) for i, (slot, _) in enumerate(places)]
    ats = [Variable(f"at{i}", 0, self.context - 1).bind(at) for i, (_, at) in enumerate(places)]
    tokens = self._recording(rows, is_random)(slots, ats, self._settings[1] if is_random else [])
    for s in running: s._asked += 1
    self._coming.append((list(running), _core.begin_read(tokens._h)))

  def _recording(self, rows: int, is_random: bool) -> TinyJit[Tensor]:
    key = rows, is_random
    if key not in self._recordings: self._recordings[key] = TinyJit(self._step_of if rows > 0 else self._part_of)
    return self._recordings[key]

  def _part_of(self, tokens: Tensor, count: Size, slot: Size, at: Size, random: list[Tensor]) -> Tensor:
    """Computes a part of a prompt, of which the first `count` tokens count; gives the token behind these."""
    self._tokens[slot:slot + 1, at + LAST:at + count + LAST].assign(tokens[:count].reshape(1, count))
    scores = self.model.scores(tokens, Span(self.model.config, self._caches, slot, at, tokens.shape[0]), count)
    return self._chosen(scores, [slot], [at + count], random, begins=True)

  def _step_of(self, slots: list[Size], ats: list[Size], random: list[Tensor]) -> Tensor:
    """Computes the token at each position; gives those behind them."""
    inputs = [self._tokens[slot, at + LAST:at + LAST + 1] for slot, at in zip(slots, ats)]
    places = Rows([Span(self.model.config, self._caches, slot, at, 1) for slot, at in zip(slots, ats)])
    scores = self.model.scores(inputs[0].cat(*inputs[1:]), places)
    return self._chosen(scores, slots, [at + 1 for at in ats], random, begins=False)

  def _chosen(self, scores: Tensor, slots: list[Size], positions: list[Size], random: list[Tensor], begins: bool) -> Tensor:
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
    Tensor.realize(tokens, self._tokens, self._counts, *self._caches)
    return tokens
