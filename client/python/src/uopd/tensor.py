# SPDX-License-Identifier: MIT
"""Tensor: a lazy value. Operations build a graph; reading a value sends the graph to the daemon.

Names and signatures are those of tinygrad's public interface; docs/python.md says what differs.
"""
from __future__ import annotations

import pathlib
import weakref
from contextlib import ContextDecorator
from typing import Any

from . import _core, runtime, scopes
from .activations import Activations
from .base import Base, arg, set_tensor_class, wrap
from .contents import Contents
from .convert import handle_of
from .creation import Creation, placed
from .dtype import DTypeLike, same_kind, to_dtype
from .elementwise import Elementwise
from .errors import WrongArgument
from .functions import Functions
from .indexing import Indexing
from .linalg import Linalg
from .losses import Losses
from .movement import Movement
from .network import Network
from .reductions import Reductions


class _TensorType(type):
  """What is an attribute of the class Tensor, and another one for each thread."""
  @property
  def training(cls) -> bool:
    """Whether this thread trains: see Tensor.train()."""
    return scopes.training.get()
  @training.setter
  def training(cls, on: bool) -> None: scopes.training.assign(bool(on))


class Tensor(Creation, Elementwise, Functions, Activations, Movement, Indexing, Reductions, Linalg, Network, Losses, Contents, Base,
             metaclass=_TensorType):
  """An array of one element type.

  >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]])
  >>> loss = (x * x).sum().backward()
  >>> x.grad.tolist()
  [[2.0, 4.0], [6.0, 8.0]]

  data: a number, nested lists, bytes, a NumPy array, a path, or anything with __dlpack__, __array__ or the buffer protocol. Of a path: the
  bytes of the file, which are read when they are used.
  dtype: None takes that of the data; Python's floats are float32, integers int32.
  device: as in Device.devices, or disk:PATH; None: the default. requires_grad: see backward().
  """
  __slots__ = ()

  def __init__(self, data: Any = None, device: str | tuple[str, ...] | None = None, dtype: DTypeLike | None = None,
               requires_grad: bool | None = None) -> None:
    kind = to_dtype(dtype) if dtype is not None else None
    if isinstance(data, pathlib.PurePath):
      from .disk import become_file
      become_file(self, data, kind, device)
      if requires_grad is not None: self._h.requires_grad = requires_grad
      return
    if isinstance(data, Base): self._h = _core.snapshot(data._h) if kind is None else _core.cast(data._h, kind.core)
    else: self._h = handle_of(data, kind)
    placed(self, device, requires_grad)

  def realize(self, *lst: Tensor, do_update_stats: bool = True) -> Tensor:
    """Sends what computes the tensors, without waiting for it. An error of the daemon comes with the next call that waits."""
    _core.submit([self._h, *(t._h for t in lst)])
    return self

  # New values.
  def assign(self, x: Any) -> Tensor:
    """Gives the tensor another value of its dtype, whose shape broadcasts to its own. Tensors that were made from it keep the old one.
    An assignment to a view changes what it is a view of, too.

    >>> x = Tensor([1, 2, 3, 4])
    >>> x[1:3].assign(Tensor([7, 8])).tolist(), x.tolist()
    ([7, 8], [1, 7, 8, 4])
    """
    _core.assign(self._h, arg(x) if isinstance(x, (Base, int, float)) else handle_of(x, self.dtype))
    return self
  def replace(self, x: Tensor) -> Tensor:
    """Makes this object stand for another tensor."""
    self._h = x._h
    return self
  def clone(self, device: Any = None) -> Tensor:
    """A copy with memory of its own; also of the gradient."""
    copy, gradient = self._still(placed(wrap(_core.contiguous(self._h)), device)), self.grad
    if gradient is not None: copy.grad = gradient.clone(device)
    return copy
  def __copy__(self) -> Tensor: return wrap(_core.snapshot(self._h))
  def _changed(self, x: Tensor) -> Tensor:
    """What `self += y` makes of self, where x is self + y. A view of a tensor that is there gets another value, and that tensor keeps
    its own: x[1:3] += y changes x because Python assigns the result to x[1:3]."""
    # A value of a wider dtype of the same kind is converted, as NumPy does it.
    if same_kind(x.dtype, self.dtype): x = x.cast(self.dtype)
    if not self._h.is_view: return self.assign(x)
    if x.dtype is not self.dtype or x.shape != self.shape:
      raise WrongArgument(f"a view of {self.dtype.name} {self.shape} cannot become {x.dtype.name} {x.shape}")
    return x
  def __iadd__(self, x: Any) -> Tensor: return self._changed(self.add(x))
  def __isub__(self, x: Any) -> Tensor: return self._changed(self.sub(x))
  def __imul__(self, x: Any) -> Tensor: return self._changed(self.mul(x))
  def __itruediv__(self, x: Any) -> Tensor: return self._changed(self.div(x))
  def __ifloordiv__(self, x: Any) -> Tensor: return self._changed(self // x)
  def __imod__(self, x: Any) -> Tensor: return self._changed(self.mod(x))
  def __ipow__(self, x: Any) -> Tensor: return self._changed(self.pow(x))
  def __imatmul__(self, x: Any) -> Tensor: return self._changed(self.matmul(x))
  def __iand__(self, x: Any) -> Tensor: return self._changed(self.bitwise_and(x))
  def __ior__(self, x: Any) -> Tensor: return self._changed(self.bitwise_or(x))
  def __ixor__(self, x: Any) -> Tensor: return self._changed(self.bitwise_xor(x))
  def __ilshift__(self, x: Any) -> Tensor: return self._changed(self.lshift(x))
  def __irshift__(self, x: Any) -> Tensor: return self._changed(self.rshift(x))

  # Gradients.
  @property
  def requires_grad(self) -> bool | None:
    """True: backward() gives this tensor a gradient. False: it does not. None: see backward()."""
    return self._h.requires_grad
  @requires_grad.setter
  def requires_grad(self, on: bool) -> None: self._h.requires_grad = bool(on)
  def requires_grad_(self, requires_grad: bool = True) -> Tensor:
    """Sets requires_grad, and returns the tensor."""
    self._h.requires_grad = requires_grad
    return self
  @property
  def is_param(self) -> bool:
    """Whether an optimiser may change the tensor: true unless requires_grad is False."""
    return self._h.requires_grad is not False
  @is_param.setter
  def is_param(self, on: bool) -> None: self.is_param_(on)
  def is_param_(self, is_param: bool = True) -> Tensor:
    """Sets is_param, and returns the tensor."""
    if is_param != self.is_param: self._h.requires_grad = is_param
    return self
  @property
  def grad(self) -> Tensor | None:
    """What backward() left, or what was set. backward() adds to it: whoever holds the gradient sees the sum."""
    h = self._h.grad
    if h is None: return None
    # The same object as long as somebody has it.
    seen = self._gradient() if hasattr(self, "_gradient") else None
    if seen is not None and seen._h.same_as(h): return seen
    gradient = wrap(h)
    self._gradient = weakref.ref(gradient)
    return gradient
  @grad.setter
  def grad(self, value: Tensor | None) -> None:
    if value is None:
      self._h.clear_grad()
      return
    self._h.set_grad(value._h)
    self._gradient = weakref.ref(value)
  def backward(self, gradient: Tensor | None = None) -> Tensor:
    """Adds d(self)/d(tensor) to the grad of every tensor with requires_grad. If self was computed from none of these, every
    float tensor that it was computed from gets a gradient, except those with requires_grad=False.

    A gradient of self makes any shape possible.
    """
    _core.backward(self._loss(gradient))
    return self
  def gradient(self, *targets: Tensor, gradient: Tensor | None = None) -> list[Tensor]:
    """d(self)/d(target) for each target, which may be any tensor that self was made from.

    >>> x = Tensor([1.0, 2.0])
    >>> (x ** 3).sum().gradient(x)[0].tolist()
    [3.0, 12.0]
    """
    return [wrap(h) for h in _core.gradient(self._loss(gradient), [t._h for t in targets])]
  def _loss(self, gradient: Tensor | None) -> _core.Handle:
    if gradient is None: return self._h
    if gradient.shape != self.shape and gradient.numel() == self.numel() == 1: gradient = gradient.reshape(self.shape)
    if gradient.shape != self.shape: raise WrongArgument(f"a gradient of shape {gradient.shape} for a tensor of shape {self.shape}")
    return (self * gradient.detach()).sum()._h

  class train(ContextDecorator):
    """A scope in which Tensor.training is true, for the thread that enters it. An assignment to Tensor.training outside of
    scopes holds for the process, and within one until its end."""
    def __init__(self, mode: bool = True) -> None: self.mode = mode
    def __enter__(self) -> None: scopes.training.push(self.mode)
    def __exit__(self, *args: object) -> None: scopes.training.pop()

  # Devices.
  def to(self, device: Any) -> Tensor:
    """The value on another device; in pieces for several ones. None: as it is."""
    if runtime.is_disk(device):
      from .disk import new_file
      return new_file(device, self.shape, self.dtype).assign(self)
    return self._still(placed(wrap(_core.snapshot(self._h)), device))
  def to_(self, device: Any) -> Tensor:
    """Moves this object to another device."""
    wish, gradient = self._h.requires_grad, self.grad
    moved = self._wishing(placed(self, device), wish)
    if gradient is not None and self._h.grad is None: self.grad = gradient.shard_like(self)
    return moved
  def shard(self, devices: tuple[str, ...], axis: int | None = None) -> Tensor:
    """In pieces along an axis, one on each device; without an axis the whole value on each."""
    if axis is None: return self._still(wrap(_core.replicate(self._h, list(devices))))
    return self._still(wrap(_core.shard(self._h, list(devices), self._axis(axis))))
  def shard_(self, devices: tuple[str, ...], axis: int | None = None) -> Tensor:
    """Makes this object stand for shard(...)."""
    wish = self._h.requires_grad
    return self._wishing(self.replace(self.shard(devices, axis)), wish)
  def _still(self, t: Tensor) -> Tensor:
    """What was no parameter is none elsewhere."""
    return self._wishing(t, False) if self._h.requires_grad is False else t
  @staticmethod
  def _wishing(t: Tensor, wish: bool | None) -> Tensor:
    """The tensor with the requires_grad that its object had."""
    if wish is not None and t._h.requires_grad is not wish: t._h.requires_grad = wish
    return t
  def shard_like(self, y: Tensor) -> Tensor:
    """On the devices of y, in pieces like its pieces."""
    return wrap(_core.to_layout_of(self._h, y._h))


set_tensor_class(Tensor)
