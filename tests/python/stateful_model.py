# SPDX-License-Identifier: MIT
"""What programs of tensors mean, in NumPy: values, views that write through, gradients, recorded functions (docs/python.md, "Assigning and reading").

Every tensor has its own array. A view knows which elements of which tensor it has; an assignment to it changes these there and so on upwards, and
nothing else. All numbers are multiples of 1/64 below 2**12, so that float32 gives the same ones in any order: Inexact otherwise.
"""
import weakref

import numpy as np

KINDS = {"float32": np.float64, "int32": np.int64, "bool": np.bool_}


class Inexact(Exception):
  """A number that float32 may round: the program is not a good one."""


class Ambiguous(Exception):
  """A gradient that depends on how a library makes graphs: which uses of equal values count."""


def exact(a):
  if a.dtype != np.bool_ and a.size and not (np.abs(a).max() < 4096 and np.all(a * 64 == np.floor(a * 64))): raise Inexact
  return a


class Node:
  """One value of a graph, and how gradients go to what it was computed from: pairs of a node and a function of the gradient."""
  count = 0
  known: dict = {}  # what a node was computed by -> its number
  equal_to: dict = {}  # the number of an equal graph that was found later -> a smaller one

  def __init__(self, value, sources=(), name=None, copies=(), uncertain=False):
    self.value, self.sources, self.copies = exact(np.asarray(value)), sources, copies
    self.uncertain = uncertain  # whether gradients flow to the sources depends on the library
    Node.count += 1
    self.number = Node.count
    # Equal graphs have equal numbers here, copies that of what they copy.
    key = ("leaf", self.number) if name is None else (name, *(s.same for s, _ in sources))
    self.constant = name is not None and all(s.constant for s, _ in sources)
    # What is a copy of several makes these equal: a product by any of them is the same product.
    self.first = copies[0].same if copies else Node.known.setdefault(key, self.number)
    for n in copies[1:]:
      low, high = sorted((self.same, n.same))
      if low != high: Node.equal_to[high] = low
    # Of a view: the node whose elements it has. A library may make it of other views of that.
    self.placed = None  # what was written to a part: a library moves it there by views
    self.put = None  # the value of a view of which some elements were written: a library may take the whole from it
    self.base = (sources[0][0].base or sources[0][0]) if name is not None and name[0] == "view" else None

  @property
  def same(self):
    n = self.first
    while n in Node.equal_to: n = Node.equal_to[n]
    return n

  def and_copied(self):
    """It, what it is a copy of, and so on."""
    out, todo = [], [self]
    while todo:
      out.append(todo.pop())
      todo += out[-1].copies
    return out

  def alike(self):
    """The numbers of equal graphs: its own, and those of what it copies."""
    return {n.same for n in self.and_copied()}

  def copy_of(self, other):
    """Whether one of the two is a copy of the other one, and so on."""
    for a, b in ((self, other), (other, self)):
      todo = [a]
      while todo:
        n = todo.pop()
        if n is b: return True
        todo += n.copies
    return False


def gradients(loss, seed):
  """Node -> gradient, for all nodes below the loss that are floats."""
  found, todo = {loss.number: loss}, [loss]
  while todo:
    for s, _ in todo.pop().sources:
      if s.number not in found and s.value.dtype == np.float64:
        found[s.number] = s
        todo.append(s)
  out = {loss: seed}
  for number in sorted(found, reverse=True):
    n = found[number]
    if n.uncertain and np.any(out[n]): raise Ambiguous
    for s, back in n.sources:
      if s.number in found: out[s] = exact(out.get(s, 0.0) + back(out[n]))
  return out


def fit(gradient, shape):
  """The gradient of what was broadcast."""
  while gradient.ndim > len(shape): gradient = gradient.sum(0)
  for i, n in enumerate(shape):
    if n == 1 and gradient.shape[i] != 1: gradient = gradient.sum(i, keepdims=True)
  return gradient


