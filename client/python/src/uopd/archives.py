# SPDX-License-Identifier: MIT
"""Archives as tensors: a tensor as a file, and the members of zip and tar files."""
from __future__ import annotations

import functools
import io
import os
import pathlib
import struct
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from .dtype import dtypes
from .tensor import Tensor

if TYPE_CHECKING: import zipfile

Result = TypeVar("Result")
_LOCAL_HEADER = 30  # bytes of the fixed part of a member's own header in a zip file
_MOST_INFLATED = 1032  # bytes that deflate makes of one


class TensorIO(io.RawIOBase):
  """A uint8 tensor with one axis as a file that is read. Of a tensor on a disk the parts that are asked for are read, another one is fetched whole.

  >>> f = TensorIO(Tensor(b"abcdef"))
  >>> f.seek(2), f.read(3)
  (2, b'cde')
  """
  def __init__(self, t: Tensor) -> None:
    if t.ndim != 1 or t.dtype is not dtypes.uint8: raise ValueError(f"a file as a tensor has uint8 and one axis; this is {t!r}")
    self._tensor, self._at = t, 0
    from .disk import DiskTensor
    self._contents: Any = None if isinstance(t, DiskTensor) else memoryview(t._bytes())
  def readable(self) -> bool:
    """True."""
    return True
  def seekable(self) -> bool:
    """True."""
    return True
  def tell(self) -> int:
    """The position."""
    return self._at
  def seek(self, offset: int, whence: int = 0) -> int:
    """Another position, from the beginning (0), from here (1) or from the end (2). It stays within the tensor."""
    size = self._tensor.shape[0]
    self._at = min(size, max(0, (0, self._at, size)[whence] + offset))
    return self._at
  def readinto(self, buffer: Any) -> int:
    """Reads what fits into memory of the caller."""
    out = memoryview(buffer).cast("B")
    end = min(self._at + len(out), self._tensor.shape[0])
    n = end - self._at
    out[:n] = self._contents[self._at:end] if self._contents is not None else self._tensor[self._at:end]._bytes()
    self._at = end
    return n
  def write(self, s: Any) -> int:
    """Refused, as writelines()."""
    raise io.UnsupportedOperation("a tensor as a file is only read")


class _Beginning(io.BytesIO):
  """A file on a disk that is read from its beginning as far as it is needed."""
  STEP = 1 << 20
  def __init__(self, t: Tensor) -> None:
    super().__init__()
    self._t, self._have = t, 0
  def _fill(self, end: int) -> None:
    end = min(max(end, 0), self._t.shape[0])
    if end <= self._have: return
    end = min(self._t.shape[0], end + self.STEP)
    at = super().tell()
    super().seek(self._have)
    super().write(self._t[self._have:end]._bytes())
    super().seek(at)
    self._have = end
  def read(self, n: int | None = -1) -> bytes:
    self._fill(self._t.shape[0] if n is None or n < 0 else super().tell() + n)
    return super().read(n)
  def readline(self, size: int | None = -1) -> bytes:
    at = super().tell()
    while True:
      line = super().readline()
      if line.endswith(b"\n") or self._have >= self._t.shape[0]: return line
      super().seek(at)
      self._fill(self._have + self.STEP)


def beginning_of(t: Tensor) -> io.BytesIO:
  """A file that is read from its beginning on, as one in memory. Of one on a disk no more is read than is asked for."""
  from .disk import DiskTensor
  return _Beginning(t) if isinstance(t, DiskTensor) else io.BytesIO(bytes(t._bytes()))


def from_path(f: Callable[[Tensor], Result]) -> Callable[[Tensor | str | os.PathLike[str]], Result]:
  """f for a path too, whose file stays on its disk."""
  @functools.wraps(f)
  def call(fn: Tensor | str | os.PathLike[str]) -> Result: return f(fn if isinstance(fn, Tensor) else Tensor(pathlib.Path(fn)))
  return call


