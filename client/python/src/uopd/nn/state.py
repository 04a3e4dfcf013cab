# SPDX-License-Identifier: MIT
"""Parameters of objects by name, and safetensors files."""
from __future__ import annotations

import json
import os
import pathlib
import types
from typing import Any, Iterable

from .. import _core
from ..base import wrap
from ..dtype import BY_CORE, dtypes
from ..runtime import client
from ..llm.gguf import gguf_load as gguf_load
from ..tensor import Tensor
from ..archives import TensorIO as TensorIO, tar_extract as tar_extract, zip_extract as zip_extract


def get_state_dict(obj: Any, prefix: str = "", tensor_type: type = Tensor) -> dict[str, Tensor]:
  """The tensors of an object, its attributes, lists and dictionaries, by dotted names.

  >>> from uopd import nn
  >>> sorted(get_state_dict([nn.Linear(2, 3)]))
  ['0.bias', '0.weight']
  """
  found: dict[str, Tensor] = {}

  def visit(x: Any, name: str, inside: tuple[int, ...]) -> None:
    if isinstance(x, tensor_type):
      found[name.strip(".")] = x  # type: ignore[assignment]
      return
    items: Iterable[tuple[Any, Any]]
    if isinstance(x, tuple) and hasattr(x, "_asdict"): items = x._asdict().items()
    elif isinstance(x, dict): items = x.items()
    elif isinstance(x, (list, tuple)): items = enumerate(x)
    elif hasattr(x, "__dict__") and not isinstance(x, (type, types.ModuleType)): items = vars(x).items()
    else: return
    if id(x) in inside: return  # an object that holds itself
    for key, value in items: visit(value, f"{name}{key}.", (*inside, id(x)))
  visit(obj, prefix, ())
  return found


def get_parameters(obj: Any) -> list[Tensor]:
  """The tensors of get_state_dict."""
  return list(get_state_dict(obj).values())


def load_state_dict(model: Any, state_dict: dict[str, Tensor], strict: bool = True, verbose: bool = True, consume: bool = False,
                    realize: bool = True) -> list[Tensor]:
  """Gives the tensors of a model the values of their names, and returns these tensors.

  strict: a name that the state lacks is a KeyError, else the tensor keeps its value. consume: takes what was loaded out of
  state_dict. realize: sends what is to be computed. A tensor of another dtype replaces that of the model; make optimisers
  after that. If something does not fit, nothing changes. `verbose` does nothing.

  >>> from uopd import nn
  >>> a, b = nn.Linear(2, 3), nn.Linear(2, 3)
  >>> loaded = load_state_dict(a, get_state_dict(b))
  >>> (a.weight == b.weight).all().item()
  True
  """
  pairs: list[tuple[str, Tensor, Tensor]] = []
  for name, own in get_state_dict(model).items():
    if name not in state_dict:
      if strict: raise KeyError(f"the state has no {name!r}")
      continue
    new = state_dict[name]
    if new.shape != own.shape:
      if {new.shape, own.shape} != {(), (1,)}: raise ValueError(f"Shape mismatch in layer `{name}`: Expected shape {own.shape}, but found {new.shape} in state dict")
      new = new.reshape(own.shape)
    pairs.append((name, own, new.shard_like(own)))
  for name, own, new in pairs:
    if new.dtype is own.dtype: own.assign(new.detach())  # loading is no computation with what the state is of
    else:
      leaf = own.requires_grad
      own.replace(new.reshape(new.shape))
      if leaf is not None: own.requires_grad_(leaf)
    if consume: del state_dict[name]
  changed = [own for _, own, _ in pairs]
  if realize and changed: changed[0].realize(*changed[1:])
  return changed


def _open(fn: str | os.PathLike[str]) -> _core.SafetensorsFile:
  os.stat(fn)  # FileNotFoundError and its like
  return _core.safetensors_open(os.fspath(fn))


