# SPDX-License-Identifier: MIT
"""The map of characters that a SentencePiece model applies to texts first (`tokenizer.ggml.precompiled_charsmap`)."""
from __future__ import annotations

import struct
from typing import Any

_KEY = "tokenizer.ggml.precompiled_charsmap"


class Charsmap:
  """Replaces the longest known beginning of what is left, again and again. The keys are in a double array (of Darts), by bytes of UTF-8; the values behind it end with 0.

  An element of the array: bits 0 to 7 the byte that leads here, bit 8 whether a key ends here, bits 10 to 30 the distance to the children, which is
  shifted by 8 where bit 9 is set. The element of the byte 0 has the value of a key: the place of the replacement.
  """
  def __init__(self, data: Any) -> None:
    self._units: tuple[int, ...] = ()
    self._texts = b""
    self._known: dict[str, str] = {}
    if data is None or data == []: return
    if not isinstance(data, list) or not all(type(b) is int and -128 <= b < 256 for b in data): raise ValueError(f"{_KEY} is no list of bytes")
    raw = bytes(b & 255 for b in data)
    size = int.from_bytes(raw[:4], "little")
    if len(raw) < 4 or size % 4 or 4 + size > len(raw): raise ValueError(f"{_KEY} has {len(raw)} bytes and says that its first part has {size}")
    self._units = struct.unpack_from(f"<{size // 4}I", raw, 4)
    self._texts = raw[4 + size:]

  def _unit(self, at: int) -> int:
    if at >= len(self._units): raise ValueError(f"{_KEY} names element {at} of {len(self._units)}")
    return self._units[at]

  def _longest(self, raw: bytes, begin: int) -> tuple[int, bytes] | None:
    """The bytes of the longest key at a place, and what replaces it."""
    unit = self._unit(0)
    at = (unit >> 10) << ((unit & 512) >> 6)
    found: tuple[int, int] | None = None
    for i in range(begin, len(raw)):
      if raw[i] == 0: break
      at ^= raw[i]
      unit = self._unit(at)
      if unit & 0x800000ff != raw[i]: break
      at ^= (unit >> 10) << ((unit & 512) >> 6)
      if unit & 256: found = i + 1 - begin, self._unit(at) & 0x7fffffff
    if found is None: return None
    end = self._texts.find(b"\0", found[1])
    if end < 0: raise ValueError(f"{_KEY} names text {found[1]} of {len(self._texts)} bytes")
    return found[0], self._texts[found[1]:end]

  def __call__(self, text: str) -> str:
    if not self._units: return text
    raw, out, at = text.encode(), bytearray(), 0
    while at < len(raw):
      found = self._longest(raw, at)
      if found is not None:
        at += found[0]
        out += found[1]
      else:
        size = 1 if raw[at] < 0x80 else 2 if raw[at] < 0xe0 else 3 if raw[at] < 0xf0 else 4
        out += raw[at:at + size]
        at += size
    return out.decode("utf-8", "replace")
