# SPDX-License-Identifier: MIT
"""Tensor's operators, and functions of several elements."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _core
from .base import Base, arg, handle, wrap
from .dtype import dtypes
from .errors import WrongArgument

if TYPE_CHECKING:
  from .tensor import Tensor

_ROUNDING = {None: 0, "trunc": 1, "floor": 2}


class Elementwise(Base):
  __slots__ = ()

  def usum(self, *others: Any) -> Tensor:
    """The sum of self and all others."""
    t: Any = self
    for x in others: t = t + x
    return t
  def uprod(self, *others: Any) -> Tensor:
    """The product of self and all others."""
    t: Any = self
    for x in others: t = t * x
    return t
  def add(self, x: Any, reverse: bool = False) -> Tensor:
    """self + x. Shapes broadcast, dtypes are promoted."""
    return wrap(_core.add(arg(x), self._h) if reverse else _core.add(self._h, arg(x)))
  def sub(self, x: Any, reverse: bool = False) -> Tensor:
    """self - x."""
    return wrap(_core.sub(arg(x), self._h) if reverse else _core.sub(self._h, arg(x)))
  def mul(self, x: Any, reverse: bool = False) -> Tensor:
    """self * x."""
    return wrap(_core.mul(arg(x), self._h) if reverse else _core.mul(self._h, arg(x)))
  def div(self, x: Any, reverse: bool = False, rounding_mode: str | None = None) -> Tensor:
    """self / x, rounded by "trunc" or "floor" if wanted.

    >>> Tensor([7, -7]).div(2, rounding_mode="trunc").tolist()
    [3, -3]
    """
    a, b = (arg(x), self._h) if reverse else (self._h, arg(x))
    if rounding_mode not in _ROUNDING: raise WrongArgument(f"rounding_mode is None, 'trunc' or 'floor', not {rounding_mode!r}")
    return wrap(_core.div(a, b) if rounding_mode is None else _core.div_mode(a, b, _ROUNDING[rounding_mode]))
  def mod(self, x: Any, reverse: bool = False) -> Tensor:
    """The remainder with the sign of the divisor, as Python's %."""
    return wrap(_core.mod(arg(x), self._h) if reverse else _core.mod(self._h, arg(x)))
  def fmod(self, x: Any) -> Tensor:
    """The remainder with the sign of self."""
    return wrap(_core.fmod(self._h, arg(x)))
  def pow(self, x: Any, reverse: bool = False) -> Tensor:
    """self ** x."""
    if not reverse: return wrap(_core.pow(self._h, arg(x)))
    base = arg(x)
    if not isinstance(base, _core.Handle): base = _core.full_like(self._h, float(base), _power_dtype(self, base).core)
    return wrap(_core.pow(base, self._h))
  def bitwise_and(self, x: Any, reverse: bool = False) -> Tensor:
    """Bits that are set in both; of bools: and."""
    return wrap(_core.and_(self._h, arg(x)))
  def bitwise_or(self, x: Any, reverse: bool = False) -> Tensor:
    """Bits that are set in one of them; of bools: or."""
    return wrap(_core.or_(self._h, arg(x)))
  def bitwise_xor(self, x: Any, reverse: bool = False) -> Tensor:
    """Bits that are set in one of them only; of bools: unequal."""
    return wrap(_core.xor(self._h, arg(x)))
  def lshift(self, x: Any, reverse: bool = False) -> Tensor:
    """Bits shifted to the left: self * 2**x."""
    return wrap(_core.lshift(arg(x), self._h) if reverse else _core.lshift(self._h, arg(x)))
  def rshift(self, x: Any, reverse: bool = False) -> Tensor:
    """Bits shifted to the right: self // 2**x."""
    return wrap(_core.rshift(arg(x), self._h) if reverse else _core.rshift(self._h, arg(x)))
  def eq(self, x: Any) -> Tensor:
    """True where the elements are equal."""
    return wrap(_core.eq(self._h, arg(x)))
  def ne(self, x: Any) -> Tensor:
    """True where the elements are not equal."""
    return wrap(_core.ne(self._h, arg(x)))
  def maximum(self, x: Any) -> Tensor:
    """The larger element. NaN if one of them is NaN."""
    return wrap(_core.maximum(self._h, arg(x)))
  def minimum(self, x: Any) -> Tensor:
    """The smaller element. NaN if one of them is NaN."""
    return wrap(_core.minimum(self._h, arg(x)))
  def where(self, x: Any, y: Any) -> Tensor:
    """x where self is true, y elsewhere.

    >>> (Tensor([1, 2, 3]) > 2).where(1.0, 0.5).tolist()
    [0.5, 0.5, 1.0]
    """
    x, y = arg(x), arg(y)
    if not isinstance(x, _core.Handle) and not isinstance(y, _core.Handle): x = handle(x)
    return wrap(_core.where(self._h, x, y))
  def masked_fill(self, mask: Any, value: Any) -> Tensor:
    """value where the mask is true, self elsewhere."""
    return wrap(_core.masked_fill(self._h, handle(mask), arg(value)))
  def isclose(self, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """True where |self - other| <= atol + rtol |other|."""
    return wrap(_core.isclose(self._h, arg(other), rtol, atol, equal_nan))
  def allclose(self, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """True if isclose is true everywhere."""
    return self.isclose(other, rtol, atol, equal_nan).all()
  def copysign(self, other: Any) -> Tensor:
    """The magnitude of self with the sign of the other."""
    return wrap(_core.copysign(self._h, arg(other)))
  def logaddexp(self, other: Any) -> Tensor:
    """log(exp(self) + exp(other)), without overflow."""
    return wrap(_core.logaddexp(self._h, arg(other)))
  def lerp(self, end: Any, weight: Any) -> Tensor:
    """self + weight (end - self)."""
    return wrap(_core.lerp(self._h, arg(end), arg(weight)))

  def neg(self) -> Tensor:
    """-self."""
    return wrap(_core.neg(self._h))
  def logical_not(self) -> Tensor:
    """True where self is 0 or false."""
    return wrap(_core.eq(self._h, False) if self.dtype is dtypes.bool else _core.eq(self._h, 0))
  def bitwise_not(self) -> Tensor:
    """All bits inverted; of bools: not."""
    return wrap(_core.not_(self._h))
  def contiguous(self, **kwargs: Any) -> Tensor:
    """The value, computed and stored by itself."""
    return wrap(_core.contiguous(self._h))
  def contiguous_backward(self) -> Tensor:
    """The value; the gradient is computed and stored by itself."""
    return wrap(_core.contiguous_backward(self._h))
  def detach(self) -> Tensor:
    """The value, through which no gradient flows."""
    return wrap(_core.detach(self._h))

  def __add__(self, x: Any) -> Tensor: return self.add(x)
  def __radd__(self, x: Any) -> Tensor: return self.add(x, True)
  def __sub__(self, x: Any) -> Tensor: return self.sub(x)
  def __rsub__(self, x: Any) -> Tensor: return self.sub(x, True)
  def __mul__(self, x: Any) -> Tensor: return self.mul(x)
  def __rmul__(self, x: Any) -> Tensor: return self.mul(x, True)
  def __truediv__(self, x: Any) -> Tensor: return self.div(x)
  def __rtruediv__(self, x: Any) -> Tensor: return self.div(x, True)
  def __floordiv__(self, x: Any) -> Tensor: return self.div(x, rounding_mode="floor")
  def __rfloordiv__(self, x: Any) -> Tensor: return self.div(x, True, rounding_mode="floor")
  def __mod__(self, x: Any) -> Tensor: return self.mod(x)
  def __rmod__(self, x: Any) -> Tensor: return self.mod(x, True)
  def __pow__(self, x: Any) -> Tensor: return self.pow(x)
  def __rpow__(self, x: Any) -> Tensor: return self.pow(x, True)
  def __and__(self, x: Any) -> Tensor: return self.bitwise_and(x)
  def __rand__(self, x: Any) -> Tensor: return self.bitwise_and(x)
  def __or__(self, x: Any) -> Tensor: return self.bitwise_or(x)
  def __ror__(self, x: Any) -> Tensor: return self.bitwise_or(x)
  def __xor__(self, x: Any) -> Tensor: return self.bitwise_xor(x)
  def __rxor__(self, x: Any) -> Tensor: return self.bitwise_xor(x)
  def __lshift__(self, x: Any) -> Tensor: return self.lshift(x)
  def __rlshift__(self, x: Any) -> Tensor: return self.lshift(x, True)
  def __rshift__(self, x: Any) -> Tensor: return self.rshift(x)
  def __rrshift__(self, x: Any) -> Tensor: return self.rshift(x, True)
  def __lt__(self, x: Any) -> Tensor: return wrap(_core.lt(self._h, arg(x)))
  def __gt__(self, x: Any) -> Tensor: return wrap(_core.gt(self._h, arg(x)))
  def __le__(self, x: Any) -> Tensor: return wrap(_core.le(self._h, arg(x)))
  def __ge__(self, x: Any) -> Tensor: return wrap(_core.ge(self._h, arg(x)))
  def __eq__(self, x: Any) -> Tensor: return self.eq(x)  # type: ignore[override]
  def __ne__(self, x: Any) -> Tensor: return self.ne(x)  # type: ignore[override]
  def __neg__(self) -> Tensor: return self.neg()
  def __pos__(self) -> Tensor: return wrap(_core.snapshot(self._h))
  def __invert__(self) -> Tensor: return self.bitwise_not()
  def __abs__(self) -> Tensor: return wrap(_core.abs(self._h))
  __hash__ = object.__hash__


def _power_dtype(t: Base, base: Any) -> Any:
  if dtypes.is_float(t.dtype): return t.dtype
  return dtypes.default_float if isinstance(base, float) else t.dtype
