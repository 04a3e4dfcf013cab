# SPDX-License-Identifier: MIT
"""Random programs whose sizes, positions and values are made of variables. A program is a list of steps, which can be run with uopd's tensors
and sizes that are Sizes or numbers, and with NumPy's arrays. All values are small whole numbers, so that no order of a sum matters."""
import random
from dataclasses import dataclass, field

import numpy as np

from uopd import Tensor, Variable

MOST = 5  # of each variable
WIDTH = 12  # of the axes of memory


def value(size, values):
  """A size with the values of variables: a number."""
  return size if isinstance(size, int) else size.sym_infer(values)


@dataclass
class Value:
  shape: list  # of numbers and sizes without values
  kind: str = "float32"


@dataclass
class Program:
  seed: int
  variables: list = field(default_factory=list)
  leaves: list = field(default_factory=list)  # arrays
  states: list = field(default_factory=list)  # arrays that are assigned to
  steps: list = field(default_factory=list)  # (operation, arguments)
  values: list = field(default_factory=list)  # one Value for each step that makes one
  outputs: list = field(default_factory=list)
  conditions: list = field(default_factory=list)  # sizes that must not be negative

  def bindings(self, rng):
    """Values of the variables with which every slice is within its axis."""
    for _ in range(200):
      out = {v.name: rng.randint(v.min, v.max) for v in self.variables}
      if all(value(c, out) >= 0 for c in self.conditions): return out
    return None


