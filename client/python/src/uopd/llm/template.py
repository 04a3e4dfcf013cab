# SPDX-License-Identifier: MIT
"""Renders the chat templates of model files, which come from strangers: in jinja2's sandbox, with limits of work and of output. Needs the package jinja2.

What a template does is counted in steps. Each pass of a loop and each call costs as many steps as the code that it runs has parts; each value that an
operator, a filter, a call or a literal makes costs steps by its size, and so does each printed value. Where one operation could make something huge of
something small, the size is computed first. Filters, methods of texts and functions that are not listed here are not there.
"""
from __future__ import annotations

import datetime
import functools
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import jinja2
import jinja2.ext
import jinja2.parser
import jinja2.sandbox
import jinja2.visitor
from jinja2 import nodes

MOST_SOURCE = 500_000     # characters of a template
MOST_STEPS = 5_000_000
MOST_TEXT = 16_000_000    # characters of the output, and of each text that the template makes
MOST_SECONDS = 10.0
_CHARACTERS_OF_A_STEP = 8
_TEXT_METHODS = frozenset("""capitalize casefold count endswith find index isalnum isalpha isascii isdecimal isdigit islower isnumeric isspace istitle isupper join lower
  lstrip partition removeprefix removesuffix replace rfind rindex rpartition rsplit rstrip split splitlines startswith strip swapcase title upper""".split())
_FILTERS = frozenset("""abs attr capitalize count d default dictsort e escape first float groupby int items last length list lower map max min reject rejectattr reverse
  safe select selectattr sort string title trim truncate unique upper""".split())
_CONTAINERS = (list, tuple, dict, set)


class TooMuch(Exception):
  """A template went beyond a limit."""


class Refused(Exception):
  """A template called raise_exception."""


