# SPDX-License-Identifier: MIT
"""Models of ONNX files, which the daemon runs: OnnxRunner."""
from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import _core
from .base import wrap
from .convert import handle_of, is_numpy
from .dtype import BY_CORE, DType, dtypes
from .runtime import client
from .tensor import Tensor

# Types of the package ml_dtypes that have the bits of a type of ours.
_SAME_BITS = {"bfloat16": dtypes.bfloat16, "float8_e4m3fn": dtypes.fp8e4m3, "float8_e5m2": dtypes.fp8e5m2}


# Element types of numbers that the client library takes as they are.
_WHOLE = {"BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32"}


class OnnxValue(NamedTuple):
  """What a model declares of an input or an output. Of a sequence and an optional value: of the tensors in it."""
  shape: tuple[int | str, ...] | None  # sizes; names of sizes that only a run knows, "" without a name. None: not even their number is declared
  dtype: DType | None                  # in which the elements travel; None: strings, and types that models cannot have here
  element_type: str | None             # the format's name of the element type: "FLOAT", "INT4"
  is_optional: bool = False
  is_sequence: bool = False


def _declared(kind: str, element: str | None, dtype: int | None, shape: tuple[Any, ...] | None, inner: Any) -> OnnxValue:
  if kind in ("optional", "sequence") and inner is not None:
    value = _declared(*inner)
    return value._replace(is_optional=True) if kind == "optional" else value._replace(is_sequence=True)
  sizes = None if shape is None else tuple("" if d is None else d for d in shape)
  return OnnxValue(sizes, None if dtype is None else BY_CORE[dtype], element)


def _strings(value: Any) -> tuple[list[int], list[bytes]]:
  """What the client library takes for strings."""
  import numpy as np
  array = np.asarray(value, dtype=object)
  return list(array.shape), [x if isinstance(x, bytes) else str(x).encode("utf-8", "surrogateescape") for x in array.reshape(-1)]


def _result(out: Any) -> Any:
  """What a model gave, as Python has it."""
  if isinstance(out, list): return [wrap(h) for h in out]
  if not isinstance(out, tuple): return None if out is None else wrap(out)
  import numpy as np
  array = np.empty(len(out[1]), dtype=object)
  array[:] = [x.decode("utf-8", "surrogateescape") for x in out[1]]
  return array.reshape(out[0])


def _number(value: Any, declared: OnnxValue) -> int | None:
  """A whole number for an input without axes, which decides branches without asking the daemon. None: it is not one, or does not fit."""
  dtype = declared.dtype
  if declared.shape != () or dtype is None or declared.element_type not in _WHOLE: return None
  if is_numpy(value):
    if value.ndim != 0 or value.dtype.name != dtype.numpy_name: return None
    value = value.item()
  if not isinstance(value, int) or not dtype.min <= value <= dtype.max: return None
  return int(value)


def _handle(value: Any, dtype: DType | None) -> _core.Handle:
  """One tensor of an input."""
  if isinstance(value, Tensor): return value._h
  if not is_numpy(value): return handle_of(value, dtype)
  import numpy as np
  array = np.asarray(value)  # np.float64 is a float of Python too, of which float32 would be made
  if array.dtype.kind in "OSUc": raise NotImplementedError(f"models do not take arrays of {array.dtype.name} here")
  if dtype is not None and _SAME_BITS.get(array.dtype.name) is dtype:
    array = np.ascontiguousarray(array).reshape(array.shape)
    return _core.from_buffer(client(), dtype.core, list(array.shape), array.reshape(-1).view(np.uint8) if array.size else b"")
  if dtype is not None and array.dtype.kind == "V" and dtype.numpy_name is not None: array = array.astype(dtype.numpy_name)  # INT4 and the like
  return handle_of(array, None)


class OnnxRunner:
  """The model of an ONNX file. Calling it with its inputs gives its outputs; both are by name, outputs in the order of the model.

  Inputs are tensors, NumPy arrays, and lists of numbers, which take the declared dtype; a sequence is a list of tensors or arrays, and an optional
  value may be None. A tensor or an array has to have the declared dtype and shape. Strings are arrays or lists of str, and come as arrays of them. Outputs
  are tensors, which are computed when they are read, lists of tensors, or None. The tensors of the file are sent once. What several outputs need is computed
  once if they are computed together: `Tensor.realize(*outputs.values())`.

  A number or an array without axes for an input of whole numbers or bools is known to the client: the branch of an If that it decides is taken without
  asking the daemon, and a TinyJit records that branch.

  Operator sets 1 to 27 are known; of some ops not the first ones (supported_ops()). An op, an attribute or an element type that is not known raises
  NotImplementedError, which names the node. Elements of types without a dtype travel in one that has all their values: INT4, INT2 as int8, UINT4, UINT2
  as uint8, FLOAT8E4M3FNUZ, FLOAT8E5M2FNUZ as float16, FLOAT4E2M1, FLOAT8E8M0 as float32.
  """
  graph_inputs: dict[str, OnnxValue]   # those that a call has to give
  graph_outputs: dict[str, OnnxValue]
  opset_version: int                   # of the standard ops; 0: the model uses none

  def __init__(self, path: str | os.PathLike[str]) -> None:
    self._model = _core.OnnxModel(client(), os.fspath(path))
    self.graph_inputs = {name: _declared(*t) for name, t in self._model.inputs().items()}
    self.graph_outputs = {name: _declared(*t) for name, t in self._model.outputs().items()}
    self.opset_version = self._model.opsets().get("", 0)

  def __repr__(self) -> str: return f"OnnxRunner({', '.join(self.graph_inputs)} -> {', '.join(self.graph_outputs)})"

  def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, value in inputs.items():
      declared = self.graph_inputs.get(name)
      dtype = None if declared is None else declared.dtype
      if value is None and declared is not None and declared.is_optional: given[name] = None
      elif declared is not None and declared.is_sequence: given[name] = [_handle(v, dtype) for v in value]
      elif declared is not None and declared.element_type == "STRING": given[name] = _strings(value)
      else:
        number = None if declared is None else _number(value, declared)
        given[name] = _handle(value, dtype) if number is None else number
    results = self._model.run(given)
    return {name: _result(results[name]) for name in self.graph_outputs}


def supported_ops() -> list[tuple[str, str, int]]:
  """(domain, name, first operator set) of each op that OnnxRunner runs. The domain of the standard ops is ""."""
  return _core.onnx_ops()
