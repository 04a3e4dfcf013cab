# SPDX-License-Identifier: MIT
"""torch_load: the three formats of torch.save, strides, what is refused, and broken files."""
import collections
import io
import os
import pickle
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch_writer as tw
from mutations import try_all
from uopd import Device, Tensor, dtypes
from uopd.disk import FileRange
from uopd.pickle_reader import PickleReader, Refused
from uopd.nn.state import torch_load

ITEMSIZE = {d.name: d.itemsize for d in dtypes.all}
RNG = np.random.default_rng(11)
BITS = {n: RNG.integers(0, 2 if n == "bool" else 120, 24 * ITEMSIZE[n], dtype=np.uint8) for n in tw.STORAGES}
LAYOUTS = [  # size, stride, offset in a storage of 24 elements
  ((2, 3, 4), (12, 4, 1), 0), ((24,), (1,), 0), ((), (), 5), ((4, 6), (1, 4), 0), ((3, 2), (4, 2), 1), ((2, 1, 3), (3, 99, 1), 6), ((0, 3), (3, 1), 0), ((2, 3), (0, 1), 2),
  ((3,), (0,), 7), ((2, 3, 2), (6, 2, 1), 12), ((4, 3, 2), (1, 4, 12), 0), ((5,), (4,), 3), ((1, 1), (1, 1), 23)]


def case():
  """A state with tensors of all dtypes and layouts, its storages, and what each tensor has."""
  storages = [tw.Storage(str(i), n, BITS[n].tobytes()) for i, n in enumerate(tw.STORAGES)]
  state, want = collections.OrderedDict(), {}
  for s in storages:
    numbers = np.frombuffer(s.contents, f"u{ITEMSIZE[s.dtype]}")
    for k, (size, stride, offset) in enumerate(LAYOUTS):
      state[f"{s.dtype}.{k}"] = tw.Stored(s, size, stride, offset, parameter=k == 1)
      want[f"{s.dtype}.{k}"] = s.dtype, np.lib.stride_tricks.as_strided(numbers[offset:], size, [v * ITEMSIZE[s.dtype] for v in stride]).copy()
  return state, storages, want


def check(loaded, want):
  assert list(loaded) == list(want)
  for name, (dtype, bits) in want.items():
    t = loaded[name]
    assert (t.dtype.name, t.shape) == (dtype, bits.shape), name
    as_bits = f"uint{8 * bits.dtype.itemsize}"
    for got in (t, t.to(Device.DEFAULT) if bits.size else t):
      got = got.int().cast("uint8") if dtype == "bool" else got.bitcast(as_bits)
      np.testing.assert_array_equal(got.numpy().reshape(bits.shape), bits, name)


@pytest.mark.parametrize("form", ["zip", "legacy", "tar", "deflated"])
@pytest.mark.parametrize("source", ["path", "disk tensor", "tensor"])
def test_formats(tmp_path, form, source):
  state, storages, want = case()
  make = {"zip": tw.zip_file, "legacy": tw.legacy_file, "tar": tw.tar_file, "deflated": lambda *a: tw.zip_file(*a, base="model", compression=zipfile.ZIP_DEFLATED)}[form]
  path = tmp_path / "m.pt"
  path.write_bytes(make(state, storages, ITEMSIZE))
  check(torch_load({"path": str(path), "disk tensor": Tensor(path), "tensor": Tensor(path.read_bytes())}[source]), want)


def test_other_contents(tmp_path):
  s = tw.Storage("0", "float32", np.arange(6, dtype=np.float32).tobytes())
  tensor = tw.Stored(s, (2, 3), (3, 1))
  obj = {"epoch": 3, "lr": 1e-3, "names": ["a", "b"], "best": None, "on": True, "state": {0: {"step": tensor}}, "t": (1, (2.5, "x")), "s": {1, 2}, "big": 1 << 70,
         "net": collections.OrderedDict(w=tensor, v=tw.Stored(s, (3,), (1,), 3, rebuild="_rebuild_tensor")), "bytes": b"\x00\xff"}
  for make in (tw.zip_file, tw.legacy_file):
    path = tmp_path / "m.pt"
    path.write_bytes(make(obj, [s], ITEMSIZE))
    back = torch_load(path)
    assert {k: v for k, v in back.items() if k not in ("state", "net")} == {k: v for k, v in obj.items() if k not in ("state", "net")}
    assert back["state"][0]["step"].tolist() == [[0, 1, 2], [3, 4, 5]] and back["net"]["v"].tolist() == [3, 4, 5] and isinstance(back["net"], collections.OrderedDict)


def test_read_when_used(tmp_path, monkeypatch):
  count = 3_000_000
  storages = [tw.Storage(str(i), "float32", np.full(count, i, np.float32).tobytes()) for i in range(3)]
  state = collections.OrderedDict((f"w{s.key}", tw.Stored(s, (count,), (1,))) for s in storages)
  seen, read = [], FileRange.read
  monkeypatch.setattr(FileRange, "read", lambda self: (seen.append(self.nbytes), read(self))[1])
  for make, most in ((tw.zip_file, 1 << 20), (tw.legacy_file, 5 << 20)):
    path = tmp_path / "m.pt"
    path.write_bytes(make(state, storages, ITEMSIZE))
    seen.clear()
    loaded = torch_load(path)
    assert sum(seen) < most
    seen.clear()
    assert loaded["w2"].max().item() == 2 and seen == [4 * count]


class Attack:
  def __reduce__(self): return os.system, ("echo ATTACKED",)


def zip_with(data, storages=()):
  out = io.BytesIO()
  with zipfile.ZipFile(out, "w") as z:
    z.writestr("archive/data.pkl", data)
    for key, contents in storages: z.writestr(f"archive/data/{key}", contents)
  return Tensor(out.getvalue())