class _Budget:
  def __init__(self) -> None: self.steps, self.until = MOST_STEPS, time.monotonic() + MOST_SECONDS

  def spend(self, steps: int) -> int:
    """Takes steps from what is left. 0 are to be paid then."""
    self.steps -= steps
    if self.steps < 0: raise TooMuch(f"it takes more than {MOST_STEPS} steps")
    if time.monotonic() > self.until: raise TooMuch(f"it takes more than {MOST_SECONDS:g} seconds")
    return 0

  def size(self, n: int) -> None:
    """Pays for a text or a container before it is made."""
    if n > MOST_TEXT: raise TooMuch(f"it makes a text or a list of more than {MOST_TEXT} characters or elements")
    self.spend(1 + n // _CHARACTERS_OF_A_STEP)

  def made(self, value: Any) -> Any:
    """Pays for a value: for a container with all that is in it, as often as it is in it. So no value is larger than the steps allow."""
    if isinstance(value, str): self.size(len(value))
    elif isinstance(value, _CONTAINERS):
      rest: list[Any] = [value]
      steps = 0
      while rest:
        one = rest.pop()
        steps += 1 + len(one)
        if steps > 10_000: steps = self.spend(steps)
        rest += [part for part in (one.values() if isinstance(one, dict) else one) if isinstance(part, _CONTAINERS)]
      self.spend(steps)
    else: self.spend(1)
    return value

  def passes(self, values: Any, cost: int) -> Any:
    """The values that a loop goes through, each of which pays for its pass."""
    if isinstance(values, Iterator): return self.each(values, cost)
    return _Passes(self, values, cost) if hasattr(values, "__len__") and not isinstance(values, jinja2.Undefined) else values

  def each(self, values: Iterator[Any], cost: int) -> Iterator[Any]:
    for v in values:
      self.spend(cost)
      yield v

  def copied(self, value: Any) -> Any:
    """Pays for a slice, whose parts were paid for when the whole was made."""
    if hasattr(value, "__len__"): self.size(len(value))
    return value

  def replace(self, text: Any, old: Any, new: Any, count: Any = -1) -> str:
    text, old, new, count = str(text), str(old), str(new), -1 if count is None else int(count)
    times = text.count(old)
    self.size(len(text) + (times if count < 0 else min(count, times)) * len(new))
    return str(text.replace(old, new, count))

  def join(self, separator: Any, values: Any) -> str:
    separator, texts, n = str(separator), list[str](), 0
    for v in values:
      texts.append(str(self.made(v)))
      n += len(texts[-1]) + len(separator)
      if n > MOST_TEXT: break
    self.size(n)
    return str(separator).join(texts)

  def indent(self, text: Any, width: Any = 4, first: bool = False, blank: bool = False) -> str:
    text, space = str(text), width if isinstance(width, str) else " " * min(max(int(width), 0), 1000)
    self.size(len(text) + (text.count("\n") + 1) * len(space))
    return "\n".join([(space if (first or i) and (blank or line) else "") + line for i, line in enumerate(text.split("\n"))])

  def tojson(self, value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
    self.made(value)
    text = json.dumps(value, ensure_ascii=ensure_ascii, indent=None if indent is None else min(max(int(indent), 0), 16),
                      separators=None if separators is None else tuple(separators), sort_keys=sort_keys)
    return str(self.made(text))


class _Passes:
  """Values of which a loop may ask how many they are."""
  def __init__(self, budget: _Budget, values: Any, cost: int) -> None: self._budget, self._values, self._cost = budget, values, cost
  def __len__(self) -> int: return len(self._values)
  def __iter__(self) -> Iterator[Any]: return self._budget.each(iter(self._values), self._cost)


def _parts(node: nodes.Node) -> int:
  """How many parts some code has; text in it counts by its length."""
  n, rest = 0, [node]
  while rest:
    one = rest.pop()
    n += 1 + (len(one.data) // _CHARACTERS_OF_A_STEP if isinstance(one, nodes.TemplateData) else 0)
    rest += one.iter_child_nodes()
  return n


def _made(node: nodes.Expr) -> nodes.Expr:
  return node if isinstance(node, nodes.Const) else nodes.Filter(node, "_made", [], [], None, None, lineno=node.lineno)


class _Paying(jinja2.visitor.NodeTransformer):
  """Lets loops, literals of containers, slices, what is compared and `~` go through filters that count."""
  def visit_For(self, node: nodes.For) -> nodes.Node:
    if node.recursive: raise TooMuch("it has a recursive loop, which templates may not")
    cost = _parts(node)
    self.generic_visit(node)
    node.iter = nodes.Filter(node.iter, "_passes", [nodes.Const(cost)], [], None, None, lineno=node.lineno)
    return node

  def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
    self.generic_visit(node)
    return nodes.Filter(nodes.List(node.nodes, lineno=node.lineno), "_concat", [], [], None, None, lineno=node.lineno)

  def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
    self.generic_visit(node)
    return nodes.Filter(node, "_copied", [], [], None, None, lineno=node.lineno) if isinstance(node.arg, nodes.Slice) else node

  def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
    self.generic_visit(node)
    node.expr = _made(node.expr)
    for operand in node.ops: operand.expr = _made(operand.expr)
    return node

  def _literal(self, node: Any) -> nodes.Node:
    self.generic_visit(node)
    if isinstance(node, nodes.Tuple) and node.ctx != "load": return node
    return node if all(isinstance(i, nodes.Const) for i in node.items) else _made(node)

  visit_List = visit_Tuple = visit_Dict = _literal


class _Generation(jinja2.ext.Extension):
  """{% generation %}, which marks what a model says, for training: its contents are written as they are."""
  tags = {"generation"}

  def parse(self, parser: jinja2.parser.Parser) -> list[nodes.Node]:
    next(parser.stream)
    return list(parser.parse_statements(("name:endgeneration",), drop_needle=True))


class _Environment(jinja2.sandbox.ImmutableSandboxedEnvironment):
  intercepted_binops = frozenset(("+", "*", "**", "%"))

  def __init__(self) -> None:
    self.budget, self.body = _Budget(), 1  # body: parts of the longest macro, which is what a call may run
    super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _Generation], cache_size=0, finalize=self._printed)
    usual = {name: self._paid(f) for name, f in self.filters.items() if name in _FILTERS}
    self.filters = usual | {
      "replace": lambda s, old, new, count=None: self.budget.replace(s, old, new, count), "tojson": lambda *a, **k: self.budget.tojson(*a, **k),
      "join": lambda v, d="", attribute=None: self.budget.join(d, v if attribute is None else [self.getitem(one, attribute) for one in v]),
      "indent": lambda *a, **k: self.budget.indent(*a, **k), "_passes": lambda v, cost: self.budget.passes(v, cost),
      "_made": lambda v: self.budget.made(v), "_copied": lambda v: self.budget.copied(v), "_concat": lambda v: self.budget.join("", v)}
    self.globals = {"range": jinja2.sandbox.safe_range, "dict": dict, "namespace": jinja2.utils.Namespace, "raise_exception": _raise_exception, "strftime_now": _strftime_now}

  def _printed(self, value: Any) -> str:
    self.budget.made(value)
    return value if isinstance(value, str) else str(self.budget.made(str(value)))

  def _paid(self, function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that pays for what it makes. functools.wraps keeps jinja2's marks on the function."""
    @functools.wraps(function)
    def paid(*args: Any, **kwargs: Any) -> Any:
      made = function(*args, **kwargs)
      return self.budget.passes(made, 1) if isinstance(made, Iterator) else self.budget.made(made)
    return paid

  def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
    tree = super()._parse(source, name, filename)
    self.body = max([_parts(m) for m in tree.find_all((nodes.Macro, nodes.CallBlock))], default=1)
    paying = _Paying().visit(tree)
    assert isinstance(paying, nodes.Template)
    return paying

  def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # the names leave all others to the arguments
    budget = __self.budget
    budget.spend(__self.body)
    owner, name = getattr(__obj, "__self__", None), getattr(__obj, "__name__", "")
    if isinstance(owner, str) and name in ("replace", "join"):
      given = {k: v for k, v in kwargs.items() if k not in ("_loop_vars", "_block_vars")}  # jinja2 gives these to all that is called
      return budget.replace(owner, *args, **given) if name == "replace" else budget.join(owner, *args, **given)
    made = super().call(__context, __obj, *args, **kwargs)
    return made if isinstance(made, range) else budget.made(made)

  def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
    if operator == "**": raise TooMuch("it uses **, which templates may not")
    if operator == "%" and isinstance(left, str): raise TooMuch("it uses % with a text, which templates may not")
    many = (str, list, tuple)
    if operator == "*":
      for a, b in ((left, right), (right, left)):
        if isinstance(a, many) and isinstance(b, int): self.budget.size(len(a) * max(b, 0))
    elif operator == "+" and isinstance(left, many) and isinstance(right, many):
      self.budget.size(len(left) + len(right))
      if isinstance(left, (list, tuple)): self.budget.made(min(left, right, key=len))  # what is in the longer one was paid for when that was made
      return super().call_binop(context, operator, left, right)
    made = super().call_binop(context, operator, left, right)
    if isinstance(made, int) and made.bit_length() > 1000: raise TooMuch("it computes with numbers of more than 1000 bits")
    return self.budget.made(made)

  def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
    if isinstance(obj, bytes) or isinstance(obj, str) and attr not in _TEXT_METHODS: return False
    return super().is_safe_attribute(obj, attr, value)

  def wrap_str_format(self, value: Any) -> None:
    return None  # the methods format and format_map are none of _TEXT_METHODS


def _raise_exception(message: Any) -> None: raise Refused(str(message)[:1000])


def _strftime_now(format: Any) -> str: return datetime.datetime.now().strftime(str(format)[:200])


class Template:
  """A template that is compiled. Any error of it is a ValueError that begins with its name."""
  def __init__(self, source: str, name: str) -> None:
    self._name, self._environment, self._lock = name, _Environment(), threading.Lock()
    if len(source) > MOST_SOURCE: raise ValueError(f"{name} has {len(source)} characters; {MOST_SOURCE} are possible")
    self._template = self._guarded(lambda: self._environment.from_string(source))

  def _guarded(self, work: Callable[[], Any]) -> Any:
    with self._lock:
      self._environment.budget = _Budget()
      try: return work()
      except TooMuch as e: raise ValueError(f"{self._name} goes beyond a limit: {e}") from None
      except Refused as e: raise ValueError(f"{self._name} refuses the messages: {e}") from None
      except jinja2.TemplateSyntaxError as e: raise ValueError(f"{self._name}, line {e.lineno}: {e.message}") from None
      except RecursionError: raise ValueError(f"{self._name} is nested too deeply") from None
      except Exception as e: raise ValueError(f"{self._name}: {type(e).__name__}: {str(e)[:1000]}") from e

  def render(self, values: dict[str, Any]) -> str:
    def work() -> str:
      out, n = list[str](), 0
      for part in self._template.generate(values):
        out.append(part)
        n += len(part)
        if n > MOST_TEXT: raise TooMuch(f"its output has more than {MOST_TEXT} characters")
      return "".join(out)
    return str(self._guarded(work))
