# SPDX-License-Identifier: MIT
"""Tensor's products and linear algebra. Matrices are the last two axes."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _core
from .base import Base, handle, wrap, wrap2
from .convert import as_terms
from .dtype import DTypeLike, to_dtype

if TYPE_CHECKING:
  from .tensor import Tensor


class Linalg(Base):
  __slots__ = ()

  def dot(self, w: Any, dtype: DTypeLike | None = None) -> Tensor:
    """The matrix product, as numpy.matmul."""
    return self.matmul(w, dtype=dtype)
  def matmul(self, x: Any, reverse: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    """The matrix product, as numpy.matmul: leading axes are batches and broadcast; vectors have one axis. Products are made and added up
    in the dtype, if it is given and wider than those of the factors.

    >>> (Tensor([[1, 2], [3, 4]]) @ Tensor([1, 1])).tolist()
    [3, 7]
    """
    to = None if dtype is None else to_dtype(dtype)
    a, b = as_terms(self._h, to), as_terms(handle(x), to)
    t = wrap(_core.matmul(b, a) if reverse else _core.matmul(a, b))
    return t if to is None else t.cast(to)
  def __matmul__(self, x: Any) -> Tensor: return self.matmul(x)
  def __rmatmul__(self, x: Any) -> Tensor: return self.matmul(x, True)
  @staticmethod
  def einsum(formula: str, *operands: Any, dtype: DTypeLike | None = None) -> Tensor:
    """Einstein's sum convention, as numpy.einsum.

    >>> Tensor.einsum("ij,ij->i", Tensor([[1, 2], [3, 4]]), Tensor([[1, 1], [2, 2]])).tolist()
    [3, 14]
    """
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)): operands = tuple(operands[0])
    to = None if dtype is None else to_dtype(dtype)
    t = wrap(_core.einsum(formula, [as_terms(handle(x), to) for x in operands]))
    return t if to is None else t.cast(to)
  def tensordot(self, other: Any, axes: Any = 2) -> Tensor:
    """The sum over the last axes of self and the first ones of the other, or over the pairs of two lists of axes."""
    if isinstance(axes, int): return wrap(_core.tensordot_last(self._h, handle(other), axes))
    a, b = (list(x) if isinstance(x, (list, tuple)) else [x] for x in axes)
    return wrap(_core.tensordot(self._h, handle(other), a, b))
  def outer(self, other: Any) -> Tensor:
    """All products of an element of self and one of the other, as a matrix."""
    return wrap(_core.outer(self._h, handle(other)))
  def linear(self, weight: Any, bias: Any = None, dtype: DTypeLike | None = None) -> Tensor:
    """self @ weight + bias; a weight with one axis multiplies elementwise."""
    x: Any = self if dtype is None else self.cast(dtype)  # type: ignore[attr-defined]
    weight, bias = (w if w is None or dtype is None else wrap(handle(w)).cast(dtype) for w in (weight, bias))
    weight = wrap(handle(weight))
    t = x * weight if weight.ndim == 1 else x.dot(weight)
    return t if bias is None else t + bias

  def norm(self, p: float = 2.0, axis: Any = None, keepdim: bool = False) -> Tensor:
    """The p-norm of all elements, or along axes; also 0, inf and -inf.

    >>> Tensor([3.0, 4.0]).norm().item()
    5.0
    """
    return wrap(_core.norm(self._h, p, self._axes(axis), keepdim))
  def normalize(self, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Divided by the p-norm along an axis, which counts as eps at least."""
    return wrap(_core.normalize(self._h, p, dim, eps))
  def trace(self, offset: int = 0) -> Tensor:
    """The sum of a diagonal."""
    return wrap(_core.trace(self._h, offset))
  def matrix_power(self, n: int) -> Tensor:
    """The product of n copies of a matrix; for negative n of its inverse."""
    return wrap(_core.matrix_power(self._h, n))
  def qr(self) -> tuple[Tensor, Tensor]:
    """q and r with q @ r = self, square orthogonal q and upper triangular r."""
    return wrap2(_core.qr(self._h))
  def svd(self, full_matrices: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """u, s and vt with u @ diag(s) @ vt = self; s is sorted from large to small. Gradients are finite
    if the singular values differ; the columns that full_matrices adds have none, and a gradient of a gradient is an error."""
    u, s, v = _core.svd(self._h, full_matrices)
    return wrap(u), wrap(s), wrap(v)
  def cholesky(self) -> Tensor:
    """The lower triangular l with l @ l.T = self, for symmetric positive definite matrices; NaN for others."""
    return wrap(_core.cholesky(self._h))
  def det(self) -> Tensor:
    """The determinant."""
    return wrap(_core.det(self._h))
  def inverse(self) -> Tensor:
    """The inverse matrix. Of a singular one it is not finite, or very large."""
    return wrap(_core.inverse(self._h))
  def solve(self, b: Any) -> Tensor:
    """x with self @ x = b."""
    return wrap(_core.solve(self._h, handle(b)))
  def solve_triangular(self, b: Any, upper: bool) -> Tensor:
    """x with self @ x = b, where only one triangle of self counts."""
    return wrap(_core.solve_triangular(self._h, handle(b), upper))
  def newton_schulz(self, steps: int, params: Any = (), eps: float = 1e-7) -> Tensor:
    """Singular values made equal by an odd polynomial with these coefficients, applied several times after division by the norm.
    Without coefficients those of Muon."""
    return wrap(_core.newton_schulz(self._h, steps, [float(c) for c in params], eps))
