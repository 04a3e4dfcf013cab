# SPDX-License-Identifier: MIT
"""Tensor's operators and elementwise methods."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from . import _core
from .base import Base, arg, handle, wrap
from .dtype import DTypeLike, dtypes, to_dtype

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
  def exp(self) -> Tensor:
    """e to the power self."""
    return wrap(_core.exp(self._h))
  def exp2(self) -> Tensor:
    """2 to the power self."""
    return wrap(_core.exp2(self._h))
  def log(self) -> Tensor:
    """The natural logarithm."""
    return wrap(_core.log(self._h))
  def log2(self) -> Tensor:
    """The logarithm to base 2."""
    return wrap(_core.log2(self._h))
  def log10(self) -> Tensor:
    """The logarithm to base 10."""
    return wrap(_core.log10(self._h))
  def sin(self) -> Tensor:
    """The sine."""
    return wrap(_core.sin(self._h))
  def cos(self) -> Tensor:
    """The cosine."""
    return wrap(_core.cos(self._h))
  def tan(self) -> Tensor:
    """The tangent."""
    return wrap(_core.tan(self._h))
  def asin(self) -> Tensor:
    """The inverse sine."""
    return wrap(_core.asin(self._h))
  def acos(self) -> Tensor:
    """The inverse cosine."""
    return wrap(_core.acos(self._h))
  def atan(self) -> Tensor:
    """The inverse tangent."""
    return wrap(_core.atan(self._h))
  def sinh(self) -> Tensor:
    """The hyperbolic sine."""
    return wrap(_core.sinh(self._h))
  def cosh(self) -> Tensor:
    """The hyperbolic cosine."""
    return wrap(_core.cosh(self._h))
  def tanh(self) -> Tensor:
    """The hyperbolic tangent."""
    return wrap(_core.tanh(self._h))
  def asinh(self) -> Tensor:
    """The inverse hyperbolic sine."""
    return wrap(_core.asinh(self._h))
  def acosh(self) -> Tensor:
    """The inverse hyperbolic cosine."""
    return wrap(_core.acosh(self._h))
  def atanh(self) -> Tensor:
    """The inverse hyperbolic tangent."""
    return wrap(_core.atanh(self._h))
  def erf(self) -> Tensor:
    """The error function."""
    return wrap(_core.erf(self._h))
  def sqrt(self) -> Tensor:
    """The square root."""
    return wrap(_core.sqrt(self._h))
  def rsqrt(self) -> Tensor:
    """1 / sqrt(self)."""
    return wrap(_core.rsqrt(self._h))
  def reciprocal(self) -> Tensor:
    """1 / self."""
    return wrap(_core.reciprocal(self._h))
  def trunc(self) -> Tensor:
    """Rounded toward 0."""
    return wrap(_core.trunc(self._h))
  def floor(self) -> Tensor:
    """Rounded down."""
    return wrap(_core.floor(self._h))
  def ceil(self) -> Tensor:
    """Rounded up."""
    return wrap(_core.ceil(self._h))
  def round(self) -> Tensor:
    """To the nearest integer, halves to the even one."""
    return wrap(_core.round(self._h))
  def abs(self) -> Tensor:
    """The magnitude."""
    return wrap(_core.abs(self._h))
  def square(self) -> Tensor:
    """self * self."""
    return wrap(_core.square(self._h))
  def sign(self) -> Tensor:
    """-1, 0 or 1; NaN stays NaN."""
    return wrap(_core.sign(self._h))
  def isnan(self) -> Tensor:
    """True where self is NaN."""
    return wrap(_core.isnan(self._h))
  def isinf(self, detect_positive: bool = True, detect_negative: bool = True) -> Tensor:
    """True where self is infinite, of the signs that are asked for."""
    if detect_positive and detect_negative: return wrap(_core.isinf(self._h))
    if not detect_positive and not detect_negative: return wrap(_core.ne(self._h, self._h)) & False
    return self.eq(math.inf if detect_positive else -math.inf)
  def isfinite(self) -> Tensor:
    """True where self is neither infinite nor NaN."""
    return wrap(_core.isfinite(self._h))
  def clamp(self, min_: Any = None, max_: Any = None) -> Tensor:
    """Within [min_, max_]. None: no limit."""
    if min_ is None and max_ is None: raise ValueError("clamp needs min_ or max_")
    t: Any = self if min_ is None else self.maximum(min_)
    return t if max_ is None else t.minimum(max_)
  def clip(self, min_: Any = None, max_: Any = None) -> Tensor:
    """The same as clamp."""
    return self.clamp(min_, max_)

  # Names of torch and NumPy that tinygrad does not have.
  def expm1(self) -> Tensor:
    """exp(self) - 1, exact near 0."""
    return wrap(_core.expm1(self._h))
  def log1p(self) -> Tensor:
    """log(1 + self), exact near 0."""
    return wrap(_core.log1p(self._h))
  def exp10(self) -> Tensor:
    """10 to the power self."""
    return wrap(_core.exp10(self._h))
  def erfc(self) -> Tensor:
    """1 - erf(self), exact where that is small."""
    return wrap(_core.erfc(self._h))
  def atan2(self, x: Any) -> Tensor:
    """The angle of the point (x, self), within [-pi, pi]."""
    return wrap(_core.atan2(self._h, arg(x)))
  def hypot(self, x: Any) -> Tensor:
    """sqrt(self^2 + x^2), without overflow."""
    return wrap(_core.hypot(self._h, arg(x)))
  def nan_to_num(self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """NaN and infinities replaced: infinities by the largest finite values, if no numbers are given."""
    return wrap(_core.nan_to_num(self._h, nan, posinf, neginf))
  def prelu(self, weight: Any) -> Tensor:
    """self, times the weight where it is negative. The weight has one element, or one for each channel."""
    return wrap(_core.prelu(self._h, handle(weight)))
  def threshold(self, threshold: float, value: float) -> Tensor:
    """self where it is above the threshold, value elsewhere."""
    return wrap(_core.threshold(self._h, threshold, value))
  def hardshrink(self, lambd: float = 0.5) -> Tensor:
    """0 within [-lambd, lambd], self elsewhere."""
    return wrap(_core.hardshrink(self._h, lambd))
  def softshrink(self, lambd: float = 0.5) -> Tensor:
    """0 within [-lambd, lambd]; elsewhere self moved toward 0 by lambd."""
    return wrap(_core.softshrink(self._h, lambd))
  def tanhshrink(self) -> Tensor:
    """self - tanh(self)."""
    return wrap(_core.tanhshrink(self._h))
  def glu(self, dim: int = -1) -> Tensor:
    """The first half of an axis times the sigmoid of the second half."""
    return wrap(_core.glu(self._h, dim))

  def relu(self) -> Tensor:
    """max(self, 0)."""
    return wrap(_core.relu(self._h))
  def relu6(self) -> Tensor:
    """self within [0, 6]."""
    return wrap(_core.relu6(self._h))
  def sigmoid(self) -> Tensor:
    """1 / (1 + exp(-self))."""
    return wrap(_core.sigmoid(self._h))
  def silu(self) -> Tensor:
    """self sigmoid(self)."""
    return wrap(_core.silu(self._h))
  def swish(self) -> Tensor:
    """The same as silu."""
    return wrap(_core.silu(self._h))
  def gelu(self, approximate: str = "tanh") -> Tensor:
    """self times the normal distribution function of self: "tanh" is an approximation, "none" exact."""
    return wrap(_core.gelu(self._h, approximate == "tanh"))
  def quick_gelu(self) -> Tensor:
    """self sigmoid(1.702 self)."""
    return wrap(_core.quick_gelu(self._h))
  def leaky_relu(self, neg_slope: float = 0.01) -> Tensor:
    """self, times neg_slope where it is negative."""
    return wrap(_core.leaky_relu(self._h, neg_slope))
  def elu(self, alpha: float = 1.0) -> Tensor:
    """self where it is positive, alpha (exp(self) - 1) elsewhere."""
    return wrap(_core.elu(self._h, alpha))
  def celu(self, alpha: float = 1.0) -> Tensor:
    """self where it is positive, alpha (exp(self / alpha) - 1) elsewhere."""
    return wrap(_core.celu(self._h, alpha))
  def selu(self, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Tensor:
    """gamma elu(self, alpha)."""
    return wrap(_core.selu(self._h, alpha, gamma))
  def softplus(self, beta: float = 1.0) -> Tensor:
    """log(1 + exp(beta self)) / beta."""
    return wrap(_core.softplus(self._h, beta))
  def softsign(self) -> Tensor:
    """self / (1 + |self|)."""
    return wrap(_core.softsign(self._h))
  def logsigmoid(self) -> Tensor:
    """log(sigmoid(self))."""
    return wrap(_core.logsigmoid(self._h))
  def mish(self) -> Tensor:
    """self tanh(softplus(self))."""
    return wrap(_core.mish(self._h))
  def hardswish(self) -> Tensor:
    """self hardsigmoid(self)."""
    return wrap(_core.hardswish(self._h))
  def hardsigmoid(self, alpha: float = 1 / 6, beta: float = 0.5) -> Tensor:
    """alpha self + beta within [0, 1]."""
    return wrap(_core.hardsigmoid(self._h, alpha, beta))
  def hardtanh(self, min_val: float = -1, max_val: float = 1) -> Tensor:
    """self within [min_val, max_val]."""
    return wrap(_core.hardtanh(self._h, min_val, max_val))

  def cast(self, dtype: DTypeLike) -> Tensor:
    """The values in another dtype."""
    return wrap(_core.cast(self._h, to_dtype(dtype).core))
  def bitcast(self, dtype: DTypeLike) -> Tensor:
    """The same bits as elements of another dtype. If the sizes differ, the last axis has more or fewer elements.

    >>> Tensor([1.0]).bitcast("int32").tolist()
    [1065353216]
    """
    return wrap(_core.bitcast(self._h, to_dtype(dtype).core))
  def float(self) -> Tensor:
    """The values as float32."""
    return self.cast(dtypes.float32)
  def half(self) -> Tensor:
    """The values as float16."""
    return self.cast(dtypes.float16)
  def bfloat16(self) -> Tensor:
    """The values as bfloat16."""
    return self.cast(dtypes.bfloat16)
  def double(self) -> Tensor:
    """The values as float64."""
    return self.cast(dtypes.float64)
  def int(self) -> Tensor:
    """The values as int32."""
    return self.cast(dtypes.int32)
  def long(self) -> Tensor:
    """The values as int64."""
    return self.cast(dtypes.int64)
  def short(self) -> Tensor:
    """The values as int16."""
    return self.cast(dtypes.int16)
  def bool(self) -> Tensor:
    """True where self is not 0."""
    return self.cast(dtypes.bool)

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
  def __pos__(self): return self
  def __invert__(self) -> Tensor: return self.bitwise_not()
  def __abs__(self) -> Tensor: return self.abs()
  __hash__ = object.__hash__


def _power_dtype(t: Base, base: Any) -> Any:
  if dtypes.is_float(t.dtype): return t.dtype
  return dtypes.default_float if isinstance(base, float) else t.dtype
