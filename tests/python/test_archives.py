# SPDX-License-Identifier: MIT
"""TensorIO, zip_extract, tar_extract: against the standard library, and with broken files."""
import io
import os
import struct
import tarfile
import zipfile
import zlib

import numpy as np
import pytest
from mutations import try_all
from uopd import Tensor
from uopd.disk import DiskTensor
from uopd.nn.state import TensorIO, tar_extract, zip_extract

MEMBERS = {"a.txt": b"hello", "d/b.bin": bytes(range(256)) * 9, "empty": b"", "ü.txt": b"x" * 1000}


def zipped(compression=zipfile.ZIP_STORED):
  out = io.BytesIO()
  with zipfile.ZipFile(out, "w", compression) as z:
    z.mkdir("d")
    for name, data in MEMBERS.items(): z.writestr(name, data)
  return out.getvalue()


def tarred(form=tarfile.PAX_FORMAT):
  out = io.BytesIO()
  with tarfile.open(fileobj=out, mode="w", format=form) as tar:
    for name, data in MEMBERS.items():
      member = tarfile.TarInfo(name)
      member.size = len(data)
      tar.addfile(member, io.BytesIO(data))
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, "a.txt"
    tar.addfile(link)
  return out.getvalue()


@pytest.mark.parametrize("make, read", [(zipped, zip_extract), (lambda: zipped(zipfile.ZIP_DEFLATED), zip_extract), (tarred, tar_extract), (lambda: tarred(tarfile.GNU_FORMAT), tar_extract)],
                         ids=["zip", "deflated", "pax", "gnu"])
def test_members(tmp_path, make, read):
  path = tmp_path / "archive"
  path.write_bytes(make())
  for source in (path, str(path), Tensor(path), Tensor(make())):
    found = read(source)
    assert {n: t.numpy().tobytes() for n, t in found.items()} == MEMBERS and (found["a.txt"] + 1).tolist() == [b + 1 for b in b"hello"]
  if make is not test_members and read is tar_extract: assert all(isinstance(t, DiskTensor) for t in read(path).values())


def test_tensor_as_a_file(tmp_path):
  data = os.urandom(10000)
  (tmp_path / "x").write_bytes(data)
  for t in (Tensor(data), Tensor(tmp_path / "x")):
    for f in (TensorIO(t), io.BufferedReader(TensorIO(t), 100)):
      assert f.read(10) == data[:10] and f.tell() == 10 and f.seek(-5, 2) == 9995 and f.read() == data[-5:] and f.read() == b""
      assert f.seek(100) == 100 and f.seek(10, 1) == 110 and f.read(3) == data[110:113] and f.readable() and f.seekable()
      f.seek(0)
      assert f.read() == data
    assert TensorIO(t).seek(-3) == 0 and TensorIO(t).seek(99999) == 10000 and np.frombuffer(TensorIO(t).read(8), "<u8") == np.frombuffer(data[:8], "<u8")
    with pytest.raises(io.UnsupportedOperation): TensorIO(t).write(b"x")
  with pytest.raises(ValueError): TensorIO(Tensor([1.0]))
  with pytest.raises(ValueError): TensorIO(Tensor([[1, 2]], dtype="uint8"))


def test_no_archives(tmp_path):
  (tmp_path / "x").write_bytes(b"this is no archive" * 100)
  with pytest.raises(zipfile.BadZipFile): zip_extract(tmp_path / "x")
  with pytest.raises(tarfile.ReadError): tar_extract(tmp_path / "x")
  with pytest.raises(FileNotFoundError): tar_extract(str(tmp_path / "none"))
  (tmp_path / "z").write_bytes(zlib.compress(tarred()))
  with pytest.raises(tarfile.ReadError): tar_extract(tmp_path / "z")
  out = io.BytesIO()
  with zipfile.ZipFile(out, "w", zipfile.ZIP_BZIP2) as z: z.writestr("a", b"x" * 100)
  with pytest.raises(NotImplementedError, match="compression"): zip_extract(Tensor(out.getvalue()))


def test_bombs():
  bomb = io.BytesIO()
  with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as z: z.writestr("a", b"\0" * (1 << 20))
  data = bytearray(bomb.getvalue())
  assert len(data) < 2000
  at = data.rindex(b"PK\x01\x02")
  for size, says in ((1 << 31, "cannot have"), (100, "longer than"), ((1 << 20) + 1, "has 1048576 bytes")):
    wrong = bytearray(data)
    struct.pack_into("<I", wrong, at + 24, size)  # the size in the directory
    with pytest.raises(zipfile.BadZipFile, match=says): zip_extract(Tensor(bytes(wrong)))
  wrong = bytearray(data)
  wrong[at + 16] ^= 1  # the CRC-32 in the directory
  with pytest.raises(zipfile.BadZipFile, match="CRC"): zip_extract(Tensor(bytes(wrong)))
  # Ten names for the same bytes.
  entry, end = bytes(data[at:data.rindex(b"PK\x05\x06")]), bytearray(data[data.rindex(b"PK\x05\x06"):])
  struct.pack_into("<HHI", end, 8, 10, 10, 10 * len(entry))
  with pytest.raises(zipfile.BadZipFile, match="shares"): zip_extract(Tensor(bytes(data[:at]) + 10 * entry + bytes(end)))


@pytest.mark.parametrize("make, read, allowed", [(zipped, zip_extract, (zipfile.BadZipFile, NotImplementedError)),
                                                 (lambda: zipped(zipfile.ZIP_DEFLATED), zip_extract, (zipfile.BadZipFile, NotImplementedError)),
                                                 (tarred, tar_extract, (tarfile.ReadError, NotImplementedError))], ids=["zip", "deflated", "tar"])
def test_mutated_archives(tmp_path, make, read, allowed):
  contents, path = make(), tmp_path / "x"

  def use(case):
    path.write_bytes(case)
    for t in read(path).values(): t._bytes()
  assert try_all(contents, use, allowed, 600, 1100 * len(contents) + (4 << 20)) > 40
