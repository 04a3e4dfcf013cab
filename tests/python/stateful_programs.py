# SPDX-License-Identifier: MIT
"""Random programs of tensors, as lines of Python. The same text runs with uopd, with the model in NumPy, and with tinygrad."""
import random

import numpy as np
from stateful_model import Ambiguous, Model, ModelJit, Node

SHAPES = [(3,), (4,), (6,), (1,), (2, 3), (3, 2), (4, 2), (3, 4), (1, 3), (2, 1), (2, 2, 3), (3, 3)]


class Log(list):
  """What a program says it sees."""
  def see(self, value): self.append(np.asarray(value))
  def see_gradient(self, t):
    if getattr(t, "doubtful", False): raise Ambiguous
    self.append(np.asarray(np.zeros(t.shape) if t.grad is None else t.grad.numpy()))


def model_scope(log):
  Model.live.clear()
  Node.known.clear()
  Node.equal_to.clear()
  return {"Tensor": Model, "TinyJit": ModelJit, "np": np, "see": log.see, "see_gradient": log.see_gradient}


def run(steps, scope):
  """Runs the steps. The number of those that ended, and the exception of the next one."""
  for i, step in enumerate(steps):
    try: exec(compile(step, f"step {i}", "exec"), scope)  # noqa: S102
    except Exception as e:
      return i, e.with_traceback(None)  # whose frames would keep tensors alive, and views of them views
  return len(steps), None


