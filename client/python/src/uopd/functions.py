# SPDX-License-Identifier: MIT
"""Tensor's functions of one element, and conversions between dtypes."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from . import _core
from .base import Base, arg, wrap
from .dtype import DTypeLike, dtypes, to_dtype
from .errors import WrongArgument

if TYPE_CHECKING:
  from .tensor import Tensor


class Functions(Base):
  __slots__ = ()

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
    return wrap(_core.eq(self._h, math.inf if detect_positive else -math.inf))
  def isfinite(self) -> Tensor:
    """True where self is neither infinite nor NaN."""
    return wrap(_core.isfinite(self._h))
  def clamp(self, min_: Any = None, max_: Any = None) -> Tensor:
    """Within [min_, max_]. None: no limit. The gradient at a limit is that of self."""
    if min_ is None and max_ is None: raise WrongArgument("clamp needs min_ or max_")
    h = self._h if min_ is None else _core.at_least(self._h, arg(min_))
    return wrap(h if max_ is None else _core.at_most(h, arg(max_)))
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
