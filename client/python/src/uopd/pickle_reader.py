# SPDX-License-Identifier: MIT
"""A reader of pickles that makes numbers, texts, lists, tuples, dicts, sets, and what a table of names allows. It calls nothing else, so that a
file can do no harm, and each byte of it costs a bounded amount of memory."""
from __future__ import annotations

import io
import pickle
import struct
from typing import Any, Callable

_MARK = object()
MOST_IN_KEY = 1000  # values in tuples that are keys


class Refused(ValueError):
  """The pickle is none, or wants what is not allowed."""


class Call:
  """What a name of a pickle stands for: a function that a pickle may call."""
  __slots__ = ("name", "f")
  def __init__(self, name: str, f: Callable[..., Any]) -> None: self.name, self.f = name, f


def _key(x: Any) -> Any:
  """A key of a dict or an element of a set. Deeply nested tuples would end the process when they are hashed."""
  left, seen = [x], 0
  while left:
    v, seen = left.pop(), seen + 1
    if isinstance(v, tuple) and seen + len(v) <= MOST_IN_KEY: left.extend(v)
    elif not isinstance(v, (str, bytes, int, float, bool, type(None))): raise Refused(f"a key is a {type(v).__name__}, or too large a tuple")
    if seen > MOST_IN_KEY: raise Refused("a key is too large a tuple")
  return x


class PickleReader:
  """Reads pickles one after the other from a file that is in memory.

  find(module, name): what a name stands for, a Call or a plain value, or raises Refused. load(id): the object of a persistent id."""
  def __init__(self, file: io.BytesIO, find: Callable[[str, str], Any], load: Callable[[Any], Any]) -> None:
    self._file, self._find, self._load_id = file, find, load

  def load(self) -> Any:
    """The next object."""
    self._stack: list[Any] = []
    self._memo: dict[int, Any] = {}
    try:
      while True:
        op = self._take(1)
        if op == pickle.STOP: return self._pop()
        step = _STEPS.get(op)
        if step is None: raise Refused(f"the pickle has the operation {op!r} at byte {self._file.tell() - 1}")
        step(self)
    except (IndexError, KeyError, struct.error, UnicodeDecodeError, OverflowError, TypeError, AttributeError, RecursionError) as e:
      raise Refused(f"the pickle is broken at byte {self._file.tell()}: {type(e).__name__} {e}") from None

  # The stream.
  def _take(self, n: int) -> bytes:
    data = self._file.read(n) if 0 <= n < 1 << 62 else b""
    if len(data) != n: raise Refused("the pickle ends too early")
    return data
  def _number(self, code: str) -> Any: return struct.unpack("<" + code, self._take(struct.calcsize(code)))[0]
  def _line(self) -> bytes:
    line = self._file.readline()
    if not line.endswith(b"\n"): raise Refused("the pickle ends too early")
    return line[:-1]
  def _sized(self, code: str) -> bytes: return self._take(self._number(code))

  # The stack.
  def _push(self, x: Any) -> None: self._stack.append(x)
  def _pop(self) -> Any:
    x = self._stack.pop()
    if x is _MARK: raise Refused("the pickle takes a mark as a value")
    return x
  def _top(self, kind: type) -> Any:
    if not isinstance(self._stack[-1], kind): raise Refused(f"the pickle fills a {type(self._stack[-1]).__name__} as a {kind.__name__}")
    return self._stack[-1]
  def _items(self) -> list[Any]:
    """What was pushed since the last mark."""
    at = len(self._stack) - 1
    while at >= 0 and self._stack[at] is not _MARK: at -= 1
    if at < 0: raise Refused("the pickle has no mark")
    items = self._stack[at + 1:]
    del self._stack[at:]
    return items
  def _memoize(self, at: int) -> None: self._memo[at] = self._stack[-1]

  # The operations that are more than a line.
  def _set_items(self, items: list[Any]) -> None:
    if len(items) % 2: raise Refused("the pickle has a key without a value")
    target = self._top(dict)
    for i in range(0, len(items), 2): target[_key(items[i])] = items[i + 1]
  def _make_dict(self) -> None:
    items = self._items()
    self._push({})
    self._set_items(items)
  def _add_items(self) -> None:
    items = self._items()
    self._top(set).update(_key(x) for x in items)
  def _append(self, items: list[Any]) -> None: self._top(list).extend(items)
  def _global(self, module: str, name: str) -> None: self._push(self._find(module, name))
  def _stack_global(self) -> None:
    name, module = self._pop(), self._pop()
    self._global(_text(module), _text(name))
  def _reduce(self) -> None:
    arguments, f = self._pop(), self._pop()
    if not isinstance(f, Call) or not isinstance(arguments, tuple): raise Refused(f"the pickle calls a {type(f).__name__}")
    self._push(f.f(*arguments))
  def _build(self) -> None:
    self._pop()  # attributes of the object, such as versions in a state: they are not kept
    if not self._stack or isinstance(self._stack[-1], Call): raise Refused("the pickle sets attributes of what has none")
  def _text_number(self) -> None:
    line = self._line()
    self._push(line == b"01" if line in (b"00", b"01") else int(line, 0) if len(line) < 1000 else _refuse("a number is too long"))
  def _text_long(self) -> None:
    line = self._line().rstrip(b"L")
    self._push(int(line) if len(line) < 1000 else _refuse("a number is too long"))


