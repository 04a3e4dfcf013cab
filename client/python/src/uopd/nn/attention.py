# SPDX-License-Identifier: MIT
"""Attention with several heads."""
from __future__ import annotations

from .. import _core
from ..base import maybe, wrap
from ..tensor import Tensor
from .layers import Linear


class MultiHeadAttention:
  """Attention with num_heads heads: query (n, L, embed_dim), key and value (n, S, embed_dim) give (n, L, embed_dim).

  Parameters have the names and shapes of PyTorch's nn.MultiheadAttention; the batch comes first. Without a key it is the
  query, without a value the key. attn_mask broadcasts to (n, num_heads, L, S); True is where a query sees a key, and floats
  are added, as in Tensor.scaled_dot_product_attention.

  >>> MultiHeadAttention(8, 2)(Tensor.ones(3, 5, 8), is_causal=True).shape
  (3, 5, 8)
  """
  def __init__(self, embed_dim: int, num_heads: int, bias: bool = True) -> None:
    if num_heads < 1 or embed_dim % num_heads: raise ValueError(f"embed_dim {embed_dim} is not divisible by num_heads {num_heads}")
    self.embed_dim, self.num_heads = embed_dim, num_heads
    self.in_proj_weight = Tensor.glorot_uniform(3 * embed_dim, embed_dim)
    self.in_proj_bias = Tensor.zeros(3 * embed_dim) if bias else None
    self.out_proj = Linear(embed_dim, embed_dim, bias)
    if bias: self.out_proj.bias = Tensor.zeros(embed_dim)
  def __call__(self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None, attn_mask: Tensor | None = None,
               is_causal: bool = False) -> Tensor:
    key = query if key is None else key
    value = key if value is None else value
    return wrap(_core.multi_head_attention(query._h, key._h, value._h, self.num_heads, self.in_proj_weight._h, maybe(self.in_proj_bias),
                                           self.out_proj.weight._h, maybe(self.out_proj.bias), maybe(attn_mask), is_causal))
