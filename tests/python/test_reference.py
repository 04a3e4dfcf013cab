# SPDX-License-Identifier: MIT
"""docs/python_reference.md is made of the docstrings of the installed package. UOPD_ACCEPT=1 writes it anew."""
import inspect
import os
import pathlib
import re

import uopd
import uopd.llm.huggingface
from uopd import nn

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python_reference.md"
HEAD = """# Python reference

Every public name of the package `uopd`, made of its docstrings. [python.md](python.md) says how the package behaves, and
[tensor_methods.md](tensor_methods.md) what there is beside the names of NumPy, PyTorch and tinygrad.

This page is generated: `UOPD_ACCEPT=1` with the test `tests/python/test_reference.py` writes it anew.
"""


class Text(str):
  """An annotation that inspect prints as it is written in the source."""
  __repr__ = str.__str__


def signature(function, bound):
  """The parameters and the result as in the source, without self."""
  s = inspect.signature(function)
  parameters = [p.replace(annotation=Text(p.annotation) if isinstance(p.annotation, str) else p.annotation) for p in s.parameters.values()]
  result = Text(s.return_annotation) if isinstance(s.return_annotation, str) else s.return_annotation
  # Defaults print as their class and address where they have no repr; dtypes, numbers and strings have one.
  return str(s.replace(parameters=parameters[bound:], return_annotation=result)).removesuffix(" -> None")


def paragraphs(thing):
  """The docstring in Markdown: examples become blocks of code."""
  text = inspect.cleandoc(vars(thing).get("__doc__") or "") if isinstance(thing, type) else inspect.getdoc(thing) or ""
  return re.sub(r"(?m)^((?:>>>|\.\.\.)(?:.*\n?)(?:(?!\n).+\n?)*)", lambda m: f"```python\n{m.group(1).rstrip()}\n```\n", text)


def entry(name, thing, bound):
  """One function, method or property as an item of a list."""
  if isinstance(thing, property): head = f"`{name}`"
  else: head = f"`{name}{signature(thing, bound)}`"
  text = paragraphs(thing.fget if isinstance(thing, property) else thing)
  body = text.replace("\n", "\n  ").rstrip()
  return re.sub(r"(?m)[ \t]+$", "", f"- {head}\n" + (f"  {body}\n" if body else ""))


def own_members(cls):
  """Public methods and properties that the class itself defines, in the order of the source."""
  for name, raw in vars(cls).items():
    if name.startswith("_"): continue
    if isinstance(raw, staticmethod): yield name, raw.__func__, 0
    elif isinstance(raw, property): yield name, raw, 0
    elif inspect.isfunction(raw): yield name, raw, 1


def class_text(name, cls):
  if name != cls.__name__: return f"### {name}\n\nAnother name of `{cls.__name__}`.\n"
  out = [f"### {name}\n"]
  init = vars(cls).get("__init__")
  if init is not None: out.append(f"`{name}{signature(init, 1)}`\n")
  out.append(paragraphs(cls).rstrip() + "\n" if paragraphs(cls) else "")
  out.append("".join(entry(n, raw, bound) for n, raw, bound in own_members(cls)))
  return "\n".join(part for part in out if part)


def exported(module):
  """Classes and functions that a module itself defines, in the order of the source."""
  for name, thing in vars(module).items():
    if name.startswith("_") or getattr(thing, "__module__", None) != module.__name__: continue
    if inspect.isclass(thing) or inspect.isfunction(thing): yield name, thing


def module_text(module, names):
  functions, classes = [], []
  for name, thing in names:
    if inspect.isclass(thing): classes.append(class_text(name, thing))
    else: functions.append(entry(name, thing, 0))
  return "\n".join(["".join(functions)] * bool(functions) + classes)


def tensor_text():
  """Tensor and the classes that its methods are spread over; each has the title of its module."""
  parts = [class_text("Tensor", uopd.Tensor)]
  operators = sorted({n for c in uopd.Tensor.__mro__[:-1] for n in vars(c) if n.startswith("__") and n not in vars(object)})
  for cls in uopd.Tensor.__mro__[1:-1]:
    title = inspect.getmodule(cls).__doc__.splitlines()[0].rstrip(".")
    parts.append(f"### Tensor: {cls.__name__.lower()}\n\n{title}.\n\n" + "".join(entry(n, raw, bound) for n, raw, bound in own_members(cls)))
  return "\n".join(parts) + f"\nPython's operators call these methods: {', '.join(f'`{n}`' for n in operators)}.\n"


def reference():
  top = [(n, getattr(uopd, n)) for n in uopd.__all__ if n not in ("Tensor", "dtypes", "errors", "nn", "tuning", "Device", "Error", "helpers", "llm", "onnx")]
  sections = [HEAD, "## Connections and settings\n", module_text(uopd, [(n, t) for n, t in top if n != "DType"]),
              "### Device\n", paragraphs(type(uopd.Device)) + "\n", "".join(entry(n, raw, bound) for n, raw, bound in own_members(type(uopd.Device))),
              class_text("DaemonDevice", uopd.runtime.DaemonDevice),
              "## Tensor\n", tensor_text(),
              "## dtypes\n", paragraphs(uopd.dtypes) + "\n",
              "".join(f"- `dtypes.{n}`\n" if n == d.name else f"- `dtypes.{n}`: the same as `dtypes.{d.name}`\n"
                      for n, d in vars(uopd.dtypes).items() if isinstance(d, uopd.DType)),
              class_text("DType", uopd.DType)]
  sections += ["## nn\n", nn.__doc__ + "\n", module_text(nn, exported(nn))]
  for name in sorted(n for n, m in vars(nn).items() if inspect.ismodule(m) and m.__name__.startswith("uopd.nn.")):
    module = getattr(nn, name)
    if list(exported(module)): sections += [f"## nn.{name}\n", module.__doc__ + "\n", module_text(module, exported(module))]
  for module in (uopd.llm.gguf, uopd.llm.model, uopd.llm.tokenizer, uopd.llm.chat, uopd.llm.conversation, uopd.llm.huggingface.folder, uopd.llm.huggingface.model,
                 uopd.llm.huggingface.tokenizer, uopd.llm.huggingface.template, uopd.onnx, uopd.helpers):
    sections += [f"## {module.__name__.removeprefix('uopd.')}\n", module.__doc__ + "\n", module_text(module, exported(module))]
  sections += ["## tuning\n", paragraphs(uopd.tuning) + "\n", module_text(uopd.tuning, exported(uopd.tuning))]
  sections += ["## Exceptions\n", uopd.errors.__doc__ + "\n",
               "".join(f"- `errors.{n}` ({', '.join(b.__name__ for b in t.__bases__)}): {t.code}\n" for n, t in exported(uopd.errors))]
  return "\n".join(sections).rstrip() + "\n"


def test_reference_is_up_to_date():
  text = reference()
  assert not re.search(r" at 0x[0-9a-f]+", text)
  if os.environ.get("UOPD_ACCEPT"): PAGE.write_text(text)
  assert PAGE.read_text() == text, "UOPD_ACCEPT=1 writes the page anew"