class Model:
  """A tensor."""
  live: "weakref.WeakSet[Model]" = weakref.WeakSet()

  def __init__(self, data, requires_grad=None, dtype=None, node=None):
    if node is None:
      a = np.asarray(data)
      a = a.astype(KINDS[dtype] if dtype else np.bool_ if a.dtype == np.bool_ else np.float64 if a.dtype.kind == "f" else np.int64)
      node = Node(a)
    self.node, self.of, self.above, self.where = node, None, None, None
    self.requires_grad, self.grad, self.was_assigned, self.doubtful = requires_grad, None, False, False
    Model.live.add(self)

  a = property(lambda self: self.node.value)
  shape = property(lambda self: self.node.value.shape)
  ndim = property(lambda self: self.node.value.ndim)
  kind = property(lambda self: {"f": "float32", "i": "int32", "b": "bool"}[self.a.dtype.kind])

  # Creation.
  @staticmethod
  def zeros(*shape): return Model.full(shape, 0.0)
  @staticmethod
  def full(shape, v): return Model(None, node=Node(np.full(shape, float(v) if isinstance(v, float) else v), name=("const", shape, v)))
  @staticmethod
  def arange(n): return Model(None, node=Node(np.arange(n), name=("arange", n)))
  @staticmethod
  def cat(*ts, dim=0): return _cat(ts, dim)
  @staticmethod
  def stack(*ts, dim=0): return _cat([t._value(lambda a: np.expand_dims(a, dim), lambda g: np.squeeze(g, dim), ("new axis", dim)) for t in ts], dim)

  # Values.
  def _value(self, f, back, name):
    value = np.asarray(f(self.a))
    nothing = value.shape == self.shape and value.dtype == self.a.dtype and np.array_equal(value, self.a)  # a library may give the same node
    return Model(None, node=Node(value, [(self.node, back)], name, (self.node,) if nothing else ()))
  def _with(self, x, f, back, name):
    x = x if isinstance(x, Model) else Model(None, node=Node(np.asarray(x, self.a.dtype if not isinstance(x, float) else np.float64), name=("const", x)))
    a, b = self.node, x.node
    kind = np.result_type(a.value, b.value)
    av, bv = (v.value.astype(kind) if v.value.dtype != np.bool_ or kind == np.bool_ else v.value.astype(kind) for v in (a, b))
    da, db = back(av, bv) if back else (None, None)
    sources = [(n, lambda g, d=d, n=n: fit(g * d, n.value.shape)) for n, d in ((a, da), (b, db)) if d is not None]
    value = f(av, bv)
    return Model(None, node=Node(value, sources if back else [(n, None) for n in ()], name if back else (name, a.same, b.same)))
  def __add__(self, x): return self._with(x, np.add, lambda a, b: (1.0, 1.0), "+")
  def __sub__(self, x): return self._with(x, np.subtract, lambda a, b: (1.0, -1.0), "-")
  def __mul__(self, x): return self._with(x, np.multiply, lambda a, b: (b, a), "*")
  def __mod__(self, x): return self._with(x, np.mod, None, "%")
  def maximum(self, x): return self._with(x, np.maximum, lambda a, b: ((a > b) + 0.5 * (a == b), (b > a) + 0.5 * (a == b)), "max")
  def minimum(self, x): return self._with(x, np.minimum, lambda a, b: ((a < b) + 0.5 * (a == b), (b < a) + 0.5 * (a == b)), "min")
  def __gt__(self, x): return self._with(x, np.greater, None, ">")
  def __lt__(self, x): return self._with(x, np.less, None, "<")
  def __eq__(self, x): return self._with(x, np.equal, None, "==")
  __hash__ = object.__hash__
  def where(self, x, y):
    c = self.a
    return x._with(y, lambda a, b: np.where(c, a, b), lambda a, b: (c + 0.0, ~c + 0.0), ("where", self.node.same))
  def relu(self): return self._value(lambda a: np.maximum(a, 0), lambda g, a=self.a: g * (a > 0), "relu")
  def abs(self): return self._value(np.abs, lambda g, a=self.a: g * np.sign(a), "abs")
  def __neg__(self): return self._value(np.negative, np.negative, "neg")
  def square(self): return self * self
  def contiguous(self): return self._value(np.array, lambda g: g, "contiguous")
  def clone(self): return self.contiguous()
  def cast(self, kind):
    if kind == self.kind: return self._alias()
    return self._value(lambda a: a.astype(KINDS[kind]), (lambda g: g) if self.kind == "float32" and kind == "float32" else None, ("cast", kind)) \
      if KINDS[kind] is np.float64 and self.kind == "float32" else Model(None, node=Node(self.a.astype(KINDS[kind]), name=("cast", kind, self.node.same)))
  def float(self): return self.cast("float32")
  def int(self): return self.cast("int32")
  def _axes(self, axis): return tuple(range(self.ndim)) if axis is None else (axis % self.ndim,)
  def _without(self, axes):
    """Without these axes of size 1. A library reduces with and without keepdim in one way, and reshapes: an equal view may be taken for this one."""
    at = np.arange(self.a.size).reshape(tuple(n for i, n in enumerate(self.shape) if i not in axes))
    shape = self.shape
    return Model(None, node=Node(self.a.reshape(at.shape), [(self.node, lambda g: np.asarray(g).reshape(shape))], ("view", at.shape, at.tobytes())))
  def sum(self, axis=None, keepdim=False):
    shape, axes = self.shape, self._axes(axis)
    kind = np.int64 if self.a.dtype == np.bool_ else self.a.dtype
    out = self._value(lambda a: np.asarray(a.sum(axes, keepdims=True, dtype=kind)), lambda g: np.broadcast_to(g, shape), ("sum", axes))
    return out if keepdim or not axes else out._without(axes)
  def max(self, axis=None, keepdim=False):
    a, axes = self.a, self._axes(axis)
    most = a.max(axes, keepdims=True)
    ties = (a == most) / (a == most).sum(axes, keepdims=True)
    out = self._value(lambda a: np.asarray(a.max(axes, keepdims=True)), lambda g: g * ties, ("maximum", axes))
    return out if keepdim or not axes else out._without(axes)
  def __matmul__(self, x):
    a, b = self.a, x.a
    if a.size and b.size and np.abs(a).max() * np.abs(b).max() * a.shape[-1] >= 4096: raise Inexact
    turned = x.permute(1, 0)  # as a library has it: an equal view may be taken for this one
    return Model(None, node=Node(a @ b, [(self.node, lambda g: g @ b.T), (turned.node, lambda g: (a.T @ g).T)], "@"))
  def expand(self, *shape):
    own = self.shape
    return self._value(lambda a: np.broadcast_to(a, shape).copy(), lambda g: fit(g, own), ("expand", shape))
  def pad(self, pads):
    pads = [p or (0, 0) for p in pads]
    back = tuple(slice(b, b + n) for (b, _), n in zip(pads, self.shape))
    return self._value(lambda a: np.pad(a, pads), lambda g: g[back], ("pad", tuple(pads)))
  def roll(self, n, dim):  # the two parts, as a library has it: an equal view may be taken for one of them
    size, at = self.shape[dim], tuple(slice(None) for _ in range(dim % self.ndim))
    n %= size
    return _cat([self[(*at, slice(size - n, size))], self[(*at, slice(0, size - n))]], dim) if n else self.contiguous()
  def repeat(self, *n):
    at = np.tile(np.arange(self.a.size).reshape(self.shape), n)
    shape = (1,) * (len(n) - self.ndim) + self.shape
    apart = self.reshape(*(size for s in shape for size in (1, s)))  # as a library has it: an equal view may be taken for this one
    return apart._value(lambda a: a.reshape(-1)[at], apart._scatter(at), ("repeat", n))
  def cumsum(self, axis):
    return self._value(lambda a: np.cumsum(a, axis), lambda g: np.flip(np.cumsum(np.flip(g, axis), axis), axis), ("cumsum", axis % self.ndim))
  def _scatter(self, at):
    shape = self.shape
    def back(g):
      out = np.zeros(shape)
      np.add.at(out.reshape(-1), at.reshape(-1), np.asarray(g).reshape(-1))
      return out
    return back

  # Views.
  def _alias(self): return Model(None, node=self.node)  # another tensor of the same value
  def _view(self, f, detach=False, plain=True):
    at = f(np.arange(self.a.size).reshape(self.shape))
    if detach: node = Node(self.a, name=("detach", self.node.same))
    else:
      nothing = at.shape == self.shape and np.array_equal(at.reshape(-1), np.arange(self.a.size))
      node = self.node if nothing and plain else \
        Node(self.a.reshape(-1)[at], [(self.node, self._scatter(at))], ("view", at.shape, at.tobytes()), (self.node,) if nothing else ())
    t = Model(None, node=node)
    t.of, t.above, t.where = weakref.ref(self), (self.of, self.above, self.where), at
    if self.requires_grad is False: t.requires_grad = False
    return t
  def reshape(self, *shape): return self._view(lambda i: i.reshape(shape))
  def flatten(self): return self._view(lambda i: i.reshape(-1))
  def permute(self, *order): return self._view(lambda i: i.transpose(order), plain=False)
  @property
  def T(self): return self._view(lambda i: i.T, plain=False)
  def flip(self, axis): return self._view(lambda i: np.flip(i, axis), plain=False)
  def unsqueeze(self, axis): return self._view(lambda i: np.expand_dims(i, axis))
  def shrink(self, parts): return self._view(lambda i: i[tuple(slice(None) if p is None else slice(*p) for p in parts)])
  def chunk(self, n, dim): return [self._view(lambda i, p=p: p) for p in np.array_split(np.arange(self.a.size).reshape(self.shape), n, dim)]
  def detach(self): return self._view(lambda i: i, detach=True)
  def diagonal(self): return self._view(lambda i: i.diagonal())
  def __getitem__(self, key):
    key = key if isinstance(key, tuple) else (key,)
    if not any(isinstance(k, (list, Model, np.ndarray)) for k in key): \
      return self._view(lambda i: np.asarray(i[key]), plain=not any(isinstance(k, slice) and (k.step or 1) != 1 for k in key))
    plain = tuple(k.a if isinstance(k, Model) else k for k in key)
    at = np.arange(self.a.size).reshape(self.shape)[plain]
    return self._value(lambda a: a[plain], self._scatter(at), ("index", at.shape, at.tobytes()))

  # Assignments.
  def assign(self, x):
    if not isinstance(x, Model): x = Model(np.full(self.shape, x), dtype=self.kind)
    if x.kind != self.kind: raise TypeError("another dtype")
    if x.shape != self.shape: x = x.expand(*self.shape)
    return self._store(x, Node(x.a, [(x.node, lambda g: g)], "assigned", (x.node,)), x.node, None)
  def _store(self, x, new, moved, at):
    """Makes `new` the tensor's node, and gives what it is a view of the elements of x at the positions `at` of the tensor (None: all). A library moves
    the value of `moved` there."""
    changes, link = [(self, new)], (self.of, self.above, self.where)
    while link[0] is not None:
      of, (up, above, where), here = link
      at = here if at is None else here.reshape(-1)[at]  # elements of that tensor
      whole = of()
      if whole is not None:
        value, inside = np.array(whole.a, order="C"), np.zeros(whole.shape, bool)
        value.reshape(-1)[at], inside.reshape(-1)[at] = x.a, True
        if inside.all():  # the value in another order
            order = np.argsort(np.asarray(at).reshape(-1)).reshape(whole.shape)
            nothing = order.shape == x.shape and np.array_equal(order.reshape(-1), np.arange(x.a.size))
            copies = ((whole.node,) if np.array_equal(value, whole.a) else ()) + ((moved,) if nothing else ())
            changes.append((whole, Node(value, [(x.node, x._scatter(order))], ("view", order.shape, order.tobytes()), copies)))
            if moved is not x.node: changes[-1][1].put = moved
            link = up, above, where
            continue
        changes.append((whole, Node(value, [(whole.node, lambda g, m=inside: np.where(m, 0, g)),
                                            (x.node, lambda g, at=at: g.reshape(-1)[at].reshape(x.shape))],
                                     ("written", at.tobytes()), (whole.node,) if np.array_equal(value, whole.a) else ())))
        changes[-1][1].placed = moved.base or moved
        if moved is not x.node: changes[-1][1].put = moved
        elif whole.node.put is not None:  # as it was taken from a view, which is written as well
          changes[-1][1].put = next((n for t, n in changes[:-1] if whole.node.put in t.node.and_copied()), None)
      link = up, above, where
    for t, n in changes: t.node, t.was_assigned = n, True
    return self
  def is_view(self):
    link = self.of, self.above
    while link[0] is not None:
      if link[0]() is not None: return True
      link = link[1][:2]
    return False
  def _changed(self, x):
    if x.kind != self.kind: x = x.cast(self.kind) if self.kind != "int32" else x
    if x.kind != self.kind: raise TypeError("another dtype")
    if not self.is_view(): return self.assign(x)
    if x.shape != self.shape: raise ValueError("another shape")
    return x
  def __iadd__(self, x): return self._changed(self + x)
  def __isub__(self, x): return self._changed(self - x)
  def __imul__(self, x): return self._changed(self * x)
  def __setitem__(self, key, v):
    keys = key if isinstance(key, tuple) else (key,)
    if not any(isinstance(k, (list, Model, np.ndarray)) for k in keys):
      part = self[key]
      if part.a.size: part.assign(self._fitting(v, part.shape))
      return
    plain = tuple(k.a if isinstance(k, Model) else k for k in keys)
    at = np.arange(self.a.size).reshape(self.shape)[plain]
    if len(set(at.reshape(-1))) != at.size: raise ValueError("one element twice")
    x = self._fitting(v, at.shape)
    value, inside = self.a.copy(), np.zeros(self.shape, bool)
    value.reshape(-1)[at], inside.reshape(-1)[at] = x.a, True
    put = Node(value, [(self.node, lambda g: np.where(inside, 0, g)), (x.node, lambda g: g.reshape(-1)[at].reshape(x.shape))], ("put", at.tobytes()))
    self._store(x, Node(put.value, [(put, lambda g: g)], "assigned", (put,)), put, at)
  def _fitting(self, v, shape):
    if not isinstance(v, Model): v = Model(np.full((), v), dtype=self.kind)
    if v.kind != self.kind: raise TypeError("another dtype")
    return v if v.shape == shape else v.expand(*shape)

  # Reads.
  def realize(self, *more): return self
  def numpy(self): return self.a.copy()
  def tolist(self): return self.a.tolist()
  def item(self): return self.a.item()

  # Gradients.
  def requires_grad_(self, on=True):
    self.requires_grad = on
    return self
  def gradient(self, *targets, gradient=None):
    seed = np.ones(()) if gradient is None else gradient.a
    if self.a.size != 1 and gradient is None: raise ValueError("not one element")
    known = gradients(self.node, np.broadcast_to(seed, self.shape))
    if any(t.ambiguous(known) for t in targets): raise Ambiguous
    return [Model(known.get(t.node, np.zeros(t.shape))) for t in targets]
  def backward(self, gradient=None):
    floats = [t for t in Model.live if t.kind == "float32"]
    known = gradients(self.node, np.ones(self.shape) if gradient is None else gradient.a)
    targets = [t for t in floats if t.requires_grad and t.node in known]
    if not targets: targets = [t for t in floats if t.requires_grad is None and t.node in known]
    sums = [Model(known[t.node]) if t.grad is None else t.grad + Model(known[t.node]) for t in targets]
    for t, g in zip(targets, sums): t.grad, t.doubtful = g, t.doubtful or t.ambiguous(known)
    below = {n.same for n in known}
    for t in floats:  # a library may take such a value for one of the graph
      if t.node not in known and t.requires_grad is not False and t.node.same in below: t.doubtful = t.doubtful or t.ambiguous(known)
    return self

  def ambiguous(self, known):
    """Whether a library may take the value for another one, of a live tensor or of the graph whose gradients are known."""
    own, alike = known.get(self.node, 0.0), self.node.alike()
    return (self.node.constant or any(t.node.same in alike for t in Model.live if t is not self)
            or any(n.same in alike and np.any(g) and not (n.copy_of(self.node) and np.array_equal(g, own + 0 * g)) for n, g in known.items()
                   if n is not self.node)
            or any(n.put in self.node.and_copied() and np.any(g) for n, g in known.items() if n.put is not None)
            or any(n.put is not None and np.any(known.get(n.put, 0.0)) for n in self.node.and_copied())
            or self.node.base is not None and any(self.node.base in (n.base, n.placed) and n is not self.node and np.any(g) for n, g in known.items()))


