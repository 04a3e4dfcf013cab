# SPDX-License-Identifier: MIT
"""Tensors that are made of no other tensor: constants, ranges, random numbers."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from . import _core, runtime
from .base import Base, arg, sizes, tensor_class, wrap
from .dtype import DType, DTypeLike, dtypes, to_dtype
from .errors import WrongArgument, WrongNumber
from .runtime import client
from .variable import Size, is_size

if TYPE_CHECKING:
  from .tensor import Tensor


def _code(dtype: DTypeLike | None, default: Any = None) -> int:
  return (to_dtype(dtype) if dtype is not None else default or dtypes.default_float).core


def _number(x: Any, kind: DType) -> Any:
  """A number that the client library takes."""
  if not isinstance(x, (int, float)): x = x.item() if hasattr(x, "item") else float(x)
  if dtypes.is_int(kind) and isinstance(x, int) and not kind.min <= x <= kind.max: raise WrongNumber(f"{x} is no value of {kind.name}")
  return x if not isinstance(x, int) or dtypes.is_int(kind) else float(x)


def _is_large(x: Any, kind: DType) -> bool:
  """Whether x is an integer that uint64 holds and int64 does not, which the client library takes as int64 of the same bits."""
  return kind is dtypes.uint64 and isinstance(x, int) and 2**63 <= x < 2**64


def _shape(shape: tuple[Any, ...]) -> list[Any]:
  out = sizes(shape[0], shape[1:]) if shape else []
  for n in out:
    if isinstance(n, float): raise WrongArgument(f"shape must be integers, not {n}")
  return out


def _largest(shape: tuple[Any, ...]) -> list[int]: return [d.vmax if isinstance(d, Size) else d for d in _shape(shape)]


def _cornered(t: Tensor, shape: tuple[Any, ...]) -> Tensor:
  """The part of t, which has the largest sizes, that has these."""
  return t.shrink([(0, d) if is_size(d) else None for d in _shape(shape)]) if any(map(is_size, _shape(shape))) else t


def _scaled(shape: tuple[Any, ...], square: Any, dtype: DTypeLike | None, device: Any, requires_grad: bool | None) -> Tensor:
  """Uniform numbers around 0, within the root of what `square` says of the sizes."""
  width = square(_shape(shape))
  t = tensor_class().uniform(*shape, low=-1.0, high=1.0, dtype=dtype, device=device, requires_grad=requires_grad)
  return t * _root(width)


def _root(x: Any) -> Any: return math.sqrt(x) if isinstance(x, (int, float)) else x.sqrt()


def placed(t: Tensor, device: Any = None, requires_grad: bool | None = None) -> Tensor:
  """The same tensor object, on a device, in pieces on several ones, or in a file. None: where new tensors are."""
  if device is None: device = runtime.new_device
  if isinstance(device, (list, tuple)): t = t.shard_(tuple(device)) if len(device) > 1 else placed(t, device[0])
  elif runtime.is_disk(device):
    from .disk import moved_to_file
    moved_to_file(t, device)
  elif device is not None:
    if runtime.device_name(device) not in runtime.Device.devices: raise WrongArgument(f"the daemon has no device {device}: {', '.join(runtime.Device.devices)}")
    t._h = _core.to(t._h, device)
  if requires_grad is not None: t._h.requires_grad = requires_grad
  return t


def _made(h: _core.Handle, device: Any = None, requires_grad: bool | None = None) -> Tensor:
  return placed(wrap(h), device, requires_grad)


class Creation(Base):
  __slots__ = ()

  @staticmethod
  def empty(*shape: Any, device: Any = None, dtype: DTypeLike | None = None, requires_grad: bool | None = None) -> Tensor:
    """Memory to which nothing was written yet. It reads as zeros. device="disk:PATH": the beginning of a file, as it is."""
    if runtime.is_disk(device):
      from .disk import new_file
      return new_file(device, tuple(_shape(shape)), to_dtype(dtype or dtypes.default_float))
    if any(map(is_size, _shape(shape))): return _made(_core.empty_to(client(), [arg(d) for d in _shape(shape)], _code(dtype)), device, requires_grad)
    return _made(_core.empty(client(), _shape(shape), _code(dtype)), device, requires_grad)
  @staticmethod
  def full(shape: Any, fill_value: Any, dtype: DTypeLike | None = None, device: Any = None, buffer: bool = True,
           requires_grad: bool | None = None) -> Tensor:
    """One number everywhere. Without a dtype the number chooses it.

    >>> Tensor.full((2, 2), 7).tolist()
    [[7, 7], [7, 7]]
    """
    shape = sizes(shape, ())
    if is_size(fill_value) or any(map(is_size, shape)):
      kind = to_dtype(dtype) if dtype is not None else fill_value.dtype if is_size(fill_value) else dtypes.from_py(fill_value)
      return _made(_core.full_to(client(), [arg(d) for d in shape], arg(fill_value) if is_size(fill_value) else _number(fill_value, kind), kind.core),
                   device, requires_grad)
    kind = to_dtype(dtype) if dtype is not None else dtypes.from_py(fill_value)
    if dtype is None and isinstance(fill_value, int) and not kind.min <= fill_value <= kind.max: kind = dtypes.int64
    if _is_large(fill_value, kind): h = _core.bitcast(_core.full(client(), shape, fill_value - 2**64, dtypes.int64.core), kind.core)
    else: h = _core.full(client(), shape, _number(fill_value, kind), kind.core)
    return _made(h, device, requires_grad)
  @staticmethod
  def zeros(*shape: Any, dtype: DTypeLike | None = None, **kwargs: Any) -> Tensor:
    """Zeros, of the default float."""
    return tensor_class().full(_shape(shape), 0.0, dtype or dtypes.default_float, **kwargs)
  @staticmethod
  def ones(*shape: Any, dtype: DTypeLike | None = None, **kwargs: Any) -> Tensor:
    """Ones, of the default float."""
    return tensor_class().full(_shape(shape), 1.0, dtype or dtypes.default_float, **kwargs)
  @staticmethod
  def arange(start: Any, stop: Any = None, step: Any = 1, dtype: DTypeLike | None = None, device: Any = None,
             requires_grad: bool | None = None) -> Tensor:
    """From start (0 if only one number is given) up to stop, without it. Integers beyond int32 are int64, unless a dtype is given: an
    OverflowError, then.

    >>> Tensor.arange(2, 8, 2).tolist()
    [2, 4, 6]
    """
    if stop is None: start, stop = 0, start
    if any(is_size(v) for v in (start, stop, step)):
      ends = [b for v in (start, stop, step) for b in ((v.vmin, v.vmax) if is_size(v) else (v, v))]
      kind = dtypes.default_int if all(dtypes.default_int.min <= b <= dtypes.default_int.max for b in ends) else dtypes.int64
      return _made(_core.arange_of(client(), arg(start), arg(stop), arg(step), _code(dtype, kind)), device, requires_grad)
    if all(isinstance(v, int) for v in (start, stop, step)):
      numbers = range(start, stop, step) if step else ()
      outer = (numbers[0], numbers[-1]) if numbers else ()
      kind = dtypes.default_int if dtype is None else to_dtype(dtype)
      if dtype is None and any(not kind.min <= n <= kind.max for n in outer): kind = dtypes.int64
      for n in outer: _number(n, kind)
      return _made(_core.arange(client(), start, stop, step, kind.core), device, requires_grad)
    count = max(0, math.ceil((stop - start) / step))
    h = _core.arange(client(), 0, count, 1, dtypes.float64.core)
    return _made(_core.cast(_core.add(_core.mul(h, float(step)), float(start)), _code(dtype)), device, requires_grad)
  @staticmethod
  def linspace(start: float, stop: float, steps: int, dtype: DTypeLike | None = None, device: Any = None,
               requires_grad: bool | None = None) -> Tensor:
    """Numbers at equal distances, both ends included.

    >>> Tensor.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    return _made(_core.linspace(client(), float(start), float(stop), arg(steps), _code(dtype)), device, requires_grad)
  @staticmethod
  def eye(n: int, m: int | None = None, dtype: DTypeLike | None = None, device: Any = None, requires_grad: bool | None = None) -> Tensor:
    """Ones on the diagonal of an (n, m) matrix, zeros elsewhere; m is n if it is not given."""
    m = n if m is None else m
    if is_size(n) or is_size(m):
      rows, columns = tensor_class().arange(n).unsqueeze(1), tensor_class().arange(m)
      return placed((rows == columns).cast(dtype or dtypes.default_float), device, requires_grad)
    if n < 0 or m < 0: raise WrongArgument(f"a matrix of {n} by {m}")
    h = _core.eye(client(), max(n, m), _code(dtype))
    return _made(h if n == m else _core.shrink(h, [0, 0], [n, m]), device, requires_grad)
  @staticmethod
  def const(b: Any, dtype: DTypeLike | None = None) -> Tensor:
    """A number as a tensor without axes."""
    return tensor_class().full((), b, dtype)
  @staticmethod
  def from_url(url: str, gunzip: bool = False, **kwargs: Any) -> Tensor:
    """The bytes that a URL names, as uint8. They are loaded into this process first."""
    import gzip
    import urllib.request
    with urllib.request.urlopen(url) as r: data = r.read()
    return tensor_class()(gzip.decompress(data) if gunzip else data, **kwargs)

  def full_like(self, fill_value: Any, dtype: DTypeLike | None = None, device: Any = None, buffer: bool = True,
                requires_grad: bool | None = None) -> Tensor:
    """One number everywhere, in the shape and, if none is given, the dtype of self."""
    kind = to_dtype(dtype) if dtype is not None else self.dtype
    self._alone(device)
    if is_size(fill_value): return _made(_core.full_like(self._h, arg(fill_value), kind.core), device, requires_grad)
    if _is_large(fill_value, kind): h = _core.bitcast(_core.full_like(self._h, fill_value - 2**64, dtypes.int64.core), kind.core)
    else: h = _core.full_like(self._h, _number(fill_value, kind), kind.core)
    return _made(h, device, requires_grad) if device is not None or requires_grad is not None else wrap(h)
  def const_like(self, b: Any, dtype: DTypeLike | None = None) -> Tensor:
    """The same as full_like."""
    return self.full_like(b, dtype)
  def zeros_like(self, **kwargs: Any) -> Tensor:
    """Zeros in the shape and dtype of self."""
    return self.full_like(0, **kwargs)
  def ones_like(self, **kwargs: Any) -> Tensor:
    """Ones in the shape and dtype of self."""
    return self.full_like(1, **kwargs)
  def empty_like(self, dtype: DTypeLike | None = None, device: Any = None) -> Tensor:
    """Memory for the shape and dtype of self, see empty."""
    return self._beside(tensor_class().empty(*self.shape, dtype=dtype or self.dtype, device=device), device)

  @staticmethod
  def manual_seed(seed: int = 0) -> None:
    """Begins the random stream of a seed. Equal seeds and equal calls give equal numbers.

    >>> def draw(): Tensor.manual_seed(42); return Tensor.rand(3).tolist()
    >>> draw() == draw()
    True
    """
    runtime.set_seed(seed)
  @staticmethod
  def rand(*shape: Any, device: Any = None, dtype: DTypeLike | None = None, contiguous: bool = True,
           requires_grad: bool | None = None) -> Tensor:
    """Random floats in [0, 1)."""
    return _cornered(_made(_core.rand(client(), _largest(shape), _code(dtype)), device, requires_grad), shape)
  @staticmethod
  def randn(*shape: Any, dtype: DTypeLike | None = None, device: Any = None, requires_grad: bool | None = None) -> Tensor:
    """Random floats of the normal distribution with mean 0 and standard deviation 1; for another dtype these, converted."""
    kind = to_dtype(dtype) if dtype is not None else dtypes.default_float
    if not dtypes.is_float(kind): return _cornered(_made(_core.cast(_core.randn(client(), _largest(shape), dtypes.float32.core), kind.core), device, requires_grad), shape)
    return _cornered(_made(_core.randn(client(), _largest(shape), kind.core), device, requires_grad), shape)
  @staticmethod
  def uniform(*shape: Any, low: float = 0.0, high: float = 1.0, dtype: DTypeLike | None = None, device: Any = None,
              requires_grad: bool | None = None) -> Tensor:
    """Random numbers in [low, high)."""
    kind = to_dtype(dtype) if dtype is not None else dtypes.default_float
    if is_size(low) or is_size(high): return tensor_class().rand(*shape, dtype=dtype, device=device, requires_grad=requires_grad) * (high - low) + low
    if low >= high: raise WrongArgument(f"low is {low} and high {high}: low is below high")
    if not dtypes.is_float(kind): return tensor_class().randint(*shape, low=int(low), high=int(high), dtype=kind, device=device)
    h = _core.rand(client(), _largest(shape), kind.core)
    return _cornered(_made(_core.add(_core.mul(h, float(high - low)), float(low)), device, requires_grad), shape)
  @staticmethod
  def normal(*shape: Any, mean: float = 0.0, std: float = 1.0, dtype: DTypeLike | None = None, device: Any = None,
             requires_grad: bool | None = None) -> Tensor:
    """Random floats of the normal distribution."""
    if std < 0: raise WrongArgument(f"the standard deviation is {std}")
    return _cornered(_made(_core.normal(client(), _largest(shape), mean, std, _code(dtype)), device, requires_grad), shape)
  @staticmethod
  def randint(*shape: Any, low: int = 0, high: int = 10, dtype: DTypeLike = "int32", device: Any = None,
              requires_grad: bool | None = None) -> Tensor:
    """Random integers in [low, high)."""
    if not dtypes.is_int(to_dtype(dtype)): raise TypeError(f"randint makes integers, not {to_dtype(dtype).name}")
    if is_size(low) or is_size(high):
      drawn = tensor_class().randint(*shape, high=2**62, dtype="int64", device=device)
      return (drawn % (high - low) + low).cast(dtype)
    if low >= high: raise WrongArgument(f"low is {low} and high {high}: low is below high")
    return _cornered(_made(_core.randint(client(), _largest(shape), low, high, _code(dtype)), device), shape)
  @staticmethod
  def randperm(n: int, device: Any = None, dtype: DTypeLike = "int32", **kwargs: Any) -> Tensor:
    """The numbers 0 to n - 1 in random order."""
    if is_size(n): return tensor_class().rand(n, device=device).argsort().cast(dtype)
    return _made(_core.randperm(client(), n, _code(dtype)), device)
  @staticmethod
  def glorot_uniform(*shape: Any, dtype: DTypeLike | None = None, device: Any = None, requires_grad: bool | None = None) -> Tensor:
    """Weights (out, in, ...), uniform within sqrt(6 / (fan in + fan out)) around 0."""
    if any(map(is_size, _shape(shape))): return _scaled(shape, lambda s: 6 / (s[0] + math.prod(s[1:])), dtype, device, requires_grad)
    h = _core.glorot_uniform(client(), _shape(shape))
    return _made(_core.cast(h, _code(dtype)), device, requires_grad)
  @staticmethod
  def kaiming_uniform(*shape: Any, a: float = 0.01, dtype: DTypeLike | None = None, device: Any = None,
                      requires_grad: bool | None = None) -> Tensor:
    """Weights (out, in, ...), uniform within sqrt(6 / ((1 + a^2) fan in)) around 0."""
    if any(map(is_size, _shape(shape))): return _scaled(shape, lambda s: 6 / (1 + a**2) / math.prod(s[1:]), dtype, device, requires_grad)
    h = _core.kaiming_uniform(client(), _shape(shape), a)
    return _made(_core.cast(h, _code(dtype)), device, requires_grad)
  @staticmethod
  def kaiming_normal(*shape: Any, a: float = 0.01, dtype: DTypeLike | None = None, device: Any = None,
                     requires_grad: bool | None = None) -> Tensor:
    """Weights (out, in, ...), normal with standard deviation sqrt(2 / ((1 + a^2) fan in))."""
    if any(map(is_size, _shape(shape))):
      std = 2 / (1 + a**2) / math.prod(_shape(shape)[1:])
      return tensor_class().randn(*shape, dtype=dtype, device=device, requires_grad=requires_grad) * _root(std)
    return _made(_core.kaiming_normal(client(), _shape(shape), a, _code(dtype)), device, requires_grad)
  @staticmethod
  def scaled_uniform(*shape: Any, dtype: DTypeLike | None = None, device: Any = None, requires_grad: bool | None = None) -> Tensor:
    """Uniform within 1 / sqrt(number of elements) around 0."""
    if any(map(is_size, _shape(shape))): return _scaled(shape, lambda s: 1 / math.prod(s), dtype, device, requires_grad)
    return _made(_core.scaled_uniform(client(), _shape(shape), _code(dtype)), device, requires_grad)
  def rand_like(self, **kwargs: Any) -> Tensor:
    """rand in the shape and dtype of self."""
    return self._beside(tensor_class().rand(*self.shape, **{"dtype": self.dtype, **kwargs}), kwargs.get("device"))
  def randn_like(self, dtype: DTypeLike | None = None, **kwargs: Any) -> Tensor:
    """randn in the shape and dtype of self."""
    return self._beside(tensor_class().randn(*self.shape, dtype=dtype or self.dtype, **kwargs), kwargs.get("device"))
  def _alone(self, device: Any) -> None:
    if device is not None and len(self._h.devices) > 1: raise RuntimeError("what is like a tensor in pieces is in such pieces: no device is named")
  def _beside(self, t: Tensor, device: Any) -> Tensor:
    """A new tensor where self is, in pieces as self is, unless a device was named."""
    self._alone(device)
    return t if device is not None else wrap(_core.to_layout_of(t._h, self._h))
  def multinomial(self, num_samples: int = 1, replacement: bool = False) -> Tensor:
    """Random positions along the last axis, where self has the weight of each one."""
    return wrap(_core.multinomial(self._h, num_samples, replacement))
  def bernoulli(self) -> Tensor:
    """1 with the probability that self has, else 0."""
    return wrap(_core.bernoulli(self._h))
  def threefry(self, seed: Tensor) -> Tensor:
    """64 random bits for each counter of self and each key, both uint64. rand and all others are made of these."""
    return wrap(_core.threefry(self._h, seed._h))