class Maker:
  """Makes a program by adding random steps to it."""
  def __init__(self, seed):
    self.rng = random.Random(seed)
    self.p = Program(seed)
    for i in range(self.rng.randint(1, 3)): self.p.variables.append(Variable("nmk"[i], self.rng.randint(0, 2), self.rng.randint(3, MOST)))
    for _ in range(2): self.leaf()
    for _ in range(self.rng.randint(3, 10)):
      for _ in range(20):
        if self.rng.choice(self.STEPS)(self): break
    p = self.p
    p.outputs = [i for i in range(len(p.values)) if i >= len(p.values) - 2 or self.rng.random() < 0.2]

  def size(self):
    """A size within an axis of memory, for all values or for some."""
    r, v = self.rng, self.rng.choice(self.p.variables)
    return r.choice([v, v + 1, v + r.choice(self.p.variables), 2 * v, v * r.choice(self.p.variables) // 2 + 1, r.randint(1, 4)])
  def need(self, size):
    if not isinstance(size, int) or size < 0: self.p.conditions.append(size)
  def add(self, name, args, shape, kind="float32"):
    self.p.steps.append((name, args))
    self.p.values.append(Value(list(shape), kind))
    return True
  def pick(self, fits=lambda v: True):
    found = [i for i, v in enumerate(self.p.values) if fits(v)]
    return self.rng.choice(found) if found else None

  def leaf(self):
    rank = self.rng.randint(1, 3)
    rng = np.random.default_rng(self.rng.randint(0, 2**30))
    self.p.leaves.append(rng.integers(-3, 4, [WIDTH] * rank).astype(np.float32))
    ends = []
    for _ in range(rank):
      n = self.size()
      start = self.rng.choice([0, 0, 1, self.rng.choice(self.p.variables)])
      self.need(WIDTH - start - n)
      self.need(n)
      ends.append((start, n))
    return self.add("leaf", (len(self.p.leaves) - 1, ends), [n for _, n in ends])
  def arange(self):
    n, start = self.size(), self.rng.choice([0, 2, self.rng.choice(self.p.variables)])
    self.need(n)
    return self.add("arange", (start, n), [n])
  def full(self):
    sizes = [self.size() for _ in range(self.rng.randint(1, 2))]
    for n in sizes: self.need(n)
    return self.add("full", (sizes, self.rng.choice([3, self.rng.choice(self.p.variables)])), sizes)
  def unary(self):
    i = self.pick()
    return self.add(self.rng.choice(["neg", "relu", "less", "plus_variable", "times_variable", "square", "wave"]), (i, self.rng.choice(self.p.variables)), self.p.values[i].shape)
  def binary(self):
    i = self.pick()
    j = self.pick(lambda v: v.shape == self.p.values[i].shape)
    return self.add(self.rng.choice(["add", "sub", "maximum", "choose"]), (i, j), self.p.values[i].shape)
  def reduce(self):
    i = self.pick(lambda v: len(v.shape) > 0)
    if i is None: return False
    axis, keep = self.rng.randrange(len(self.p.values[i].shape)), self.rng.random() < 0.5
    shape = list(self.p.values[i].shape)
    name = self.rng.choice(["sum", "max", "any", "argmax"])
    if name in ("max", "argmax"): self.need(shape[axis] - 1)
    if keep: shape[axis] = 1
    else: del shape[axis]
    return self.add(name, (i, axis, keep), shape)
  def matmul(self):
    i = self.pick(lambda v: len(v.shape) == 2)
    if i is None: return False
    j = self.pick(lambda v: len(v.shape) == 2 and v.shape[0] == self.p.values[i].shape[1])
    if j is None: return self.add("gram", (i,), [self.p.values[i].shape[0]] * 2)
    return self.add("matmul", (i, j), [self.p.values[i].shape[0], self.p.values[j].shape[1]])
  def transpose(self):
    i = self.pick(lambda v: len(v.shape) >= 2)
    if i is None: return False
    shape = list(self.p.values[i].shape)
    shape[0], shape[1] = shape[1], shape[0]
    return self.add("transpose", (i,), shape)
  def flip(self):
    i = self.pick(lambda v: len(v.shape) > 0)
    return False if i is None else self.add("flip", (i, self.rng.randrange(len(self.p.values[i].shape))), self.p.values[i].shape)
  def flatten(self):
    i = self.pick(lambda v: len(v.shape) >= 2)
    if i is None: return False
    shape = self.p.values[i].shape
    return self.add("flatten", (i,), [shape[0] * shape[1], *shape[2:]])
  def expand(self):
    i = self.pick(lambda v: len(v.shape) <= 2)
    if i is None: return False
    n = self.size()
    self.need(n)
    return self.add("expand", (i, n), [n, *self.p.values[i].shape])
  def pad(self):
    i = self.pick(lambda v: len(v.shape) > 0)
    if i is None: return False
    shape = list(self.p.values[i].shape)
    axis, before, after = self.rng.randrange(len(shape)), self.rng.choice([0, 1, self.rng.choice(self.p.variables)]), self.rng.choice([0, 2, self.rng.choice(self.p.variables)])
    shape[axis] = before + shape[axis] + after
    return self.add("pad", (i, axis, before, after, self.rng.choice([0, 1])), shape)
  def cat(self):
    i = self.pick(lambda v: len(v.shape) > 0)
    if i is None: return False
    axis = self.rng.randrange(len(self.p.values[i].shape))
    def rest(v): return [d for k, d in enumerate(v.shape) if k != axis]
    j = self.pick(lambda v: len(v.shape) == len(self.p.values[i].shape) and rest(v) == rest(self.p.values[i]))
    shape = list(self.p.values[i].shape)
    shape[axis] = shape[axis] + self.p.values[j].shape[axis]
    return self.add("cat", (i, j, axis), shape)
  def slice(self):
    i = self.pick(lambda v: len(v.shape) > 0)
    if i is None: return False
    shape = list(self.p.values[i].shape)
    axis = self.rng.randrange(len(shape))
    n, v = shape[axis], self.rng.choice(self.p.variables)
    begin, end, start, stop = self.rng.choice([(1, None, 1, n), (None, -1, 0, n - 1), (-2, None, n - 2, n), (v, None, v, n), (None, v, 0, v), (v, v + 1, v, v + 1), (-3, -1, n - 3, n - 1)])
    for c in (start, stop - start, n - stop): self.need(c)
    shape[axis] = stop - start
    return self.add("slice", (i, axis, begin, end), shape)
  def select(self):
    i = self.pick(lambda v: len(v.shape) > 0)
    if i is None: return False
    shape = list(self.p.values[i].shape)
    axis, at = self.rng.randrange(len(shape)), self.rng.choice([0, -1, 1, self.rng.choice(self.p.variables)])
    for c in (at, shape[axis] - 1 - at) if not isinstance(at, int) or at >= 0 else (shape[axis] + at,): self.need(c)
    del shape[axis]
    return self.add("select", (i, axis, at), shape)
  def triangle(self):
    i = self.pick(lambda v: len(v.shape) >= 2)
    if i is None: return False
    return self.add(self.rng.choice(["tril", "triu"]), (i, self.rng.choice([0, 1, -1, self.rng.choice(self.p.variables)])), self.p.values[i].shape)
  def cumsum(self):
    i = self.pick(lambda v: len(v.shape) > 0)
    return False if i is None else self.add(self.rng.choice(["cumsum", "cummax", "signs"]), (i, self.rng.randrange(len(self.p.values[i].shape))), self.p.values[i].shape)
  def roll(self):
    i = self.pick(lambda v: len(v.shape) > 0)
    if i is None: return False
    shape = self.p.values[i].shape
    axis = self.rng.randrange(len(shape))
    self.need(shape[axis] - 1)
    return self.add("roll", (i, axis, self.rng.choice([1, -2, self.rng.choice(self.p.variables)])), shape)
  def realize(self):
    i = self.pick()
    return self.add(self.rng.choice(["realize", "contiguous"]), (i,), self.p.values[i].shape)
  def assign(self):
    i = self.pick(lambda v: 1 <= len(v.shape) <= 2)
    if i is None: return False
    shape = self.p.values[i].shape
    starts = [self.rng.choice([0, 1, self.rng.choice(self.p.variables)]) for _ in shape]
    for n, at in zip(shape, starts): self.need(WIDTH - at - n)
    self.p.states.append(np.zeros([WIDTH] * len(shape), np.float32))
    self.p.steps.append(("assign", (len(self.p.states) - 1, i, starts, shape)))
    return self.add("state", (len(self.p.states) - 1,), [WIDTH] * len(shape))

  STEPS = [leaf, arange, full, unary, unary, binary, binary, reduce, matmul, transpose, flip, flatten, expand, pad, cat, slice, slice, select, triangle, cumsum, roll, realize, assign, assign]


def small(x):
  """Values back within 9 and -9, so that no sum or product becomes large."""
  return x.clip(-9, 9)


def run(p, leaves, states, values, numpy=False):
  """The outputs. `values`: bound variables or numbers, by name."""
  def of(size):
    if isinstance(size, int): return size
    return sized(size, values)
  made = []
  for name, a in p.steps:
    x = made[a[0]] if name not in ("leaf", "arange", "full", "assign", "state") else None
    if name == "leaf": y = leaves[a[0]][tuple(slice(of(s), of(s + n)) for s, n in a[1])]
    elif name == "arange": y = np.arange(of(a[0]), of(a[0] + a[1])).astype(np.float32) if numpy else Tensor.arange(of(a[0]), of(a[0] + a[1])).float()
    elif name == "full": y = np.full([of(n) for n in a[0]], of(a[1])).astype(np.float32) if numpy else Tensor.full(tuple(of(n) for n in a[0]), of(a[1]), dtype="float32")
    elif name == "neg": y = -x
    elif name == "relu": y = np.maximum(x, 0) if numpy else x.relu()
    elif name == "less": y = (x < of(a[1])).astype(np.float32) if numpy else (x < of(a[1])).float()
    elif name == "plus_variable": y = x + np.float32(of(a[1])) if numpy else x + of(a[1])
    elif name == "times_variable": y = x * np.float32(of(a[1])) if numpy else of(a[1]) * x
    elif name == "square": y = x * x
    # Takes so long that a kernel keeps its values.
    elif name == "wave": y = np.round(np.sin(x * np.float32(np.pi / 2))) if numpy else (x * (np.pi / 2)).sin().round()
    elif name in ("add", "sub", "maximum", "choose"):
      b = made[a[1]]
      y = x + b if name == "add" else x - b if name == "sub" else (np.maximum(x, b) if numpy else x.maximum(b)) if name == "maximum" else np.where(x < b, x, b) if numpy else (x < b).where(x, b)
    elif name == "sum": y = x.sum(a[1], keepdims=a[2]) if numpy else x.sum(a[1], keepdim=a[2])
    elif name == "max": y = x.max(a[1], keepdims=a[2]) if numpy else x.max(a[1], keepdim=a[2])
    elif name == "any": y = (x > 0).any(a[1], keepdims=a[2]).astype(np.float32) if numpy else (x > 0).any(a[1], keepdim=a[2]).float()
    elif name == "argmax": y = x.argmax(a[1], keepdims=a[2]).astype(np.float32) if numpy else x.argmax(a[1], keepdim=a[2]).float()
    elif name == "matmul": y = x @ made[a[1]]
    elif name == "gram": y = x @ x.T
    elif name == "transpose": y = x.swapaxes(0, 1) if numpy else x.transpose(0, 1)
    elif name == "flip": y = np.flip(x, a[1]) if numpy else x.flip(a[1])
    elif name == "flatten": y = x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]) if numpy else x.flatten(0, 1)
    elif name == "expand": y = np.broadcast_to(x, (of(a[1]), *x.shape)) if numpy else x.unsqueeze(0).expand(of(a[1]), *x.shape)
    elif name == "pad":
      pairs = [(of(a[2]), of(a[3])) if k == a[1] else (0, 0) for k in range(len(x.shape))]
      y = np.pad(x, pairs, constant_values=a[4]) if numpy else x.pad(tuple(pairs), value=a[4])
    elif name == "cat": y = np.concatenate([x, made[a[1]]], a[2]) if numpy else x.cat(made[a[1]], dim=a[2])
    elif name == "slice": y = x[(slice(None),) * a[1] + (slice(*(None if e is None else of(e) for e in a[2:])),)]
    elif name == "select": y = x[(slice(None),) * a[1] + (of(a[2]),)]
    elif name in ("tril", "triu"): y = (np.tril if name == "tril" else np.triu)(x, of(a[1])) if numpy else getattr(x, name)(of(a[1]))
    elif name == "cumsum": y = x.cumsum(a[1])
    elif name == "cummax": y = np.maximum.accumulate(x, a[1]) if numpy else x.cummax(a[1])[0]
    elif name == "signs": y = np.cumprod(np.sign(x), a[1]) if numpy else x.sign().cumprod(a[1])
    elif name == "roll": y = np.roll(x, of(a[2]), a[1]) if numpy else x.roll(of(a[2]), a[1])
    elif name in ("realize", "contiguous"): y = x if numpy else getattr(x, name)()
    elif name == "assign":
      at = tuple(slice(of(s), of(s + n)) for s, n in zip(a[2], a[3]))
      if numpy: states[a[0]][at] = made[a[1]]
      else: states[a[0]][at].assign(made[a[1]])
      continue
    else: y = states[a[0]].copy() if numpy else states[a[0]] + 0
    made.append(small(y))
  return [made[i] for i in p.outputs]


def sized(size, values):
  """The size with these variables or numbers in the place of its variables."""
  return size._with(lambda atom: values[atom.name] if isinstance(atom, Variable) else operation(atom, values))


def operation(atom, values):
  a, b = (x if isinstance(x, int) else sized(x, values) for x in (atom.a, atom.b))
  return a // b if atom.kind == "//" else a % b if atom.kind == "%" else max(a, b) if isinstance(a, int) and isinstance(b, int) else a.maximum(b) if not isinstance(a, int) else b.maximum(a)
