# SPDX-License-Identifier: MIT
"""Tensor: a lazy value. Operations build a graph; reading a value sends the graph to the daemon.

Names and signatures are those of tinygrad's public interface; docs/python.md says what differs.
"""
from __future__ import annotations

import math
from contextlib import ContextDecorator
from typing import Any

from . import _core, runtime
from .base import Base, arg, handle, set_tensor_class, sizes, wrap
from .convert import handle_of, to_numpy
from .dtype import DTypeLike, dtypes, to_dtype
from .elementwise import Elementwise
from .movement import Movement
from .reductions import Reductions
from .runtime import client


def _core_dtype(dtype: DTypeLike | None, default: Any = None) -> int:
  return (to_dtype(dtype) if dtype is not None else default or dtypes.default_float).core


class Tensor(Elementwise, Movement, Reductions, Base):
  """An array of one element type.

  >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
  >>> loss = (x * x).sum().backward()
  >>> x.grad.tolist()
  [[2.0, 4.0], [6.0, 8.0]]

  data: a number, nested lists, bytes, a NumPy array, or anything with __dlpack__, __array__ or the buffer protocol.
  dtype: None takes that of the data; Python's floats are float32, integers int32.
  device: as in Device.devices; None: the default. requires_grad: backward() sets `grad`.
  """
  __slots__ = ()
  training = False

  def __init__(self, data: Any = None, device: str | tuple[str, ...] | None = None, dtype: DTypeLike | None = None,
               requires_grad: bool | None = None) -> None:
    kind = to_dtype(dtype) if dtype is not None else None
    if isinstance(data, Base): self._h = data._h if kind is None else _core.cast(data._h, kind.core)
    elif isinstance(data, (int, float)): self._h = handle_of(data, kind)
    else: self._h = handle_of(data, kind)
    _place(self, device)
    if requires_grad: self._h.requires_grad = True

  # Creation.
  @staticmethod
  def empty(*shape: Any, device: Any = None, dtype: DTypeLike | None = None) -> Tensor:
    return _made(_core.empty(client(), sizes(shape[0], shape[1:]) if shape else [], _core_dtype(dtype)), device)
  @staticmethod
  def full(shape: Any, fill_value: Any, dtype: DTypeLike | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    kind = to_dtype(dtype) if dtype is not None else dtypes.bool if isinstance(fill_value, bool) else \
        dtypes.default_int if isinstance(fill_value, int) else dtypes.default_float
    return _made(_core.full(client(), sizes(shape, ()), float(fill_value), kind.core), device, requires_grad)
  @staticmethod
  def zeros(*shape: Any, dtype: DTypeLike | None = None, **kwargs: Any) -> Tensor:
    return Tensor.full(sizes(shape[0], shape[1:]) if shape else [], 0.0, dtype or dtypes.default_float, **kwargs)
  @staticmethod
  def ones(*shape: Any, dtype: DTypeLike | None = None, **kwargs: Any) -> Tensor:
    return Tensor.full(sizes(shape[0], shape[1:]) if shape else [], 1.0, dtype or dtypes.default_float, **kwargs)
  @staticmethod
  def arange(start: Any, stop: Any = None, step: Any = 1, dtype: DTypeLike | None = None, device: Any = None) -> Tensor:
    """From start (0 if only one number is given) up to stop, without it.

    >>> Tensor.arange(2, 8, 2).tolist()
    [2, 4, 6]
    """
    if stop is None: start, stop = 0, start
    if all(isinstance(v, int) for v in (start, stop, step)):
      return _made(_core.arange(client(), start, stop, step, _core_dtype(dtype, dtypes.default_int)), device)
    count = max(0, math.ceil((stop - start) / step))
    t = Tensor.arange(count, dtype=dtypes.float64) * float(step) + float(start)
    return _place(t.cast(dtype or dtypes.default_float), device)
  @staticmethod
  def linspace(start: float, stop: float, steps: int, dtype: DTypeLike | None = None, device: Any = None) -> Tensor:
    return _made(_core.linspace(client(), float(start), float(stop), steps, _core_dtype(dtype)), device)
  @staticmethod
  def eye(n: int, m: int | None = None, dtype: DTypeLike | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    m = n if m is None else m
    t = wrap(_core.eye(client(), max(n, m), _core_dtype(dtype)))
    if n != m: t = t.shrink(((0, n), (0, m)))
    return _made(t._h, device, requires_grad)
  def full_like(self, fill_value: Any, dtype: DTypeLike | None = None, device: Any = None) -> Tensor:
    return _made(_core.full_like(self._h, float(fill_value), _core_dtype(dtype, self.dtype)), device)
  def zeros_like(self, **kwargs: Any) -> Tensor: return self.full_like(0, **kwargs)
  def ones_like(self, **kwargs: Any) -> Tensor: return self.full_like(1, **kwargs)

  # Random numbers.
  @staticmethod
  def manual_seed(seed: int = 0) -> None:
    """Starts the random numbers anew: a new session begins, whose numbers have this seed. Earlier tensors stay usable
    among themselves only, so call it before tensors are made."""
    runtime.set_seed(seed)
    if runtime._default is not None: runtime.connect(runtime._default.address)
  @staticmethod
  def rand(*shape: Any, device: Any = None, dtype: DTypeLike | None = None, requires_grad: bool = False) -> Tensor:
    return _made(_core.rand(client(), _flat(shape), _core_dtype(dtype)), device, requires_grad)
  @staticmethod
  def randn(*shape: Any, dtype: DTypeLike | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return _made(_core.randn(client(), _flat(shape), _core_dtype(dtype)), device, requires_grad)
  @staticmethod
  def uniform(*shape: Any, low: float = 0.0, high: float = 1.0, dtype: DTypeLike | None = None, device: Any = None,
              requires_grad: bool = False) -> Tensor:
    t = wrap(_core.uniform(client(), _flat(shape), low, high))
    return _made((t if dtype is None else t.cast(dtype))._h, device, requires_grad)
  @staticmethod
  def normal(*shape: Any, mean: float = 0.0, std: float = 1.0, dtype: DTypeLike | None = None, device: Any = None,
             requires_grad: bool = False) -> Tensor:
    return _made(_core.normal(client(), _flat(shape), mean, std, _core_dtype(dtype)), device, requires_grad)
  @staticmethod
  def randint(*shape: Any, low: int = 0, high: int = 10, dtype: DTypeLike = dtypes.int32, device: Any = None) -> Tensor:
    return _made(_core.randint(client(), _flat(shape), low, high, _core_dtype(dtype)), device)
  @staticmethod
  def randperm(n: int, device: Any = None, dtype: DTypeLike = dtypes.int32) -> Tensor:
    return _made(_core.randperm(client(), n, _core_dtype(dtype)), device)
  @staticmethod
  def glorot_uniform(*shape: Any, device: Any = None, requires_grad: bool = False) -> Tensor:
    return _made(_core.glorot_uniform(client(), _flat(shape)), device, requires_grad)
  @staticmethod
  def kaiming_uniform(*shape: Any, a: float = 0.01, device: Any = None, requires_grad: bool = False) -> Tensor:
    return _made(_core.kaiming_uniform(client(), _flat(shape), a), device, requires_grad)
  @staticmethod
  def kaiming_normal(*shape: Any, a: float = 0.01, dtype: DTypeLike | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return _made(_core.kaiming_normal(client(), _flat(shape), a, _core_dtype(dtype)), device, requires_grad)
  @staticmethod
  def scaled_uniform(*shape: Any, dtype: DTypeLike | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return _made(_core.scaled_uniform(client(), _flat(shape), _core_dtype(dtype)), device, requires_grad)
  def rand_like(self, **kwargs: Any) -> Tensor: return Tensor.rand(*self.shape, **{"dtype": self.dtype, **kwargs})
  def randn_like(self, dtype: DTypeLike | None = None, **kwargs: Any) -> Tensor:
    return Tensor.randn(*self.shape, dtype=dtype or self.dtype, **kwargs)
  def multinomial(self, num_samples: int = 1, replacement: bool = False) -> Tensor:
    return wrap(_core.multinomial(self._h, num_samples, replacement))

  # Properties and contents.
  @property
  def device(self) -> str | tuple[str, ...]:
    """The device, or the devices of the pieces."""
    names = tuple(self._h.devices)
    return names if len(names) > 1 else (names[0] if names and names[0] else runtime.Device.DEFAULT)
  def numel(self) -> int: return math.prod(self.shape)
  def element_size(self) -> int: return self.dtype.itemsize
  def nbytes(self) -> int: return self.numel() * self.dtype.itemsize
  def size(self, dim: int | None = None) -> Any: return self.shape if dim is None else self.shape[dim]
  def realize(self, *lst: Tensor) -> Tensor:
    """Sends what computes the tensors, without waiting for it. An error of the daemon comes with the next call that waits."""
    _core.submit([self._h, *(t._h for t in lst)])
    return self
  def numpy(self) -> Any:
    """A new NumPy array with the contents. bfloat16 and 8-bit floats become float32."""
    return to_numpy(self._h)
  def data(self) -> memoryview:
    """The contents as a memoryview, with the shape of the tensor."""
    return memoryview(self.numpy())
  def tolist(self) -> Any: return self.numpy().tolist()
  def item(self) -> Any:
    """The only element, as a Python number."""
    if self.numel() != 1: raise ValueError(f"item() of a tensor with {self.numel()} elements")
    return self.numpy().item()
  def __bool__(self) -> bool: raise TypeError("a tensor has no truth value: use item()")
  def __float__(self): return float(self.item())
  def __int__(self): return int(self.item())
  def __index__(self): return self.item().__index__()
  def __complex__(self): return complex(self.item())
  def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
    if copy is False: raise ValueError("a tensor has no memory in this process that an array could share")
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
  def __reduce__(self) -> Any: return (_unpickled, ((self if self.dtype.numpy_name else self.bitcast(_bits(self))).numpy(),
                                                    self.dtype.name, self.requires_grad))
  def __copy__(self) -> Tensor: return wrap(self._h)
  def __repr__(self) -> str:
    return f"<Tensor {self.shape} {self.dtype.name}{' realized' if self._h.is_realized else ''}>"
  def _repr_html_(self) -> str:
    """For notebooks: nothing is computed for the display."""
    return f"<code>{self!r}</code>".replace("<Tensor", "&lt;Tensor").replace("></", "&gt;</")

  # New values.
  def assign(self, x: Any) -> Tensor:
    """Gives the tensor another value of its shape and dtype. Tensors that were made from it keep the old one."""
    _core.assign(self._h, arg(x) if isinstance(x, (Base, int, float)) else handle_of(x, self.dtype))
    return self
  def replace(self, x: Tensor) -> Tensor:
    """Makes this object stand for another tensor."""
    self._h = x._h
    return self
  def clone(self) -> Tensor: return wrap(_core.contiguous(self._h))
  def __iadd__(self, x: Any) -> Tensor: return self.assign(self.add(x))
  def __isub__(self, x: Any) -> Tensor: return self.assign(self.sub(x))
  def __imul__(self, x: Any) -> Tensor: return self.assign(self.mul(x))
  def __itruediv__(self, x: Any) -> Tensor: return self.assign(self.div(x))

  # Gradients.
  @property
  def requires_grad(self) -> bool: return self._h.requires_grad
  @requires_grad.setter
  def requires_grad(self, on: bool) -> None: self._h.requires_grad = bool(on)
  def requires_grad_(self, requires_grad: bool = True) -> Tensor:
    self._h.requires_grad = requires_grad
    return self
  @property
  def grad(self) -> Tensor | None:
    """What backward() left."""
    h = self._h.grad
    return None if h is None else wrap(h)
  @grad.setter
  def grad(self, value: None) -> None:
    if value is not None: raise ValueError("grad can be set to None only")
    self._h.clear_grad()
  def backward(self, gradient: Tensor | None = None) -> Tensor:
    """Adds d(self)/d(leaf) to the grad of every tensor with requires_grad. A gradient of self makes any shape possible."""
    _core.backward(self._h if gradient is None else (self * gradient.detach()).sum()._h)
    return self
  def gradient(self, *targets: Tensor, gradient: Tensor | None = None) -> list[Tensor]:
    """d(self)/d(target) for each target, which may be any tensor that self was made from."""
    loss = self._h if gradient is None else (self * gradient.detach()).sum()._h
    return [wrap(h) for h in _core.gradient(loss, [t._h for t in targets])]

  class train(ContextDecorator):
    """A scope in which Tensor.training is true."""
    def __init__(self, mode: bool = True) -> None: self.mode = mode
    def __enter__(self) -> None: self.before, Tensor.training = Tensor.training, self.mode
    def __exit__(self, *args: object) -> None: Tensor.training = self.before

  # Devices.
  def to(self, device: Any) -> Tensor: return _place(wrap(self._h), device)
  def to_(self, device: Any) -> Tensor: return _place(self, device)
  def shard(self, devices: tuple[str, ...], axis: int | None = None) -> Tensor:
    """In pieces along an axis, one on each device; without an axis the whole value on each."""
    if axis is None: return wrap(_core.replicate(self._h, list(devices)))
    return wrap(_core.shard(self._h, list(devices), self._axis(axis)))
  def shard_(self, devices: tuple[str, ...], axis: int | None = None) -> Tensor: return self.replace(self.shard(devices, axis))
  def shard_like(self, y: Tensor) -> Tensor: return wrap(_core.to_layout_of(self._h, y._h))


def _flat(shape: tuple[Any, ...]) -> list[int]: return sizes(shape[0], shape[1:]) if shape else []


def _made(h: _core.Handle, device: Any = None, requires_grad: bool = False) -> Tensor:
  t = _place(wrap(h), device)
  if requires_grad: t._h.requires_grad = True
  return t


def _place(t: Tensor, device: Any) -> Tensor:
  if isinstance(device, (list, tuple)): return t.shard_(tuple(device))
  if device is not None: t._h = _core.to(t._h, device)
  return t


def _bits(t: Tensor) -> Any: return dtypes.uint8 if t.dtype.itemsize == 1 else dtypes.uint16


def _unpickled(array: Any, dtype: str, requires_grad: bool) -> Tensor:
  kind = to_dtype(dtype)
  if kind.numpy_name is None: return Tensor(array).bitcast(kind)
  return Tensor(array, dtype=kind, requires_grad=requires_grad)


set_tensor_class(Tensor)