def _contents(t: Tensor) -> bytes:
  """The file that a tensor holds."""
  if t.ndim != 1 or t.dtype is not dtypes.uint8: raise ValueError(f"a file as a tensor has uint8 and one axis; this is {t!r}")
  contents: bytes = t.numpy().tobytes()
  return contents


def safe_load_metadata(fn: Tensor | str | os.PathLike[str]) -> tuple[Tensor, int, dict[str, Any]]:
  """Of a safetensors file, or of a uint8 tensor with its contents: the tensor of the file, where the data begin, and the header as a dict."""
  if isinstance(fn, Tensor):
    contents = _contents(fn)
    _core.safetensors_parse(contents, len(contents))
    start = contents[:_core.safetensors_header_end(contents, len(contents))]
  else:
    end = _open(fn).data_start
    with open(fn, "rb") as f: start = f.read(end)
  return fn if isinstance(fn, Tensor) else Tensor(pathlib.Path(fn)), len(start), json.loads(start[8:])


def safe_load(fn: Tensor | str | os.PathLike[str]) -> dict[str, Tensor]:
  """The tensors of a safetensors file, or of a uint8 tensor with its contents. Of a path they are read when they are used, each by itself, so a file
  may be larger than this machine's memory. A file that breaks a rule of the format is an error that names the tensor.

  >>> import os, tempfile
  >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
  >>> safe_save({"w": Tensor([1.0, 2.0])}, path, {"step": "7"})
  >>> safe_load(path)["w"].tolist(), safe_load_metadata(path)[2]["__metadata__"]
  ([1.0, 2.0], {'step': '7'})
  """
  from ..disk import DiskTensor
  if isinstance(fn, DiskTensor) and fn.is_whole_file: return safe_load(fn.path)
  if isinstance(fn, Tensor):
    contents = _contents(fn)
    entries, _ = _core.safetensors_parse(contents, len(contents))
    data, out = memoryview(contents)[_core.safetensors_header_end(contents, len(contents)):], {}
    for name, dtype, shape, begin, end in entries:
      byte = dtype == dtypes.bool.core  # whose bytes need not be 0 or 1
      t = wrap(_core.from_buffer(client(), dtypes.uint8.core if byte else dtype, shape, data[begin:end]))
      out[name] = t != 0 if byte else t
    return out
  file = _open(fn)
  whole, start = Tensor(pathlib.Path(fn)), file.data_start
  return {name: whole[start + begin:start + end].bitcast(BY_CORE[dtype]).reshape(tuple(shape)) if begin < end
          else Tensor.empty(*shape, dtype=BY_CORE[dtype]) for name, dtype, shape, begin, end in file.entries}


def safe_save(tensors: dict[str, Tensor], fn: str | os.PathLike[str], metadata: dict[str, str] | None = None) -> None:
  """Writes a safetensors file. It takes the place of an older one only when it is complete and on disk."""
  pairs = list((metadata or {}).items())
  for key, value in pairs:
    if not isinstance(key, str) or not isinstance(value, str): raise TypeError(f"metadata are strings, and {key!r} is {value!r}")
  all_tensors = list(tensors.values())
  if all_tensors: all_tensors[0].realize(*all_tensors[1:])
  writer = _core.safetensors_create(os.fspath(fn), [(name, t.dtype.core, list(t.shape)) for name, t in tensors.items()], pairs)
  for i in writer.order:
    writer.write(all_tensors[i]._bytes())
  writer.commit()


def torch_load(fn: Tensor | str | os.PathLike[str]) -> Any:
  """What torch.save wrote: a state, or any tensors, numbers, texts, and lists, tuples and dicts of these. Nothing of the file is run: a file with
  another class in it is a ValueError that names the class. Of a path, tensors are read when they are used.

  The formats are the zip files of torch 1.6 and later, and the two before.
  """
  from ..torch_files import load  # only now: what it imports takes milliseconds
  return load(fn)


for _f in (TensorIO, tar_extract, zip_extract): _f.__module__ = __name__  # their public place