def _inflated(compressed: Any, member: zipfile.ZipInfo) -> bytes:
  """What deflate made smaller. Not one byte more than the archive says is made of it."""
  import zipfile
  import zlib
  size, name, crc = member.file_size, member.filename, member.CRC
  if size > _MOST_INFLATED * (len(compressed) + 1): raise zipfile.BadZipFile(f"{name} cannot have {size} bytes")
  stream = zlib.decompressobj(-15)
  try: out = stream.decompress(bytes(compressed), size) if size else b""
  except zlib.error as e: raise zipfile.BadZipFile(f"{name} cannot be unpacked: {e}") from None
  if len(out) != size: raise zipfile.BadZipFile(f"{name} has {len(out)} bytes, not {size} as the archive says")
  if size and not stream.eof and stream.decompress(stream.unconsumed_tail, 1): raise zipfile.BadZipFile(f"{name} is longer than the {size} bytes that the archive says")
  if zlib.crc32(out) != crc: raise zipfile.BadZipFile(f"{name} has other bytes than when it was packed: its CRC-32 differs")
  return out


@from_path
def zip_extract(t: Tensor) -> dict[str, Tensor]:
  """The members of a zip file by name, as uint8. What is stored stays a part of the file, and is not read or checked now; what is compressed is
  unpacked, and checked, now.

  zipfile.BadZipFile for what is no such file, NotImplementedError for other compressions than deflate and for encryption. Memory is bounded by what deflate can
  make of the file: 1032 times its size.
  """
  import zipfile  # as the other modules of archives, only where it is needed: importing it takes milliseconds
  size = t.shape[0] if t.ndim == 1 else 0
  out: dict[str, Tensor] = {}
  try: opened = zipfile.ZipFile(io.BufferedReader(TensorIO(t), 1 << 16), "r")
  except (struct.error, ValueError, OverflowError, IndexError) as e: raise zipfile.BadZipFile(f"this is no zip file: {e}") from None
  with opened as archive:
    used = 0
    for member in archive.infolist():
      if member.filename.endswith("/"): continue
      if member.flag_bits & 1: raise NotImplementedError(f"{member.filename} is encrypted")
      at = member.header_offset
      header = t[at:at + _LOCAL_HEADER]._bytes() if 0 <= at <= size - _LOCAL_HEADER else b""
      if header[:4] != b"PK\x03\x04": raise zipfile.BadZipFile(f"{member.filename} does not begin at byte {at}")
      begin = at + _LOCAL_HEADER + int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
      end = begin + member.compress_size
      used += member.compress_size  # members that share bytes could make much out of little
      if end > size or used > size: raise zipfile.BadZipFile(f"{member.filename} goes to byte {end} of {size}, or shares bytes with others")
      part = t[begin:end]
      if member.compress_type == zipfile.ZIP_STORED:
        if member.file_size != member.compress_size: raise zipfile.BadZipFile(f"{member.filename} is stored and has two sizes")
        out[member.filename] = part
      elif member.compress_type == zipfile.ZIP_DEFLATED: out[member.filename] = Tensor(_inflated(part._bytes(), member))
      else: raise NotImplementedError(f"{member.filename} has the compression {member.compress_type}")
  return out


@from_path
def tar_extract(t: Tensor) -> dict[str, Tensor]:
  """The regular files of a tar file by name, as uint8 parts of it. tarfile.ReadError for what is no such file, or a compressed one."""
  import tarfile
  out: dict[str, Tensor] = {}
  size = t.shape[0] if t.ndim == 1 else 0
  try:
    with tarfile.open(fileobj=TensorIO(t), mode="r:") as archive:
      for member in archive:
        if not member.isreg(): continue
        if member.issparse(): raise NotImplementedError(f"{member.name} has holes")
        end = member.offset_data + member.size
        if not 0 <= member.offset_data <= end <= size: raise tarfile.ReadError(f"{member.name} goes to byte {end} of {size}")
        out[member.name] = t[member.offset_data:end]
  except (ValueError, OverflowError, RecursionError) as e:
    raise tarfile.ReadError(f"this is no tar file: {e}") from None
  return out