class Maker:
  """Makes one program. Each new step is tried with the model, which knows the shapes and refuses what makes no sense."""
  def __init__(self, seed, jit=True, gradients=True, fresh=False):
    self.rng, self.steps, self.names, self.n = random.Random(seed), [], 0, 0
    self.jit, self.gradients, self.fresh, self.functions, self.inside = jit, gradients, fresh, [], False
    self.restart()

  def restart(self):
    self.log = Log()
    self.scope = model_scope(self.log)
    done, error = run(self.steps, self.scope)
    assert error is None, (self.steps[done], error)

  def tensors(self, test=lambda t: True, empty=False):
    return [n for n, t in self.scope.items() if isinstance(t, Model) and (empty or t.a.size) and test(t)]

  def new(self):
    self.names += 1
    return f"x{self.names}"

  def held(self):
    """Names that recorded functions use: they keep their objects."""
    return {n for _, _, states, _ in self.functions for n in states}

  def number(self): return self.rng.choice([-3, -2, 2, 3, 4, 5])
  def value_of(self, kind): return self.number() if kind == "int32" else self.rng.choice([-2.0, -1.5, 0.5, 1.5, 2.0, 3.0, -0.25])

  def literal(self, shape, kind):
    n = int(np.prod(shape))
    if kind == "bool": v = [self.rng.random() < .5 for _ in range(n)]
    elif kind == "int32": v = [self.rng.randrange(-9, 10) for _ in range(n)]
    else: v = [self.rng.randrange(-12, 13) / 2 for _ in range(n)]
    if self.rng.random() < .3: return f"Tensor(np.array({np.array(v).reshape(shape).tolist()}, np.{ {'bool': 'bool_'}.get(kind, kind)}))"
    return f"Tensor({np.array(v).reshape(shape).tolist()})"

  # Indices.
  def span(self, n):
    r = self.rng
    step = r.choice([1, 1, 1, 1, -1, 2, -2, 3])
    a, b = r.choice([None, r.randrange(-n, n)]), r.choice([None, r.randrange(-n, n + 1)])
    return f"{'' if a is None else a}:{'' if b is None else b}{'' if step == 1 else f':{step}'}"

  def key(self, shape, advanced):
    """Text of an index."""
    r, out, lists = self.rng, [], advanced and self.rng.random() < .35
    numbers = not lists  # beside lists, a number is an index of positions in NumPy, and none in tinygrad
    if not shape: return "..."
    if advanced and r.random() < .1: return r.choice(self.tensors(lambda t: t.kind == "bool" and t.shape == shape) or ["..."])
    many = r.randrange(1, len(shape) + 1)
    if r.random() < .15: out.append("...")
    if r.random() < .05: out.append("None")
    for n in shape[len(shape) - many:] if out[:1] == ["..."] else shape[:many]:
      what = r.random()
      if lists and what < .6:
        positions = [r.randrange(-n, n) for _ in range(r.randrange(1, n + 1))]
        positions = list({p % n: p for p in positions}.values())
        if len(positions) > 1 and r.random() < .5: r.shuffle(positions)
        out.append(f"{positions}" if r.random() < .6 else f"Tensor({positions})")
        lists = False
      elif what < .3 and numbers: out.append(str(r.randrange(-n, n)))
      else: out.append(self.span(n))
    return ", ".join(out)

  # Expressions. Each returns text.
  def operand(self, shape, kind):
    """A tensor that broadcasts to the shape, or a number."""
    r = self.rng
    def fits(t):
      return t.kind == kind and t.ndim <= len(shape) and all(a in (1, b) for a, b in zip(t.shape[::-1], shape[::-1]))
    names = self.tensors(fits)
    if names and r.random() < .75: return r.choice(names)
    return str(self.value_of(kind))

  def view(self, n, t):
    r, size = self.rng, t.a.size
    kinds = [f"{n}[{self.key(t.shape, False)}]"] * 3 + [f"{n}[:]", f"{n}.flatten()", f"{n}.detach()", f"{n}.unsqueeze({r.randrange(t.ndim + 1)})"]
    if t.ndim: kinds += [f"{n}.flip({r.randrange(t.ndim)})", f"{n}.shrink(({', '.join(self.bounds(k) for k in t.shape)},))"]
    if t.ndim == 2: kinds += [f"{n}.T"]
    if t.ndim > 1: kinds += [f"{n}.permute({', '.join(map(str, r.sample(range(t.ndim), t.ndim)))})"]
    shapes = [s for s in SHAPES if int(np.prod(s)) == size]
    if shapes: kinds += [f"{n}.reshape({', '.join(map(str, r.choice(shapes)))})"] * 2
    if t.ndim and t.shape[0] > 1: kinds += [f"{n}.chunk(2, 0)[{r.randrange(2)}]"]
    return r.choice(kinds)

  def bounds(self, n):
    if self.rng.random() < .4: return "None"
    a = self.rng.randrange(n)
    return f"({a}, {self.rng.randrange(a + 1, n + 1)})"

  def computed(self, n, t):
    r = self.rng
    if t.kind == "bool":
      same = self.tensors(lambda u: u.shape == t.shape and u.kind != "bool")
      if same and r.random() < .6:
        u = r.choice(same)
        return f"{n}.where({u}, {self.operand(t.shape, self.scope[u].kind)})"
      return r.choice([f"{n}.sum()", f"{n}.int()", f"{n}.float()", f"{n}.contiguous()"])
    kinds = [f"{n} + {self.operand(t.shape, t.kind)}", f"{n} - {self.operand(t.shape, t.kind)}", f"{n} * {self.operand(t.shape, t.kind)}"] * 3
    kinds += [f"{n}.maximum({self.operand(t.shape, t.kind)})", f"{n}.minimum({self.operand(t.shape, t.kind)})", f"{n} > {self.value_of(t.kind)}",
              f"{n} == {self.operand(t.shape, t.kind)}", f"{n}.relu()", f"{n}.abs()", f"-{n}", f"{n}.contiguous()", f"{n}.clone()", f"{n}.float()", f"{n}.sum()"]
    if t.kind == "int32": kinds += [f"{n} % {r.choice([2, 3, 5])}"] * 2
    else: kinds += [f"{n}.square()"]
    if t.ndim:
      axis, keep = r.randrange(-t.ndim, t.ndim), r.choice(["", ", keepdim=True"])
      kinds += [f"{n}.sum({axis}{keep})", f"{n}.max({axis}{keep})", f"{n}.cumsum({axis})", f"{n}.roll({r.choice([-1, 1, 2])}, {axis})", f"{n}[{self.key(t.shape, True)}]"] * 2
      kinds += [f"{n}.repeat({', '.join(str(r.choice([1, 1, 2])) for _ in t.shape)})", f"{n}.pad(({', '.join(r.choice(['None', '(1, 0)', '(0, 2)']) for _ in t.shape)},))"]
      if 1 in t.shape: kinds += [f"{n}.expand({', '.join(str(r.choice([2, 3]) if k == 1 else k) for k in t.shape)})"] * 2
      others = self.tensors(lambda u: u.kind == t.kind and u.ndim == t.ndim and u.shape[1:] == t.shape[1:], empty=True)
      if others: kinds += [f"Tensor.cat({n}, {r.choice(others)}, dim=0)"] * 2
      equal = self.tensors(lambda u: u.kind == t.kind and u.shape == t.shape)
      kinds += [f"Tensor.stack({n}, {r.choice(equal)}, dim=0)"]
    if t.ndim == 2:
      if t.shape[0] == t.shape[1]: kinds += [f"{n}.diagonal()"]
      others = self.tensors(lambda u: u.kind == t.kind == "float32" and u.ndim == 2 and u.shape[0] == t.shape[1])
      if others: kinds += [f"{n} @ {r.choice(others)}"] * 3
    return r.choice(kinds)

  # Steps. Each returns text, or None.
  def create(self):
    r, shape = self.rng, self.rng.choice(SHAPES)
    n = ", ".join(map(str, shape))
    kind = r.choice(["float32", "float32", "float32", "int32", "int32", "bool"])
    data = r.choice([self.literal(shape, kind)] * 6 + [f"Tensor.zeros({n})", f"Tensor.full(({n},), {self.value_of(r.choice(['int32', 'float32']))})", f"Tensor.arange({r.choice([4, 6])})"])
    if not self.inside: data += r.choice(["", "", ".contiguous()", ".realize()", ".contiguous().realize()"])
    if not self.inside and kind == "float32" and self.gradients and data.startswith("Tensor(") and r.random() < .25: data += ".requires_grad_()"
    return f"{self.new()} = {data}"

  def compute(self):
    names = self.tensors()
    if not names: return None
    n = self.rng.choice(names)
    t = self.scope[n]
    text = self.view(n, t) if self.rng.random() < .45 else self.computed(n, t)
    return f"{self.new()} = {text}"

  def assignable(self):
    return self.tensors(lambda t: not t.requires_grad and t.a.size > 0)

  def assign(self):
    r, names = self.rng, self.assignable()
    if not names: return None
    n = r.choice(names)
    t = self.scope[n]
    what = r.random()
    if what < .3:  # the tensor, or a view of it
      target, part = n, t
      for _ in range(r.choice([0, 0, 1, 1, 2])):
        view = self.view(target, part)
        try: found = eval(view, self.scope)  # noqa: S307
        except Exception: return None
        if not found.a.size: break
        target, part = view, found
      if part.kind == "bool": return None
      value = self.operand(part.shape, part.kind)
      if r.random() < .3 and value in self.scope: value = f"{value} + {self.value_of(part.kind)}"
      if r.random() < .15 and part.shape == t.shape: value = f"{n} * 2" if r.random() < .5 else f"{n}.flip(0)" if t.ndim else n
      return f"{target}.assign({value})"
    if what < .6 and t.ndim:
      k = self.key(t.shape, True)
      try: part = eval(f"{n}[{k}]", self.scope)  # noqa: S307
      except Exception: return None
      if t.kind == "bool": return f"{n}[{k}] = {r.choice(['True', 'False'])}"
      if r.random() < .25: return f"{n}[{k}] {r.choice(['+', '-', '*'])}= {self.operand(part.shape, t.kind)}"
      return f"{n}[{k}] = {self.operand(part.shape, t.kind)}"
    if what < .75 and t.ndim and t.kind != "bool":  # parts of one tensor on both sides
      k = r.randrange(1, t.shape[0] + 1)
      a, b = r.randrange(t.shape[0] - k + 1), r.randrange(t.shape[0] - k + 1)
      more = r.choice(["", f" + {self.value_of(t.kind)}", f" * {self.value_of(t.kind)}"])
      return r.choice([f"{n}[{a}:{a + k}] = {n}[{b}:{b + k}]{more}", f"{n}[{a}:{a + k}].assign({n}[{b}:{b + k}]{more})", f"{n}[:{k}] += {n}[{b}:{b + k}]"])
    if t.kind == "bool" or self.inside or (t.is_view() and n in self.held()): return None
    return f"{n} {r.choice(['+', '-', '*'])}= {self.operand(t.shape, t.kind)}"

  def read(self):
    names = self.tensors(empty=True)
    if not names or self.inside: return None
    n = self.rng.choice(names)
    kinds = [f"see({n}.numpy())"] * 3 + [f"see({n}.tolist())", f"{n}.realize()", f"{n}.realize()"]
    if self.scope[n].a.size == 1: kinds += [f"see({n}.item())"] * 3
    return self.rng.choice(kinds)

  def drop_old(self, before):
    """Where a library's tensors may see what is assigned later to those that they were made from: forgets these tensors."""
    changed = {n for n, node in before.items() if n in self.scope and self.scope[n].node is not node}
    if not changed: return
    old = [n for n in before if n in self.scope and n not in changed and (self.scope[n].node.sources or self.scope[n].of)]
    step = "\n".join([f"{n}.realize()" for n in sorted(changed)] + ([f"del {', '.join(old)}"] if old else []))
    exec(step, self.scope)  # noqa: S102
    self.steps.append(step)

  def forget(self):
    names = [n for n in self.tensors(empty=True) if n not in self.held()]
    return f"del {self.rng.choice(names)}" if len(names) > 5 and not self.inside else None

  def gradient(self):
    r = self.rng
    losses = self.tensors(lambda t: t.kind == "float32" and t.node.sources)
    if not self.gradients or self.inside or not losses: return None
    loss = r.choice(losses)
    text = loss if self.scope[loss].shape == () and r.random() < .5 else f"{loss}.sum()" if r.random() < .6 else f"({loss} * {self.operand(self.scope[loss].shape, 'float32')}).sum()"
    if r.random() < .5:
      targets = self.tensors(lambda t: t.kind == "float32")
      if not targets: return None
      t = r.choice(targets)
      return f"see({text}.gradient({t})[0].numpy())"
    leaves = self.tensors(lambda t: t.kind == "float32" and not t.node.sources and not t.was_assigned)
    lines = [f"{text}.backward()"]
    for t in leaves:
      if r.random() < .7: lines.append(f"see_gradient({t})")
      if r.random() < .2: lines.append(f"{t}.grad = None")
    return "\n".join(lines)

  def detach(self):
    names = self.tensors(lambda t: t.kind == "float32" and t.requires_grad and t.a.size)
    if not names or self.inside: return None
    n = self.rng.choice(names)  # as an optimiser does it
    return f"{n}.assign(({n} - {n}.square() * 0.25).detach())" if self.rng.random() < .5 else f"{n}.assign({n}.detach() + {self.value_of('float32')})"

  # Recorded functions.
  def function(self):
    r = self.rng
    if not self.jit or self.inside or len(self.functions) > 1: return None
    states = [n for n in self.tensors(lambda t: not t.requires_grad and t.a.size and t.kind != "bool") if r.random() < .3][:2]
    args = [(self.new(), r.choice(SHAPES), r.choice(["float32", "float32", "int32"])) for _ in range(r.choice([1, 1, 2]))]
    outer = {n: t for n, t in self.scope.items() if isinstance(t, Model)}
    saved, self.inside = list(self.steps), True
    for n in outer:
      if n not in states: del self.scope[n]
    for n, shape, kind in args: self.scope[n] = eval(self.literal(shape, kind), self.scope)  # noqa: S307
    body = []
    try:
      for _ in range(r.randrange(2, 7)):
        step = r.choice([self.compute, self.compute, self.assign, self.create])()
        if step is None: continue
        done, error = run([step], self.scope)
        if error is None: body.append(step)
        else: raise error
      made = [n for n in self.tensors(lambda t: t.a.size) if n not in states and n not in (a[0] for a in args)]
      results = r.sample(made, min(len(made), r.choice([1, 1, 2])))
      if r.random() < .2: results.append(args[0][0])
      if states and r.random() < .2: results.append(states[0])
    except Exception: return self.undo(saved)
    self.undo(saved)
    if not results or not body: return None
    name = f"f{len(self.functions) + 1}"
    realize = [f"{results[0]}.realize()"] if r.random() < .3 else []
    text = "\n  ".join([f"@TinyJit\ndef {name}({', '.join(a[0] for a in args)}):", *body, *realize, f"return ({', '.join(results)},)"])
    self.functions.append((name, args, states, len(results)))
    return text

  def undo(self, saved):
    self.steps, self.inside = saved, False
    self.restart()

  def call(self):
    r = self.rng
    if not self.functions or self.inside: return None
    name, args, states, n = r.choice(self.functions)
    given = []
    for _, shape, kind in args:
      names = self.tensors(lambda t, s=shape, k=kind: t.shape == s and t.kind == k and not t.requires_grad)
      names = [m for m in names if m not in states and m not in given]
      given.append(r.choice(names) if names and r.random() < .5 else self.literal(shape, kind) + r.choice(["", ".realize()", " + 2"]))
    if r.random() < .7 or n != 1: targets = ", ".join(self.new() for _ in range(n)) + ","
    else: targets = self.new() + ","
    return f"{targets} = {name}({', '.join(given)})"

  def program(self, length):
    kinds = [(self.create, 3), (self.compute, 8), (self.assign, 7), (self.read, 4), (self.forget, 1), (self.gradient, 2), (self.detach, 1), (self.function, 2), (self.call, 6)]
    kinds, weights = [k for k, _ in kinds], [w for _, w in kinds]
    self.steps += [f"{self.new()} = {self.literal(self.rng.choice(SHAPES), self.rng.choice(['float32', 'int32']))}" for _ in range(2)]
    if self.fresh: self.steps = [f"{s}.realize()" for s in self.steps]
    self.restart()
    for _ in range(4 * length):
      if len(self.steps) >= length: break
      functions, before = len(self.functions), {n: self.scope[n].node for n in self.tensors(empty=True)}
      step = self.rng.choices(kinds, weights)[0]()
      if step is None: continue
      if self.fresh and step.startswith("x") and " = " in step.split("[")[0]: step += f"\n{step.split(' = ')[0]}.realize()"
      done, error = run([step], self.scope)
      if error is None and sum(len(t.a.reshape(-1)) for t in self.scope.values() if isinstance(t, Model)) < 600:
        self.steps.append(step)
        if self.fresh: self.drop_old(before)
      else:
        del self.functions[functions:]
        self.restart()
    self.steps += [f"see({n}.numpy())" for n in self.tensors(empty=True)]
    self.restart()
    return self.steps, list(self.log)