def _cat(ts, dim):
  out, begin, sources = np.concatenate([t.a for t in ts], dim), 0, []
  for t in ts:
    part = (slice(None),) * (dim % max(out.ndim, 1)) + (slice(begin, begin + t.shape[dim]),)
    sources.append((t.node, lambda g, part=part: g[part]))
    begin += t.shape[dim]
  some = [t.node for t in ts if t.a.size]
  return Model(None, node=Node(out, sources, ("cat", dim), some if len(some) == 1 else ()))


class ModelJit:
  """TinyJit: from the second call on nothing has a graph behind it, and from the third on the results are the tensors of the second one, with
  the contents of this call."""
  def __init__(self, f): self.f, self.calls, self.results = f, 0, None

  def __call__(self, *args):
    before, older = Node.count, list(Model.live)
    given, nodes = [a.node for a in args], {id(t): t.node for t in older}
    out, self.calls = self.f(*args), self.calls + 1
    if self.calls == 1: return out
    if any(a.is_view() and a.node is not n for a, n in zip(args, given)): raise ValueError("a view as an argument that is assigned")
    for t in list(Model.live):
      origin = t.node
      while origin.number > before:
        equal = [c for c in origin.copies if np.array_equal(c.value, t.a)]
        if not equal: break
        origin = equal[0]
      if id(t) in nodes and t.node is not nodes[id(t)] and origin.number <= before:  # assigned a value that is older than the call
        t.node = Node(t.a, [(origin, lambda g: g)], "assigned", (origin,), uncertain=True)
      elif id(t) not in nodes and origin.number <= before:  # a result that is an older value, or a copy of it
        t.node = Node(t.a, [(origin, lambda g: g)], "result", (origin,), uncertain=True)
      elif origin.number <= before: t.node = origin
      else: t.node, t.was_assigned = Node(t.a), True
    if self.calls == 2:
      for t in out:
        if not any(o is t for o in older): t.of = t.above = t.where = None  # the next call's result is no view
      self.results, self.own = out, [next((i for i, a in enumerate(args) if a is t), None) for t in out]
      return out
    given = []
    for then, now, own in zip(self.results, out, self.own):
      if own is not None and now is args[own]: then = args[own]
      elif then is not now: then.node, then.was_assigned = Node(now.a), True
      given.append(then)
    return tuple(given)
