# SPDX-License-Identifier: MIT
"""Sizes, positions and values that are made of variables."""
import os
import random

import numpy as np
import pytest

import uopd
from symbolic_programs import Maker, run
from uopd import Tensor, TinyJit, Variable, dtypes

PROGRAMS = int(os.environ.get("UOPD_FUZZ_SYMBOLIC", "40"))
SEED = int(os.environ.get("UOPD_FUZZ_SEED", "1"))


def n(value, low=1, high=10, name="n"): return Variable(name, low, high).bind(value)


def programs():
  seed, made = SEED, 0
  while made < PROGRAMS:
    p = Maker(seed).p
    seed += 1
    rng = random.Random(p.seed)
    calls = [c for c in (p.bindings(rng) for _ in range(4)) if c is not None]
    if calls and p.outputs:
      made += 1
      yield p, calls


def bound(p, call): return {v.name: v.bind(call[v.name]) for v in p.variables}


def check(p, how, call, got, want):
  for k, (g, w) in enumerate(zip(got, want)):
    a = g.numpy()
    assert a.shape == w.shape and np.array_equal(a, w), f"program {p.seed}, {how}, {call}, output {k}: {a} for {w}"


def test_programs_compute_what_numpy_does():
  """Each program with symbolic sizes, with plain ones, and recorded and replayed, gives what NumPy does, bit for bit."""
  for p, calls in programs():
    arrays = [s.copy() for s in p.states]
    leaves = [Tensor(x).realize() for x in p.leaves]
    states, plain, jitted = ([Tensor(s).contiguous().realize() for s in p.states] for _ in range(3))
    wants = []
    for call in calls:
      want = [w.copy() for w in run(p, p.leaves, arrays, call, numpy=True)]
      wants.append((want, [a.copy() for a in arrays]))
      check(p, "symbolic", call, run(p, leaves, states, bound(p, call)), want)
      for s, a in zip(states, arrays): assert np.array_equal(s.numpy(), a), f"program {p.seed}: a state after {call}"
    check(p, "plain", calls[0], run(p, leaves, plain, calls[0]), wants[0][0])
    @TinyJit
    def step(**values):
      out = run(p, leaves, jitted, values)
      Tensor.realize(*out, *jitted)
      return out
    for call, (want, after) in zip(calls, wants):
      check(p, "jit", call, step(**bound(p, call)), want)
      for s, a in zip(jitted, after): assert np.array_equal(s.numpy(), a), f"program {p.seed}: a state of the recording after {call}"
