# SPDX-License-Identifier: MIT
"""States of models, and safetensors files against the package safetensors of their inventors."""
import collections
import json
import os
import struct
import subprocess
import sys

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from uopd import Tensor, dtypes, nn
from uopd.nn import optim
from uopd.nn.state import get_parameters, get_state_dict, load_state_dict, safe_load, safe_load_metadata, safe_save

NAMES = {"bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32", "int32": "I32", "uint64": "U64",
         "int64": "I64", "fp8e4m3": "F8_E4M3", "fp8e5m2": "F8_E5M2", "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64"}


def file_of(header, data=b""):
  text = header if isinstance(header, bytes) else json.dumps(header).encode()
  return struct.pack("<Q", len(text)) + text + data


def test_names():
  class Net:
    def __init__(self):
      self.l1, self.layers, self.name = nn.Linear(2, 3), [nn.Linear(3, 3, bias=False), (nn.RMSNorm(3),)], "net"
      self.by_name = collections.OrderedDict(a=Tensor([1.0]))
      self.pair = collections.namedtuple("Pair", "x y")(Tensor([1.0]), 3)
      self.itself, self.json = self, json
  net = Net()
  names = ["l1.weight", "l1.bias", "layers.0.weight", "layers.1.0.weight", "by_name.a", "pair.x"]
  assert list(get_state_dict(net)) == names
  assert list(get_state_dict(net, "p.")) == [f"p.{n}" for n in names]
  assert get_state_dict(Tensor([1.0]), "w").keys() == {"w"}
  assert len(get_parameters(net)) == 6 and get_parameters(net)[0] is net.l1.weight


def test_loading():
  a, b = nn.Linear(2, 3), nn.Linear(2, 3)
  state = get_state_dict(a)
  with pytest.raises(KeyError, match="bias"): load_state_dict(b, {"weight": a.weight})
  before = b.bias.numpy()
  with pytest.raises(ValueError, match="Shape mismatch in layer `bias`"): load_state_dict(b, {"weight": a.weight, "bias": Tensor([1.0])})
  assert (b.weight.numpy() != a.weight.numpy()).all()
  assert load_state_dict(b, {"weight": a.weight, "more": a.bias}, strict=False) == [b.weight]
  np.testing.assert_array_equal(b.weight.numpy(), a.weight.numpy())
  np.testing.assert_array_equal(b.bias.numpy(), before)
  loaded = load_state_dict(b, state, consume=True)
  assert state == {} and len(loaded) == 2
  scalar = nn.BatchNorm(2)
  load_state_dict(scalar, {**get_state_dict(scalar), "num_batches_tracked": Tensor([5], dtype="long")})
  assert scalar.num_batches_tracked.item() == 5 and scalar.num_batches_tracked.shape == ()


def test_a_loaded_model_trains_apart_from_the_state():
  for realized in (False, True):
    a, b = nn.Linear(2, 3), nn.Linear(2, 3)
    if realized: b.weight.realize(b.bias)
    step = optim.SGD(get_parameters(b), lr=1.0)
    load_state_dict(b, get_state_dict(a))
    before = a.weight.numpy()
    with Tensor.train():
      b(Tensor.ones(1, 2)).sum().backward()
      step.step()
    np.testing.assert_array_equal(a.weight.numpy(), before)
    np.testing.assert_allclose(b.weight.numpy(), before - 1, rtol=1e-6)


def test_another_dtype_replaces():
  b = nn.Linear(2, 3)
  step = optim.SGD(get_parameters(b))
  load_state_dict(b, {"weight": Tensor.ones(3, 2, dtype=dtypes.float16), "bias": Tensor.ones(3)})
  assert b.weight.dtype is dtypes.float16 and b.weight.requires_grad
  with Tensor.train(), pytest.raises(RuntimeError, match="parameter 0 stands for another tensor"): step.step()


def test_every_dtype_there_and_back(tmp_path):
  tensors = {}
  for dtype in dtypes.all: tensors[dtype.name] = Tensor([[0, 1, 1], [1, 0, 1]]).cast(dtype)
  tensors |= {"none": Tensor.zeros(0, 4), "scalar": Tensor(2.5), "é\"\\\n": Tensor.arange(5), "lazy": Tensor.ones(300, 300) * 3}
  path = tmp_path / "all.safetensors"
  safe_save(tensors, path, {"format": "pt", "ü": "\"\n"})
  for source in (path, str(path), Tensor(path.read_bytes())):
    back = safe_load(source)
    assert list(back) == list(tensors)
    for name, t in tensors.items():
      assert (back[name].dtype, back[name].shape) == (t.dtype, t.shape)
      assert back[name].tolist() == t.tolist()
    got, start, header = safe_load_metadata(source)
    assert got is source if isinstance(source, Tensor) else got.numpy().tobytes() == path.read_bytes()
    assert header["__metadata__"] == {"format": "pt", "ü": "\"\n"}
    assert header["float64"]["dtype"] == "F64" and start % 8 == 0
  # The other implementation reads it.
  theirs = dict(safetensors.deserialize(path.read_bytes()))
  assert theirs.keys() == tensors.keys()
  for name, t in tensors.items():
    assert theirs[name]["shape"] == list(t.shape) and theirs[name]["dtype"] == NAMES[t.dtype.name]
    if t.dtype.numpy_name: assert bytes(theirs[name]["data"]) == t.numpy().tobytes()
  with safetensors.safe_open(path, "np") as f: assert f.metadata() == {"format": "pt", "ü": "\"\n"}


