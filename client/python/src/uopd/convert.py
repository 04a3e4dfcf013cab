# SPDX-License-Identifier: MIT
"""Python values into tensors' memory and back. NumPy is imported when it is first needed."""
from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from . import _core
from .dtype import BY_CORE, DType, dtypes, from_numpy_name
from .runtime import client

if TYPE_CHECKING:
  import numpy


def is_numpy(x: object) -> bool:
  """True for arrays and scalars of NumPy, without importing it."""
  module = sys.modules.get("numpy")
  return module is not None and isinstance(x, (module.ndarray, module.generic))


def _of_array(array: Any, dtype: DType | None) -> _core.Handle:
  import numpy as np
  if not array.dtype.isnative: array = array.astype(array.dtype.newbyteorder("="))
  own = from_numpy_name(array.dtype.name)
  if dtype is not None and dtype.numpy_name is not None and dtype is not own:
    array, own = array.astype(dtype.numpy_name), dtype
  if array.ndim == 0: array = array.reshape(())
  array = np.asarray(array, order="C")
  handle = _core.from_buffer(client(), own.core, list(array.shape), array.reshape(-1).view(np.uint8) if array.size else b"")
  return handle if dtype is None or dtype is own else _core.cast(handle, dtype.core)


def handle_of(data: Any, dtype: DType | None) -> _core.Handle:
  """A new tensor in the client library with the contents of a Python object."""
  if data is None: return _core.empty(client(), [0], (dtype or dtypes.default_float).core)
  if isinstance(data, bool): return _core.full(client(), [], float(data), (dtype or dtypes.bool).core)
  if isinstance(data, int):
    kind = dtype or (dtypes.default_int if dtypes.default_int.min <= data <= dtypes.default_int.max else dtypes.int64)
    if abs(data) < 2**53: return _core.full(client(), [], data, kind.core)
  elif isinstance(data, float): return _core.full(client(), [], data, (dtype or dtypes.default_float).core)
  if hasattr(data, "handle"): return _core.cast(data.handle(), (dtype or data.dtype).core)  # a Size
  if isinstance(data, (bytes, bytearray, memoryview)):
    view = memoryview(data)
    if view.format in ("B", "b", "c"):
      kind = dtype or dtypes.uint8
      if view.nbytes % kind.itemsize: raise ValueError(f"{view.nbytes} bytes are no whole number of {kind.name} elements")
      return _core.from_buffer(client(), kind.core, [view.nbytes // kind.itemsize], view)
  import numpy as np
  if is_numpy(data): return _of_array(np.asarray(data), dtype)
  if isinstance(data, (list, tuple)):
    if _has_size(data): return _stacked(data, dtype or (dtypes.default_float if _has_float(data) else dtypes.default_int))
    if _has_tensor(data): return _of_array(np.array(_plain(data)), dtype)
    kind = dtype or dtypes.from_py(data)
    try: array = np.array(data, dtype=kind.numpy_name or "float32")
    except OverflowError:
      array = np.array(data, dtype="int64")
      if dtype is None: kind = dtypes.int64
      else: array = array.astype(kind.numpy_name or "float32")  # keeps the low bits, as all versions of NumPy do it for arrays
    except ValueError as e: raise ValueError(f"lists of different lengths make no tensor: {e}") from None
    return _of_array(array, dtype or kind)
  if isinstance(data, int): return _of_array(np.array(data, dtype=(dtype or dtypes.int64).numpy_name), dtype)
  if hasattr(data, "__dlpack__"): return _of_array(np.from_dlpack(data), dtype)
  if hasattr(data, "__array__") or hasattr(data, "__array_interface__"): return _of_array(np.asarray(data), dtype)
  try: view = memoryview(data)
  except TypeError: raise TypeError(f"no tensor can be made of {type(data).__name__}") from None
  return _of_array(np.asarray(view), dtype)


def _has_size(data: Any) -> bool: return any(_has_size(x) for x in data) if isinstance(data, (list, tuple)) else hasattr(data, "handle")
def _has_float(data: Any) -> bool: return any(_has_float(x) for x in data) if isinstance(data, (list, tuple)) else isinstance(data, float)
def _stacked(data: Any, kind: DType) -> _core.Handle:
  """A tensor of lists with sizes that are made of variables."""
  return _core.stack([_stacked(x, kind) for x in data], 0) if isinstance(data, (list, tuple)) else handle_of(data, kind)


def _has_tensor(data: Any) -> bool:
  if isinstance(data, (list, tuple)): return any(_has_tensor(x) for x in data)
  return hasattr(data, "tolist")


def _plain(data: Any) -> Any:
  if isinstance(data, (list, tuple)): return [_plain(x) for x in data]
  return data.tolist() if hasattr(data, "tolist") else data


def as_terms(handle: _core.Handle, dtype: DType | None) -> _core.Handle:
  """A factor of terms that are added up in the dtype: in that dtype, unless it is narrower than its own or of another kind."""
  own = BY_CORE[handle.dtype]
  if dtype is None or (dtypes.is_float(own) and not dtypes.is_float(dtype)): return handle
  wider = dtype.itemsize > own.itemsize or (dtypes.is_float(dtype) and not dtypes.is_float(own))
  return _core.cast(handle, dtype.core) if wider else handle


def array_of(data: bytes, dtype: DType, shape: tuple[int, ...]) -> numpy.ndarray:
  """A new array of these bytes. The dtype is one that NumPy has."""
  import numpy as np
  return np.frombuffer(data, dtype.numpy_name).reshape(shape).copy()


def to_numpy(handle: _core.Handle) -> numpy.ndarray:
  """A new array with the contents. Types that NumPy does not have become float32."""
  import numpy as np
  dtype = BY_CORE[handle.dtype]
  if dtype.numpy_name is None:
    handle, dtype = _core.cast(handle, dtypes.float32.core), dtypes.float32
  out = np.empty(handle.sizes, dtype.numpy_name)
  if out.size: _core.read_into(handle, out.reshape(-1).view(np.uint8))
  else: _core.submit([handle])
  return out
