# SPDX-License-Identifier: MIT
"""Tensor's properties, and its contents for this process: arrays, numbers, pickles, text."""
from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

from . import _core, recordings, runtime
from .base import Base, tensor_class, wrap
from .convert import to_numpy
from .dtype import dtypes, to_dtype
from .errors import WrongArgument
from .variable import is_size, now

if TYPE_CHECKING:
  from .tensor import Tensor


class Contents(Base):
  __slots__ = ()

  @property
  def device(self) -> str | tuple[str, ...]:
    """The device, or the devices of the pieces."""
    names = tuple(self._h.devices)
    if len(names) > 1: return tuple(runtime.device_name(n) for n in names)
    return str(runtime.device_name(names[0] if names and names[0] else runtime.client().devices[0]))
  @property
  def max_shape(self) -> tuple[int, ...]:
    """The shape; of a symbolic axis the largest size."""
    return tuple(s if isinstance(s, int) else m for s, m in zip(self.shape, self._h.max_shape)) if _is_symbolic(self) else self.shape
  def numel(self) -> Any:
    """The number of elements: a number, or a size made of variables."""
    return math.prod(self.shape)
  def _count(self) -> int:
    """The number of elements now."""
    return math.prod(now(d) for d in self.shape)
  def max_numel(self) -> int:
    """The number of elements of max_shape."""
    return math.prod(self.max_shape)
  def element_size(self) -> int:
    """The bytes of one element."""
    return self.dtype.itemsize
  def nbytes(self) -> Any:
    """The bytes of all elements: a number, or a size made of variables."""
    return self.numel() * self.dtype.itemsize
  def size(self, dim: int | None = None) -> Any:
    """The shape, or the size of one axis."""
    return self.shape if dim is None else self.shape[dim]
  def is_floating_point(self) -> bool:
    """True for floats of any width."""
    return dtypes.is_float(self.dtype)

  def _bytes(self) -> bytearray:
    """The contents as bytes, row-major and little-endian."""
    out = bytearray(self._count() * self.dtype.itemsize)
    if out: _core.read_into(self._h, out)
    return out
  def numpy(self) -> Any:
    """A new NumPy array with the contents. bfloat16 and 8-bit floats become float32."""
    if self._h.is_symbolic: self._count()  # a variable without a value is an error
    return to_numpy(self._h)
  def data(self) -> memoryview:
    """The contents as a memoryview, with the shape of the tensor; (0,) if it has no elements."""
    array = self.numpy()
    return memoryview(array if array.size else array.reshape(0))
  def tolist(self) -> Any:
    """The contents as nested lists of Python's numbers."""
    return self.numpy().tolist()
  def item(self) -> Any:
    """The only element, as a Python number."""
    if self._count() != 1: raise WrongArgument(f"item() of a tensor with {self._count()} elements")
    return self.numpy().item()
  def __bool__(self) -> bool: raise TypeError("a tensor has no truth value: use item()")
  def __float__(self) -> float: return float(self.item())
  def __int__(self) -> int: return int(self.item())
  def __index__(self) -> int: return operator.index(self.item())
  def __complex__(self) -> complex: return complex(self.item())
  def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
    if copy is False: raise WrongArgument("a tensor has no memory in this process that an array could share")
    a = self.numpy()
    return a if dtype is None else a.astype(dtype, copy=False)
  __array_priority__ = 1000  # array + tensor is Tensor.__radd__
  __array_ufunc__ = None
  def __dlpack__(self, **kwargs: Any) -> Any:
    """The contents, copied into memory of this process."""
    if kwargs.get("copy") is False: raise BufferError("a tensor has no memory in this process that could be shared")
    if kwargs.get("dl_device") not in (None, (1, 0)): raise BufferError("tensors are exported to the CPU only")
    return self.numpy().__dlpack__()
  def __dlpack_device__(self) -> tuple[int, int]: return (1, 0)
  def __reduce_ex__(self, protocol: Any) -> Any:
    import pickle  # here, since it makes `import uopd` some milliseconds longer
    if recordings.recorded and (memory := recordings.memory_of(self._h)): return (_of_memory, (memory, self._h.requires_grad))
    # From protocol 5 on the contents may travel beside the pickle. They are the state: arguments would be kept until all is read.
    if protocol >= 5 and not _is_symbolic(self): return (_blank, (self.shape, self.dtype.name, self._h.requires_grad), pickle.PickleBuffer(self._bytes()))
    bits = self if self.dtype.numpy_name else self.bitcast(dtypes.uint8 if self.dtype.itemsize == 1 else dtypes.uint16)  # type: ignore[attr-defined]
    return (_unpickled, (bits.numpy(), self.dtype.name, self._h.requires_grad))
  def __setstate__(self, data: Any) -> None:
    h = _core.from_buffer(runtime.client(), self._h.dtype, list(self.shape), data)
    if self._h.requires_grad is not None: h.requires_grad = self._h.requires_grad
    self._h = h
  def __repr__(self) -> str:
    return f"<Tensor {self.shape} {self.dtype.name}{' realized' if self._h.is_realized else ''}{_shown(self)}>"
  def _repr_html_(self) -> str:
    """For notebooks: nothing is computed or fetched for the display."""
    import html
    return f"<code>{html.escape(repr(self), quote=False)}</code>"


MOST_SHOWN = 32  # elements


def _is_symbolic(t: Contents) -> bool: return any(map(is_size, t.shape))


def _shown(t: Contents) -> str:
  """The elements, if there are few and this process has them already."""
  if not t._h.at_hand or not 0 < t._count() <= MOST_SHOWN: return ""
  import numpy as np
  return " " + " ".join(np.array2string(t.numpy(), separator=", ", max_line_width=10**6).split())


def _unpickled(array: Any, dtype: str, requires_grad: bool | None) -> Tensor:
  kind = to_dtype(dtype)
  t = tensor_class()(array, dtype=kind) if kind.numpy_name else tensor_class()(array).bitcast(kind)
  return t if requires_grad is None else t.requires_grad_(requires_grad)


def _of_memory(memory: recordings.Memory, requires_grad: bool | None) -> Tensor:
  t = wrap(memory.handle)
  return t if requires_grad is None else t.requires_grad_(requires_grad)


def _blank(shape: tuple[int, ...], dtype: str, requires_grad: bool | None) -> Tensor:
  t = wrap(_core.empty(runtime.client(), list(shape), to_dtype(dtype).core))
  return t if requires_grad is None else t.requires_grad_(requires_grad)
