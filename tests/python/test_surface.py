# SPDX-License-Identifier: MIT
"""The names: those of tinygrad are there or in the table of differences, and what the tables of the documentation name is there."""
import inspect
import pathlib
import re

import pytest
import uopd
from uopd import Tensor, Variable, dtypes

HERE = pathlib.Path(__file__).parent
DOCS = HERE.parent.parent / "docs"
PUBLIC = [n for n in dir(Tensor) if not n.startswith("_")]


def tinygrad_names():
  """(class, name, names of arguments or None)."""
  for line in (HERE / "tinygrad_names.txt").read_text().splitlines():
    if line.startswith("#"): continue
    name, _, arguments = line.partition("(")
    yield (*name.split("."), [a for a in arguments.rstrip(")").split(", ") if a] if "(" in line else None)


def differences():
  """The rows of the table in docs/python.md: their first cells and their last cells."""
  text = (DOCS / "python.md").read_text()
  table = text[text.index("## What differs from tinygrad"):].splitlines()
  rows = [[c.strip() for c in row.strip("|").split("|")] for row in table if row.startswith("|")][2:]
  return [(row[0], row[2]) for row in rows]


def test_names_of_tinygrad():
  absent = {n for first, last in differences() if last.startswith("not there") for n in re.findall(r"`(?:dtypes\.)?(\w+)`", first)}
  missing = {name for cls, name, _ in tinygrad_names() if not hasattr({"Tensor": Tensor, "dtypes": dtypes}[cls], name)}
  assert missing - absent == set(), "in tinygrad, and neither here nor in the table of differences"
  assert {n for n in absent if hasattr(Tensor, n) or hasattr(dtypes, n)} == set(), "said to be missing, but there"
  assert len(list(tinygrad_names())) > 300


def test_arguments_of_tinygrad():
  wrong = []
  for cls, name, wanted in tinygrad_names():
    method = getattr({"Tensor": Tensor, "dtypes": dtypes}[cls], name, None)
    if method is None or wanted is None: continue
    own = inspect.signature(method).parameters
    names = [n for n in own if n != "self"]
    anything = any(p.kind is p.VAR_KEYWORD for p in own.values())
    plain = [n for n in wanted if not n.startswith("*")]
    if not anything and any(n not in names for n in plain): wrong.append(f"{name}: {names}, in tinygrad {wanted}")
    elif [n for n in names if n in plain] != [n for n in plain if n in names]: wrong.append(f"{name}: order {names}, in tinygrad {wanted}")
    stars = [n for n in wanted if n.startswith("*") and not n.startswith("**")]
    if stars and not any(p.kind is p.VAR_POSITIONAL for p in own.values()): wrong.append(f"{name}: takes no further positional arguments")
  assert not wrong, "\n".join(wrong)


def test_table_of_methods():
  """Each name in the column Python is a method, and each public method is in the table or is one of Python alone."""
  named = set()
  text = re.sub(r"(?s)\n## Layers.*?(?=\n## )", "", (DOCS / "tensor_methods.md").read_text())  # classes of nn
  for row in text.splitlines():
    if not row.startswith("| ") or row.rstrip().endswith("Python |"): continue
    cells = re.split(r"(?<!\\)\|", row.strip()[1:-1])
    names = set(re.findall(r"`([^`]+)`", cells[-1]))
    assert ("not there" in cells[-2][:12]) == (not names), row
    named |= {n for n in names if n not in ("x[...]", "x[...] = v")}
  assert {n for n in named if not hasattr(Tensor, n)} == set()
  only_python = set("""add sub mul eq ne logical_not usum uprod square T shrink shrink_to linear sequential const const_like from_url
    float half bfloat16 double int long short bool contiguous contiguous_backward detach shape ndim dtype device max_shape numel max_numel
    element_size nbytes size is_floating_point numpy data tolist item realize assign replace clone requires_grad requires_grad_ is_param
    is_param_ grad backward gradient train training to to_ shard shard_ shard_like""".split())
  assert set(PUBLIC) - named - only_python == set(), "methods that docs/tensor_methods.md does not name"


@pytest.mark.parametrize("cls", [Tensor, dtypes, uopd.DType, Variable, uopd.Context, uopd.TinyJit, type(uopd.Device)])
def test_everything_has_a_docstring(cls):
  assert cls.__doc__
  public = [(n, v) for n, v in inspect.getmembers(cls) if not n.startswith("_") and (callable(v) or isinstance(v, property))]
  assert [n for n, v in public if not (v.__doc__ or "").strip()] == []
