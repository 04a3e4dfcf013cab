# SPDX-License-Identifier: MIT
"""Variables: integers whose values are no part of the graph, for sizes, positions and values that change from call to call."""
from __future__ import annotations

import functools
import math
from typing import Any, Callable, Iterator

from . import _core
from .dtype import DType, DTypeLike, dtypes, to_dtype
from .errors import WrongArgument
from .runtime import client


class Size:
  """A size or a position that is computed from variables by +, -, *, //, %, maximum and minimum with integers and other sizes.

  Sizes are equal if they are the same sum of products. `<` and its like are answered where they hold for all values of the variables.
  """
  __slots__ = ("_terms",)
  _terms: dict[tuple[Atom, ...], int]  # products of atoms, and how often each is added

  @staticmethod
  def variable(name: str, min_val: int, max_val: int, dtype: DTypeLike | None = None) -> Variable:
    """A Variable."""
    return Variable(name, min_val, max_val, dtype)

  def _evaluated(self, value: Callable[[Atom], int | None]) -> int | None:
    total = 0
    for atoms, factor in self._terms.items():
      values = [value(a) for a in atoms]
      if any(v is None for v in values): return None
      total += factor * math.prod(v for v in values if v is not None)
    return total
  def _bounds(self) -> tuple[int, int]:
    low = high = 0
    for atoms, factor in self._terms.items():
      a = b = 1
      for atom in atoms:
        ends = [x * y for x in (a, b) for y in atom._range()]
        a, b = min(ends), max(ends)
      low, high = low + min(a * factor, b * factor), high + max(a * factor, b * factor)
    return low, high

  @property
  def val(self) -> int | None:
    """The value, if all variables have one."""
    return self._evaluated(lambda a: a._value())
  @property
  def vmin(self) -> int:
    """The smallest value, as far as it follows from those of the variables."""
    return self._bounds()[0]
  @property
  def vmax(self) -> int:
    """The largest value, as far as it follows from those of the variables."""
    return self._bounds()[1]
  @property
  def dtype(self) -> DType:
    """What Tensor(size) has: int32, or int64 if that holds it and int32 does not; of a Variable with a dtype that one."""
    return dtypes.default_int if dtypes.default_int.min <= self.vmin and self.vmax <= dtypes.default_int.max else dtypes.int64
  def variables(self) -> list[Variable]:
    """The variables that it is made of, sorted by name, each one once."""
    found = {v.name: v for atoms in self._terms for a in atoms for v in a._variables()}
    return [found[name] for name in sorted(found)]
  def unbound(self) -> Size | int:
    """The same without the values of its variables."""
    return self._with(lambda a: a._unbound())
  def sym_infer(self, var_vals: dict[str, int]) -> int:
    """The value with these values of the variables, by name."""
    out = self._evaluated(lambda a: a._infer(var_vals))
    if out is None: raise WrongArgument(f"{self!r} has variables without a value in {var_vals}")
    return out
  def _with(self, change: Callable[[Atom], Size | int]) -> Size | int:
    out: Size | int = 0
    for atoms, factor in self._terms.items():
      term: Size | int = factor
      for a in atoms: term = change(a) * term
      out = term + out
    return out

  def handle(self) -> _core.Handle:
    """The scalar int64 tensor of the size, in the client library."""
    h: Any = None
    for atoms, factor in sorted(self._terms.items(), key=_order):
      term: Any = None
      for a in atoms: term = a._scalar() if term is None else _core.mul(term, a._scalar())
      term = factor if term is None else term if factor == 1 else _core.mul(term, factor)
      h = term if h is None else _core.add(h, term)
    return h

  def _float(self) -> Any:
    """The value as a tensor of the default float, which stays a variable."""
    from .base import tensor_class
    return tensor_class()(self, dtype=dtypes.default_float)

  # With a float each of these is a tensor.
  def __add__(self, x: Any) -> Any:
    if isinstance(x, float): return self._float() + x
    if not isinstance(x, (Size, int)): return NotImplemented
    return _sum([(self._terms, 1), (_terms(x), 1)])
  __radd__ = __add__
  def __sub__(self, x: Any) -> Any:
    if isinstance(x, float): return self._float() - x
    if not isinstance(x, (Size, int)): return NotImplemented
    return _sum([(self._terms, 1), (_terms(x), -1)])
  def __rsub__(self, x: Any) -> Any: return -self + x
  def __neg__(self) -> Any: return _sum([(self._terms, -1)])
  def __pos__(self) -> Size: return self
  def __mul__(self, x: Any) -> Any:
    if isinstance(x, float): return self._float() * x
    if not isinstance(x, (Size, int)): return NotImplemented
    products: list[tuple[dict[tuple[Atom, ...], int], int]] = []
    for b, m in _terms(x).items():
      products.append(({tuple(sorted(a + b, key=lambda v: v._name())): n for a, n in self._terms.items()}, m))
    return _sum(products)
  __rmul__ = __mul__
  def __truediv__(self, x: Any) -> Any: return self._float() / x if isinstance(x, (int, float, Size)) else NotImplemented
  def __rtruediv__(self, x: Any) -> Any: return x / self._float() if isinstance(x, (int, float)) else NotImplemented
  def __pow__(self, x: Any) -> Any:
    if isinstance(x, int) and 0 <= x <= 8: return math.prod([self] * x)
    return self._float() ** x if isinstance(x, (float, Size)) else NotImplemented
  def __rpow__(self, x: Any) -> Any: return x ** self._float() if isinstance(x, (int, float)) else NotImplemented
  def __floordiv__(self, x: Any) -> Any:
    if isinstance(x, int) and x > 0 and all(n % x == 0 for a, n in self._terms.items() if a): return _sum([({a: n // x for a, n in self._terms.items()}, 1)])
    return _quotient("//", self, x)
  def __rfloordiv__(self, x: Any) -> Any: return _quotient("//", x, self)
  def __mod__(self, x: Any) -> Any:
    if isinstance(x, int) and x > 0 and all(n % x == 0 for a, n in self._terms.items() if a): return self._terms.get((), 0) % x
    return _quotient("%", self, x)
  def __rmod__(self, x: Any) -> Any: return _quotient("%", x, self)
  def maximum(self, x: Size | int) -> Size | int:
    """The larger one."""
    d = self - x
    low, high = (d, d) if isinstance(d, int) else d._bounds()
    return self if low >= 0 else x if high <= 0 else x + _made({(_Operation("max", d, 0),): 1})
  def minimum(self, x: Size | int) -> Size | int:
    """The smaller one."""
    return -((-self).maximum(-x))

  def __eq__(self, x: object) -> bool:
    return self._terms == _terms(x) if isinstance(x, (Size, int)) else NotImplemented
  def __hash__(self) -> int: return hash(frozenset(self._terms.items()))
  def _below(self, x: Any, what: str, more: int) -> Any:
    """Whether it is below x + more."""
    if isinstance(x, float): x = math.ceil(x) if not more else math.floor(x)  # of whole numbers
    if not isinstance(x, (Size, int)): return NotImplemented
    d = x + more - self
    low, high = (d, d) if isinstance(d, int) else d._bounds()
    if low > 0: return True
    if high <= 0: return False
    raise WrongArgument(f"whether {self!r} {what} {x!r} depends on the values of the variables")
  def __lt__(self, x: Any) -> Any: return self._below(x, "<", 0)
  def __le__(self, x: Any) -> Any: return self._below(x, "<=", 1)
  def __gt__(self, x: Any) -> Any:
    below = self._below(x, ">", 1)
    return below if below is NotImplemented else not below
  def __ge__(self, x: Any) -> Any:
    below = self._below(x, ">=", 0)
    return below if below is NotImplemented else not below
  def __bool__(self) -> bool:
    low, high = self._bounds()
    if low > 0 or high < 0: return True
    raise WrongArgument(f"whether {self!r} is 0 depends on the values of the variables")

  def render(self) -> str:
    """Its text."""
    parts = []
    for atoms, factor in sorted(self._terms.items(), key=_order):
      names = "*".join(a._name() for a in atoms)
      parts.append(str(factor) if not names else names if factor == 1 else f"{factor}*{names}")
    return " + ".join(parts) or "0"
  def __repr__(self) -> str: return self.render()


class Atom:
  """What sums of products are made of: a variable, or an operation."""
  __slots__ = ()
  def _name(self) -> str: raise NotImplementedError
  def _value(self) -> int | None: raise NotImplementedError
  def _infer(self, values: dict[str, int]) -> int | None: raise NotImplementedError
  def _range(self) -> tuple[int, int]: raise NotImplementedError
  def _variables(self) -> Iterator[Variable]: raise NotImplementedError
  def _unbound(self) -> Size | int: raise NotImplementedError
  def _scalar(self) -> _core.Handle: raise NotImplementedError


class _Operation(Atom):
  """A quotient, a remainder or a maximum of sizes."""
  __slots__ = ("kind", "a", "b")
  def __init__(self, kind: str, a: Size | int, b: Size | int) -> None: self.kind, self.a, self.b = kind, a, b
  def _name(self) -> str: return f"max({self.a}, {self.b})" if self.kind == "max" else f"({self.a}){self.kind}({self.b})"
  def _apply(self, a: int | None, b: int | None) -> int | None:
    if a is None or b is None: return None
    return max(a, b) if self.kind == "max" else 0 if b == 0 else a // b if self.kind == "//" else a % b
  def _value(self) -> int | None: return self._apply(*(x if isinstance(x, int) else x.val for x in (self.a, self.b)))
  def _infer(self, values: dict[str, int]) -> int | None: return self._apply(*(x if isinstance(x, int) else x.sym_infer(values) for x in (self.a, self.b)))
  def _range(self) -> tuple[int, int]:
    a, b = ((x, x) if isinstance(x, int) else x._bounds() for x in (self.a, self.b))
    if self.kind == "max": return max(a[0], b[0]), max(a[1], b[1])
    if self.kind == "%" and b[0] > 0: return 0, b[1] - 1
    if self.kind == "//" and b[0] > 0:
      ends = [x // y for x in a for y in b]
      return min(ends), max(ends)
    most = max(abs(v) for v in (*a, *b))
    return -most, most
  def _variables(self) -> Iterator[Variable]:
    for x in (self.a, self.b):
      if isinstance(x, Size): yield from x.variables()
  def _unbound(self) -> Size | int:
    a, b = (x if isinstance(x, int) else x.unbound() for x in (self.a, self.b))
    return _combined(self.kind, a, b)
  def _scalar(self) -> _core.Handle:
    a, b = (x if isinstance(x, int) else x.handle() for x in (self.a, self.b))
    if self.kind == "max": return _core.maximum(self.a.handle(), b)  # type: ignore[union-attr]  # see Size.maximum
    return _core.div_mode(a, b, 2) if self.kind == "//" else _core.mod(a, b)
  def __eq__(self, x: object) -> bool:
    return isinstance(x, _Operation) and (self.kind, self.a, self.b) == (x.kind, x.a, x.b)
  def __hash__(self) -> int: return hash((self.kind, self.a, self.b))


def _order(term: tuple[tuple[Atom, ...], int]) -> tuple[bool, list[str]]:
  """The number comes last."""
  return not term[0], [a._name() for a in term[0]]
def _terms(x: Size | int) -> dict[tuple[Atom, ...], int]: return x._terms if isinstance(x, Size) else {(): x} if x else {}
def _made(terms: dict[tuple[Atom, ...], int]) -> Size | int:
  if all(not atoms for atoms in terms): return terms.get((), 0)
  if len(terms) == 1:
    (atoms, factor), = terms.items()
    if factor == 1 and len(atoms) == 1 and isinstance(atoms[0], Variable): return atoms[0]
  size = object.__new__(Size)
  size._terms = terms
  return size
def _sum(parts: list[tuple[dict[tuple[Atom, ...], int], int]]) -> Size | int:
  out: dict[tuple[Atom, ...], int] = {}
  for terms, times in parts:
    for atoms, n in terms.items(): out[atoms] = out.get(atoms, 0) + n * times
  return _made({atoms: n for atoms, n in out.items() if n})
def _quotient(kind: str, a: Any, b: Any) -> Any:
  if not isinstance(a, (Size, int)) or not isinstance(b, (Size, int)): return NotImplemented
  if b == 0: raise ZeroDivisionError(f"{a!r} {kind} 0")
  if b == 1: return a if kind == "//" else 0
  return _made({(_Operation(kind, a, b),): 1})
def _combined(kind: str, a: Any, b: Any) -> Size | int:
  if kind == "max": return a.maximum(b) if isinstance(a, Size) else max(a, b) if isinstance(b, int) else b.maximum(a)
  out: Size | int = {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "//": lambda: a // b, "%": lambda: a % b}[kind]()
  return out


class Variable(Size, Atom):
  """An integer between `min` and `max`, both included.

  >>> from uopd import Tensor, Variable
  >>> x = Tensor.arange(10).contiguous().realize()
  >>> for n in (3, 5): x[:Variable("n", 1, 10).bind(n)].sum().item()
  3
  10
  >>> n = Variable("n", 1, 8).bind(4)
  >>> x[n:n + 2].tolist()
  [4, 5]

  dtype: an integer type, that of Tensor(variable). In other expressions with tensors a variable takes their dtype, as a Python number does.
  """
  __slots__ = ("name", "min", "max", "_val", "_dtype")

  def __init__(self, name: str, min_val: int, max_val: int, dtype: DTypeLike | None = None) -> None:
    if min_val > max_val: raise ValueError(f"variable {name}: min {min_val} is above max {max_val}")
    self.name, self.min, self.max = name, min_val, max_val
    self._dtype = None if dtype is None else to_dtype(dtype)
    if self._dtype is not None and not dtypes.is_int(self._dtype): raise TypeError(f"variable {name}: {self._dtype.name} is no integer type")
    self._val: int | None = None
    self._terms = {(self,): 1}

  @property
  def val(self) -> int | None:
    """The value, if it has one."""
    return self._val
  @property
  def expr(self) -> str:
    """The name."""
    return self.name
  @property
  def dtype(self) -> DType:
    """What Tensor(variable) has."""
    return self._dtype or super().dtype

  def bind(self, val: int) -> Variable:
    """The variable with a value."""
    if not self.min <= val <= self.max: raise ValueError(f"{val} is not within {self.min} and {self.max} of variable {self.name}")
    bound = Variable(self.name, self.min, self.max, self._dtype)
    bound._val = val
    return bound

  def unbind(self) -> tuple[Variable, int]:
    """The variable without its value, and the value."""
    if self._val is None: raise ValueError(f"variable {self.name} has no value")
    return Variable(self.name, self.min, self.max, self._dtype), self._val

  def handle(self) -> _core.Handle:
    """The scalar int64 tensor of the variable, in the client library. What is computed from one without a value is an error."""
    return _core.variable(client(), self.name, self.min, self.max, self._val)

  def _name(self) -> str: return self.name
  def _value(self) -> int | None: return self._val
  def _infer(self, values: dict[str, int]) -> int | None: return values.get(self.name, self._val)
  def _range(self) -> tuple[int, int]: return self.min, self.max
  def _variables(self) -> Iterator[Variable]: yield self
  def _unbound(self) -> Size | int: return Variable(self.name, self.min, self.max, self._dtype)
  def _scalar(self) -> _core.Handle: return self.handle()
  def _bounds(self) -> tuple[int, int]: return self.min, self.max
  def __eq__(self, x: object) -> bool:
    if isinstance(x, Variable): return (self.name, self.min, self.max, self._val) == (x.name, x.min, x.max, x._val)
    return False if isinstance(x, (Size, int)) else NotImplemented
  def __hash__(self) -> int: return hash((self.name, self.min, self.max, self._val))
  def render(self) -> str:
    """Its name."""
    return self.name
  def __repr__(self) -> str:
    return f"Variable({self.name!r}, {self.min}, {self.max})" + (f".bind({self._val})" if self._val is not None else "")
  def __reduce__(self) -> Any: return _variable, (self.name, self.min, self.max, self._val, self._dtype and self._dtype.name)


def _variable(name: str, low: int, high: int, value: int | None, dtype: str | None = None) -> Variable:
  made = Variable(name, low, high, dtype)
  return made if value is None else made.bind(value)


@functools.lru_cache(maxsize=4096)
def of_tree(tree: Any) -> Size | int:
  """A size as the client library says it: a number, ("var", name, min, max, value), or (operation, a, b)."""
  if isinstance(tree, int): return tree
  if tree[0] == "var": return _variable(*tree[1:])
  return _combined(tree[0], of_tree(tree[1]), of_tree(tree[2]))


def is_size(x: object) -> bool:
  """True for sizes that are no numbers."""
  return isinstance(x, Size)


def now(size: Any) -> int:
  """The value of a size that has one."""
  if isinstance(size, int): return size
  if size.val is None: raise WrongArgument(f"{size!r} is unbound: a variable has no value")
  return int(size.val)


_core.set_size_maker(of_tree)
UOp = Size  # tinygrad's name for what sizes are made of