def test_nothing_is_run(capfd):
  for protocol in range(6):
    with pytest.raises(ValueError, match="posix.system|nt.system"): torch_load(zip_with(pickle.dumps({"a": Attack()}, protocol)))
  for code in (b"cbuiltins\neval\n(S'1'\ntR.", b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00echo\x85R.", b"\x80\x04\x8c\x08builtins\x8c\x07getattr\x93.",
               b"(ibuiltins\neval\n.", b"\x80\x02\x82\x01.", b"ctorch._utils\n_rebuild_tensor_v2\n}b.", b"ccopyreg\n_reconstructor\n."):
    with pytest.raises(ValueError): torch_load(zip_with(code))
  assert "ATTACKED" not in capfd.readouterr().out


def test_pickles_that_are_costly_or_broken():
  deep = b"(" * 0 + b")" + b"\x85" * 500_000
  for code, says in ((deep + b"K\x01}" + b".", None), (b"}" + deep + b"K\x01s.", "key"), (b"}" + b")" + b"\x85q\x00h\x00\x86" * 60 + b"K\x01s.", "key"), (b"\x8f(" + deep + b"\x90.", "key"),
                     (b"r\xff\xff\xff\x7f.", "broken"), (b"K\x01r\xff\xff\xff\xff.", None), (b"\x8e" + b"\xff" * 7 + b"\x7f.", "ends too early"), (b"\x96" + b"\xff" * 7 + b"\x7f.", "operation"),
                     (b"B\xff\xff\xff\xff.", "ends too early"), (b"I" + b"9" * 5000 + b"\n.", "too long"), (b"", "ends too early"), (b".", "broken"), (b"K\x01K\x02R.", "calls a"),
                     (b"(.", "mark"), (b"t.", "mark"), (b"K\x01e.", "mark"), (b"(K\x01}u.", None), (b"]K\x01K\x02s.", "fills a list"), (b"\x8bK\xff\xff\xff.", None)):
    reader = PickleReader(io.BytesIO(code), lambda m, n: (_ for _ in ()).throw(Refused(m)), lambda x: x)
    if says is None:
      try: reader.load()
      except ValueError as e: assert str(e)
    else:
      with pytest.raises(ValueError, match=says): reader.load()


@pytest.mark.parametrize("wrong, says", [
  (lambda s: tw.Stored(s, (25,), (1,)), "goes to element 24"), (lambda s: tw.Stored(s, (2, 2), (24, 1)), "goes to element"), (lambda s: tw.Stored(s, (-1,), (1,)), "no shape"),
  (lambda s: tw.Stored(s, (3, 3), (1, 1)), "meet"), (lambda s: tw.Stored(s, (2,), (1, 1)), "no shape"), (lambda s: tw.Stored(s, (1 << 50,), (0,)), "no shape"),
  (lambda s: tw.Stored(s, (2,), (1,), 1 << 60), "no shape"), (lambda s: tw.Stored(s, (2,), (-1,), 5), "no shape"), (lambda s: tw.Stored(tw.Storage("9", "float32", b"abcd"), (1,), (1,)), "missing")])
def test_impossible_tensors(wrong, says):
  s = tw.Storage("0", "float32", BITS["float32"].tobytes())
  for make in (tw.zip_file, tw.legacy_file):
    with pytest.raises(ValueError, match=says if make is tw.zip_file or says != "missing" else "missing|nothing"): torch_load(Tensor(make([wrong(s), tw.Stored(s, (1,), (1,))], [s], ITEMSIZE)))


def test_files_that_are_none(tmp_path):
  for contents in (b"", b"abc", b"PK\x03\x04" + b"\0" * 30, os.urandom(300), pickle.dumps(3), b"\x80\x02]."):
    with pytest.raises(ValueError): torch_load(Tensor(np.frombuffer(contents, np.uint8)))
  with pytest.raises(FileNotFoundError): torch_load(tmp_path / "none")
  with pytest.raises(ValueError, match="uint8"): torch_load(Tensor([1.0]))


@pytest.mark.parametrize("form", ["zip", "legacy", "tar"])
def test_mutated_files(form, tmp_path):
  s = [tw.Storage("0", "float32", BITS["float32"].tobytes()), tw.Storage("1", "int64", BITS["int64"].tobytes())]
  state = collections.OrderedDict(w=tw.Stored(s[0], (4, 6), (1, 4)), b=tw.Stored(s[1], (3,), (2,), 1, parameter=True), c=tw.Stored(s[0], (6,), (1,)))
  contents = {"zip": tw.zip_file, "legacy": tw.legacy_file, "tar": tw.tar_file}[form](state, s, ITEMSIZE)
  path = tmp_path / "m.pt"

  def read(case):
    path.write_bytes(case)
    found = torch_load(path)
    for t in found.values() if isinstance(found, dict) else ():
      if isinstance(t, Tensor): t._bytes() if t.numel() < 1 << 20 and hasattr(t, "path") else t.shape
  good = try_all(contents, read, (ValueError, NotImplementedError), 600, 40 * len(contents) + (4 << 20))
  assert good > 20  # mistakes in contents of tensors, names and so on


@pytest.mark.skipif(subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode != 0, reason="torch is not installed")
def test_files_of_torch(tmp_path):
  import torch
  state = {"w": torch.randn(3, 4).t(), "n": torch.arange(5), "h": torch.randn(4).to(torch.bfloat16), "v": torch.randn(6)[2:5]}
  for new in (True, False):
    torch.save(state, tmp_path / "m.pt", _use_new_zipfile_serialization=new)
    back = torch_load(tmp_path / "m.pt")
    for name, t in state.items(): np.testing.assert_array_equal(back[name].float().numpy(), t.float().numpy())
  assert struct.calcsize("q") == 8