def _refuse(what: str) -> Any: raise Refused(what)


def _text(x: Any) -> str: return x if isinstance(x, str) else _refuse(f"a name is a {type(x).__name__}")


def _long(data: bytes) -> int: return int.from_bytes(data, "little", signed=True)


_STEPS: dict[bytes, Callable[[PickleReader], Any]] = {
  pickle.PROTO: lambda r: r._take(1), pickle.FRAME: lambda r: r._take(8),
  pickle.MARK: lambda r: r._push(_MARK), pickle.POP: lambda r: r._stack.pop(), pickle.POP_MARK: lambda r: r._items(),
  pickle.DUP: lambda r: r._push(r._stack[-1]),
  pickle.NONE: lambda r: r._push(None), pickle.NEWTRUE: lambda r: r._push(True), pickle.NEWFALSE: lambda r: r._push(False),
  pickle.INT: PickleReader._text_number, pickle.LONG: PickleReader._text_long,
  pickle.BININT: lambda r: r._push(r._number("i")), pickle.BININT1: lambda r: r._push(r._number("B")), pickle.BININT2: lambda r: r._push(r._number("H")),
  pickle.LONG1: lambda r: r._push(_long(r._sized("B"))), pickle.LONG4: lambda r: r._push(_long(r._sized("i"))),
  pickle.FLOAT: lambda r: r._push(float(r._line())), pickle.BINFLOAT: lambda r: r._push(struct.unpack(">d", r._take(8))[0]),
  pickle.BINUNICODE: lambda r: r._push(str(r._sized("I"), "utf-8", "surrogatepass")),
  pickle.SHORT_BINUNICODE: lambda r: r._push(str(r._sized("B"), "utf-8", "surrogatepass")),
  pickle.BINUNICODE8: lambda r: r._push(str(r._sized("Q"), "utf-8", "surrogatepass")),
  pickle.UNICODE: lambda r: r._push(str(r._line(), "raw-unicode-escape")),
  pickle.BINSTRING: lambda r: r._push(str(r._sized("i"), "latin-1")), pickle.SHORT_BINSTRING: lambda r: r._push(str(r._sized("B"), "latin-1")),
  pickle.BINBYTES: lambda r: r._push(r._sized("I")), pickle.SHORT_BINBYTES: lambda r: r._push(r._sized("B")), pickle.BINBYTES8: lambda r: r._push(r._sized("Q")),
  pickle.EMPTY_LIST: lambda r: r._push([]), pickle.EMPTY_TUPLE: lambda r: r._push(()), pickle.EMPTY_DICT: lambda r: r._push({}), pickle.EMPTY_SET: lambda r: r._push(set()),
  pickle.LIST: lambda r: r._push(r._items()), pickle.TUPLE: lambda r: r._push(tuple(r._items())), pickle.DICT: PickleReader._make_dict,
  pickle.TUPLE1: lambda r: r._push((r._pop(),)), pickle.TUPLE2: lambda r: r._push((r._pop(), r._pop())[::-1]),
  pickle.TUPLE3: lambda r: r._push((r._pop(), r._pop(), r._pop())[::-1]),
  pickle.APPEND: lambda r: r._append([r._pop()]), pickle.APPENDS: lambda r: r._append(r._items()),
  pickle.SETITEM: lambda r: r._set_items([r._pop(), r._pop()][::-1]), pickle.SETITEMS: lambda r: r._set_items(r._items()),
  pickle.ADDITEMS: PickleReader._add_items,
  pickle.PUT: lambda r: r._memoize(int(r._line())), pickle.BINPUT: lambda r: r._memoize(r._number("B")), pickle.LONG_BINPUT: lambda r: r._memoize(r._number("I")),
  pickle.MEMOIZE: lambda r: r._memoize(len(r._memo)),
  pickle.GET: lambda r: r._push(r._memo[int(r._line())]), pickle.BINGET: lambda r: r._push(r._memo[r._number("B")]),
  pickle.LONG_BINGET: lambda r: r._push(r._memo[r._number("I")]),
  pickle.GLOBAL: lambda r: r._global(str(r._line(), "utf-8"), str(r._line(), "utf-8")), pickle.STACK_GLOBAL: PickleReader._stack_global,
  pickle.REDUCE: PickleReader._reduce, pickle.NEWOBJ: PickleReader._reduce, pickle.BUILD: PickleReader._build,
  pickle.BINPERSID: lambda r: r._push(r._load_id(r._pop())),
}
