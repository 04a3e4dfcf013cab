# SPDX-License-Identifier: MIT
"""Blocks of GGML: small integers with a scale for each block or part of it, and how they are made into float32 by operations of tensors.

Every function takes blocks (n, bytes of a block) of uint8 and gives (n, elements of a block). The products are exact in float32, so the values are
those of GGML bit for bit."""
from __future__ import annotations

from typing import Callable, NamedTuple

from ..dtype import DType, dtypes
from ..tensor import Tensor


class BlockType(NamedTuple):
  """A type of quantised elements: its name, how many elements a block has and how many bytes, and what makes float32 of blocks."""
  name: str
  elements: int
  nbytes: int
  floats: Callable[[Tensor], Tensor]


def _half(b: Tensor, at: int) -> Tensor:
  """The 16-bit float at a byte of each block, as (n, 1)."""
  return b[:, at:at + 2].bitcast(dtypes.float16).float()


def _nibbles(q: Tensor) -> Tensor:
  """The low halves of bytes, then the high halves, along the last axis: (..., k) to (..., 2 k)."""
  return (q & 15).cat(q >> 4, dim=-1)


def _bits(b: Tensor, per: int) -> Tensor:
  """Bytes (..., k) as numbers of `per` bits, the lowest first, in a new axis before the last one: (..., 8 / per, k)."""
  shifts = Tensor([i * per for i in range(8 // per)], dtype=dtypes.uint8)
  return (b.unsqueeze(-2) >> shifts.reshape(-1, 1)) & (1 << per) - 1


def _signed(q: Tensor, zero: int) -> Tensor: return q.cast(dtypes.int32) - zero


def _q4_0(b: Tensor) -> Tensor: return _signed(_nibbles(b[:, 2:]), 8).float() * _half(b, 0)
def _q4_1(b: Tensor) -> Tensor: return _nibbles(b[:, 4:]).float() * _half(b, 0) + _half(b, 2)
def _fifth(b: Tensor, at: int) -> Tensor:
  """32 numbers of 5 bits: the fifth bits in 4 bytes, then the halves of 16 bytes."""
  high = _bits(b[:, at:at + 4], 1).transpose(-1, -2).flatten(-2)  # bit i of byte k is that of element 8 k + i
  return _nibbles(b[:, at + 4:at + 20]) | high << 4
def _q5_0(b: Tensor) -> Tensor: return _signed(_fifth(b, 2), 16).float() * _half(b, 0)
def _q5_1(b: Tensor) -> Tensor: return _fifth(b, 4).float() * _half(b, 0) + _half(b, 2)
def _q8_0(b: Tensor) -> Tensor: return b[:, 2:].bitcast(dtypes.int8).float() * _half(b, 0)


def _q2_k(b: Tensor) -> Tensor:
  q = _bits(b[:, 16:80].reshape(-1, 2, 32), 2).reshape(-1, 16, 16).float()
  scale, least = (b[:, :16] & 15).float() * _half(b, 80), (b[:, :16] >> 4).float() * _half(b, 82)
  return (q * scale.unsqueeze(-1) - least.unsqueeze(-1)).flatten(-2)


def _q3_k(b: Tensor) -> Tensor:
  low = _bits(b[:, 32:96].reshape(-1, 2, 32), 2)                              # (n, half, 4, 32)
  high = _bits(b[:, :32], 1).reshape(-1, 2, 4, 32)                            # bit 4 half + i
  q = _signed(low | high << 2, 4).reshape(-1, 16, 16).float()
  scale = _nibbles(b[:, 96:104]) | _bits(b[:, 104:108], 2).flatten(-2) << 4   # 16 numbers of 6 bits
  return (q * (_signed(scale, 32).float() * _half(b, 108)).unsqueeze(-1)).flatten(-2)


def _scales_k(b: Tensor) -> tuple[Tensor, Tensor]:
  """The 8 scales and the 8 minima of 6 bits in 12 bytes, times the floats of the block, as (n, 8, 1)."""
  first, second, third = b[:, 4:8], b[:, 8:12], b[:, 12:16]
  scale = (first & 63).cat(third & 15 | first >> 6 << 4, dim=-1)
  least = (second & 63).cat(third >> 4 | second >> 6 << 4, dim=-1)
  return (scale.float() * _half(b, 0)).unsqueeze(-1), (least.float() * _half(b, 2)).unsqueeze(-1)


def _q4_k(b: Tensor) -> Tensor:
  scale, least = _scales_k(b)
  q = _bits(b[:, 16:144].reshape(-1, 4, 32), 4).reshape(-1, 8, 32)
  return (q.float() * scale - least).flatten(-2)


def _q5_k(b: Tensor) -> Tensor:
  scale, least = _scales_k(b)
  q = _bits(b[:, 48:176].reshape(-1, 4, 32), 4).reshape(-1, 8, 32) | _bits(b[:, 16:48], 1) << 4
  return (q.float() * scale - least).flatten(-2)


def _q6_k(b: Tensor) -> Tensor:
  low = _bits(b[:, :128].reshape(-1, 2, 64), 4).reshape(-1, 2, 4, 32)  # the low halves of 64 bytes, then the high ones
  high = _bits(b[:, 128:192].reshape(-1, 2, 32), 2)
  q = _signed(low | high << 4, 32).reshape(-1, 16, 16).float()
  scale = b[:, 192:208].bitcast(dtypes.int8).float() * _half(b, 208)
  return (q * scale.unsqueeze(-1)).flatten(-2)


def _q8_k(b: Tensor) -> Tensor: return b[:, 4:260].bitcast(dtypes.int8).float() * b[:, :4].bitcast(dtypes.float32)


_IQ4 = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]
_FP4 = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12]  # twice the values of an E2M1 float


def _table(q: Tensor, values: list[int]) -> Tensor: return Tensor(values, dtype=dtypes.float32)[q.cast(dtypes.int32)]


def _mxfp4(b: Tensor) -> Tensor:
  e = b[:, :1].cast(dtypes.uint32)
  half = (e < 2).where((e + 1) * 0x200000, (e - 1) << 23).bitcast(dtypes.float32)  # 2^(e - 128), also below the normal numbers
  return _table(_nibbles(b[:, 1:]), _FP4) * half
def _iq4_nl(b: Tensor) -> Tensor: return _table(_nibbles(b[:, 2:]), _IQ4) * _half(b, 0)
def _iq4_xs(b: Tensor) -> Tensor:
  low = _bits(b[:, 4:8], 4).transpose(-1, -2).flatten(-2)
  high = _bits(b[:, 2:4], 2).transpose(-1, -2).flatten(-2)
  scale = (_signed(low | high << 4, 32).float() * _half(b, 0)).unsqueeze(-1)
  return (_table(_nibbles(b[:, 8:].reshape(-1, 8, 16)), _IQ4) * scale).flatten(-2)


PLAIN: dict[int, DType] = {0: dtypes.float32, 1: dtypes.float16, 24: dtypes.int8, 25: dtypes.int16, 26: dtypes.int32, 27: dtypes.int64, 28: dtypes.float64,
                           30: dtypes.bfloat16}
BLOCKS: dict[int, BlockType] = {
  2: BlockType("Q4_0", 32, 18, _q4_0), 3: BlockType("Q4_1", 32, 20, _q4_1), 6: BlockType("Q5_0", 32, 22, _q5_0), 7: BlockType("Q5_1", 32, 24, _q5_1),
  8: BlockType("Q8_0", 32, 34, _q8_0), 10: BlockType("Q2_K", 256, 84, _q2_k), 11: BlockType("Q3_K", 256, 110, _q3_k), 12: BlockType("Q4_K", 256, 144, _q4_k),
  13: BlockType("Q5_K", 256, 176, _q5_k), 14: BlockType("Q6_K", 256, 210, _q6_k), 15: BlockType("Q8_K", 256, 292, _q8_k),
  20: BlockType("IQ4_NL", 32, 18, _iq4_nl), 23: BlockType("IQ4_XS", 256, 136, _iq4_xs), 39: BlockType("MXFP4", 32, 17, _mxfp4),
}