def test_reads_what_the_other_implementation_writes(tmp_path):
  rng = np.random.default_rng(3)
  arrays = {f"{d}.{i}": np.array(rng.standard_normal(s) * 50).astype(d) for d in ("float16", "float32", "float64", "int8", "uint8", "int16", "uint16",
            "int32", "uint32", "int64", "uint64", "bool") for i, s in enumerate([(3, 5), (), (0, 2), (7,)])}
  path = tmp_path / "theirs.safetensors"
  safetensors.numpy.save_file(arrays, path, {"a": "b"})
  back = safe_load(path)
  assert back.keys() == arrays.keys()
  for name, a in arrays.items():
    got = back[name].numpy()
    assert got.dtype == a.dtype and got.shape == a.shape
    np.testing.assert_array_equal(got, a)


def one(dtype="F32", shape=(1,), offsets=(0, 4)): return {"w": {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}}


@pytest.mark.parametrize("contents, says", [
  (b"", "has 0 bytes"), (struct.pack("<Q", 1 << 62) + b"{}", "more than 100000000"), (struct.pack("<Q", 99) + b"{}", "has 2 behind"),
  (file_of(b"\xff"), "does not begin with"), (file_of(b"{\"\xff\":1}"), "no JSON"), (file_of(b"{\"w\":" + b"[" * 100000), "`w` is a list"),
  (file_of(one("F4")), "`w` has the dtype `F4`"), (file_of(one(), b"abc"), "`w` has the data_offsets 0 and 4"),
  (file_of(one(shape=(2,)), b"abcd"), "`w` of f32 and shape \\(2\\) takes 8"), (file_of(one(offsets=(4, 8)), b"x" * 8), "`w` begins at byte 4"),
  (file_of(one(), b"abcde"), "has 5 bytes"), (file_of(one(shape=(1 << 40, 1 << 40), offsets=(0, 0))), "more than 2\\^48"),
  (file_of(b'{"w":1,"w":1}'), "`w` is a number"), (file_of({"__metadata__": {"a": 1}}), "metadata `a`")])
def test_hostile_files(tmp_path, contents, says):
  path = tmp_path / "bad"
  path.write_bytes(contents)
  with pytest.raises(ValueError, match=says) as e: safe_load(path)
  assert str(path) in str(e.value)
  with pytest.raises(ValueError, match=says): safe_load_metadata(path)
  with pytest.raises(ValueError, match=says): safe_load(Tensor(np.frombuffer(contents, np.uint8)))


def test_files_that_are_none(tmp_path):
  with pytest.raises(FileNotFoundError): safe_load(tmp_path / "none")
  with pytest.raises(ValueError, match="no regular file"): safe_load(tmp_path)
  with pytest.raises(ValueError, match="uint8"): safe_load(Tensor([1.0]))
  with pytest.raises(TypeError, match="metadata"): safe_save({}, tmp_path / "x", {"a": 1})
  with pytest.raises(LookupError): safe_save({}, tmp_path / "no" / "where")
  assert os.listdir(tmp_path) == []


def test_a_killed_save_leaves_the_old_file(tmp_path):
  path = tmp_path / "model"
  safe_save({"w": Tensor([1.0, 2.0])}, path)
  before = path.read_bytes()
  code = f"""
import os, signal
from uopd import Tensor, _core
from uopd.nn.state import safe_save
Tensor([1]).numpy()
class Killer:
  def __init__(self, inner): self.inner, self.order = inner, inner.order
  def write(self, contents): self.inner.write(contents)
  def commit(self): os.kill(os.getpid(), signal.SIGKILL)
create = _core.safetensors_create
_core.safetensors_create = lambda *a: Killer(create(*a))
safe_save({{"w": Tensor([3.0, 4.0])}}, {str(path)!r})
"""
  r = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
  assert r.returncode == -9, r.stderr
  assert path.read_bytes() == before and safe_load(path)["w"].tolist() == [1.0, 2.0]
