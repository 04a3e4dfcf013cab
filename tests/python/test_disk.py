# SPDX-License-Identifier: MIT
"""Tensors on disks: what is read when, what is written, and that the contents are those of the file."""
import os
import pathlib
import threading

import numpy as np
import pytest
import uopd
from uopd import Tensor, dtypes, nn
from uopd.disk import DiskTensor, FileRange
from uopd.nn.state import safe_load, safe_save


@pytest.fixture
def reads(monkeypatch):
  """The byte ranges that are read."""
  seen, read = [], FileRange.read
  monkeypatch.setattr(FileRange, "read", lambda self: (seen.append((self.offset, self.nbytes)), read(self))[1])
  return seen


def write(path, array):
  path.write_bytes(array.tobytes())
  return path


def test_nothing_is_read_before_it_is_used(tmp_path, reads):
  a = np.arange(60, dtype=np.float32)
  t = Tensor(write(tmp_path / "x", a))
  assert (t.shape, t.dtype, t.device, t.ndim, t.numel(), t.nbytes(), len(t)) == ((240,), dtypes.uint8, f"DISK:{tmp_path / 'x'}", 1, 240, 240, 240)
  x = t.bitcast("float32").reshape(-1, 5)
  part = x[2:4][1]
  assert x.shape == (12, 5) and part.shape == (5,) and x[3:3].shape == (0, 5) and x.flatten().shape == (60,) and x.reshape(3, 4, 5).flatten(1).shape == (3, 20)
  assert x.shrink(((1, 3), None)).shape == (2, 5) and x.view(60).bitcast("int8").shape == (240,) and isinstance(x.shrink(((1, 3), None)), DiskTensor)
  assert "DISK" in repr(x) and isinstance(x.realize(), DiskTensor) and reads == []
  assert part.tolist() == a[15:20].tolist() and reads == [(60, 20)]  # from the file, without the daemon
  assert (part * 2).tolist() == (a[15:20] * 2).tolist() and reads[1:] == [(60, 20)]
  assert (part + 1).sum().item() == a[15:20].sum() + 5 and len(reads) == 2  # it was sent already
  assert x[1:3, 2:4].tolist() == a.reshape(12, 5)[1:3, 2:4].tolist() and reads[2:] == [(20, 40)]
  assert x[0, 1].item() == 1 and x[-1].tolist() == a[-5:].tolist() and x[::2].shape == (6, 5) and x[[1, 0]].tolist() == a.reshape(12, 5)[[1, 0]].tolist()
  with pytest.raises(IndexError): x[12]
  with pytest.raises(ValueError): t.reshape(7, 7)
  with pytest.raises(ValueError): t[:7].bitcast("float32")


def test_moved_to_the_daemon(tmp_path, reads):
  a = np.arange(12, dtype=np.int32)
  path = write(tmp_path / "x", a)
  t = Tensor(path, dtype="int32").to(None)
  assert t.device == uopd.Device.DEFAULT and t.shape == (12,) and reads == []
  part = t[3:5]
  assert reads == [] and (part + t[0:2]).tolist() == [3, 5] and reads == [(12, 8), (0, 8)] and type(part) is Tensor
  assert Tensor(path, device=uopd.Device.DEFAULT, dtype="int32").realize().tolist() == a.tolist() and Tensor(path).to(uopd.Device.DEFAULT.lower()).shape == (48,)
  moved = Tensor(path).to_(uopd.Device.DEFAULT).realize()
  path.write_bytes(b"x")
  assert type(moved) is Tensor and moved.numpy().tobytes() == a.tobytes()
  with pytest.raises(ValueError, match="ends at byte 1"): t[3:5].numpy()


@pytest.mark.parametrize("dtype", [d.name for d in dtypes.all])
def test_every_dtype(tmp_path, dtype):
  x = Tensor([[0, 1, 1], [1, 0, 1]]).cast(dtype)
  t = x.to(f"disk:{tmp_path / 'x'}")
  assert isinstance(t, DiskTensor) and (tmp_path / "x").stat().st_size == x.nbytes()
  assert t.dtype is x.dtype and t.tolist() == x.tolist() == (t * 1).tolist() == t.to(uopd.Device.DEFAULT).tolist() and t[1].tolist() == x[1].tolist()


def test_writing(tmp_path):
  device = f"disk:{tmp_path / 'x'}"
  t = Tensor.empty(8, 4, dtype="float32", device=device)
  assert (tmp_path / "x").stat().st_size == 128 and t.tolist() == np.zeros((8, 4)).tolist() and t.device == "DISK:" + str(tmp_path / "x")
  t[2:4].assign(Tensor([[1.0, 2, 3, 4], [5, 6, 7, 8]]))
  t[0] = 7.0
  t[7].assign([1, 2, 3, 4])
  want = np.zeros((8, 4))
  want[2:4], want[0], want[7] = [[1, 2, 3, 4], [5, 6, 7, 8]], 7, [1, 2, 3, 4]
  assert t.tolist() == want.tolist() and np.frombuffer((tmp_path / "x").read_bytes(), "f4").reshape(8, 4).tolist() == want.tolist()
  for i in range(5):  # each read after a write sees it, however soon it comes
    t[1].assign(Tensor.full((4,), float(i)))
    assert (t[1] * 1).tolist() == [i] * 4 and (t.sum(1) * 1).tolist()[1] == 4 * i
  again = Tensor.empty(8, 4, dtype="float32", device=device)  # what is there stays
  assert again[0].tolist() == [7] * 4
  t.bitcast("int32")[5].assign(Tensor([1, 2, 3, 4]))
  assert t.bitcast("int32")[5].tolist() == [1, 2, 3, 4]
  t.assign(t * 2)
  assert t[0].tolist() == [14] * 4
  with pytest.raises(RuntimeError, match="cannot take"): t[0].assign(Tensor([1, 2, 3, 4]))
  with pytest.raises(ValueError): t[0].assign(Tensor([1.0, 2.0]))
  with pytest.raises(RuntimeError, match="slices"): t[0, ::2] = 1
  assert Tensor([1.0, 2.0], device=f"disk:{tmp_path / 'y'}").bitcast("uint8").shape == (8,) and (tmp_path / "y").stat().st_size == 8
  with pytest.raises(OSError): Tensor.empty(3, device=f"disk:{tmp_path / 'no' / 'where'}")


def test_a_file_that_is_replaced_keeps_its_tensors(tmp_path):
  path = tmp_path / "m"
  safe_save({"a": Tensor([1.0, 2.0]), "b": Tensor([[3.0]])}, path)
  old = safe_load(path)
  safe_save({"b": Tensor([[5.0]]), "a": Tensor([7.0, 8.0])}, path)
  assert old["a"].tolist() == [1, 2] and (old["b"] + 0).tolist() == [[3]] and safe_load(path)["a"].tolist() == [7, 8]
  with pytest.raises(ValueError, match="another file"): old["a"].assign(Tensor([0.0, 0.0]))
  os.unlink(path)
  assert old["a"].tolist() == [1, 2]


def test_states_are_read_tensor_by_tensor(tmp_path, reads):
  path = tmp_path / "m"
  safe_save({f"w{i}": Tensor.full((100,), float(i)) for i in range(20)} | {"none": Tensor.zeros(0, 2), "half": Tensor([1.5]).half()}, path)
  state = safe_load(path)
  assert reads == [] and state["w3"].shape == (100,) and state["none"].shape == (0, 2)
  assert state["w3"].sum().item() == 300 and [n for _, n in reads] == [400]
  assert safe_load(Tensor(path))["w5"].numpy()[0] == 5 and [n for _, n in reads] == [400, 400] and state["none"].tolist() == []
  model = nn.Linear(2, 2)
  safe_save(nn.state.get_state_dict(model), path)
  want, before = model.weight.numpy(), len(reads)
  other = nn.Linear(2, 2)
  nn.state.load_state_dict(other, safe_load(path))
  assert len(reads) == before + 2 and other.weight.numpy().tolist() == want.tolist() and type(other.weight) is Tensor
  loaded = safe_load(path)
  other.weight.replace(loaded["weight"])
  assert (other.weight + 0).tolist() == want.tolist()
  loaded["bias"].replace(Tensor([1.0, 2.0]))
  assert type(loaded["bias"]) is Tensor and loaded["bias"].tolist() == [1, 2]


def test_no_files(tmp_path):
  with pytest.raises(FileNotFoundError): Tensor(tmp_path / "none")
  with pytest.raises(ValueError, match="no regular file"): Tensor(tmp_path)
  os.mkfifo(tmp_path / "pipe")
  with pytest.raises(ValueError, match="no regular file"): Tensor(tmp_path / "pipe")
  (tmp_path / "empty").write_bytes(b"")
  assert Tensor(tmp_path / "empty").shape == (0,) and Tensor(tmp_path / "empty").tolist() == [] and (Tensor(tmp_path / "empty") + 1).shape == (0,)
  assert Tensor(write(tmp_path / "x", np.arange(5, dtype=np.uint8)), dtype="int32").shape == (1,)


def test_gradients_pickles_and_threads(tmp_path):
  import pickle
  x = Tensor(write(tmp_path / "x", np.array([1.0, 2.0, 3.0], np.float32)), dtype="float32")
  (x * x).sum().backward()
  assert x.to(uopd.Device.DEFAULT).tolist() == [1, 2, 3] and pickle.loads(pickle.dumps(x)).tolist() == [1, 2, 3]
  moved = x.to(uopd.Device.DEFAULT)
  (moved * moved).sum().backward()
  assert moved.grad.tolist() == [2, 4, 6]
  shared, out = x.to(uopd.Device.DEFAULT), []
  threads = [threading.Thread(target=lambda: out.append((shared + 1).tolist())) for _ in range(4)]
  for t in threads: t.start()
  for t in threads: t.join()
  assert out == [[2, 3, 4]] * 4


def test_files_stay_open_only_while_they_are_needed(tmp_path):
  fds = lambda: len(os.listdir("/proc/self/fd"))  # noqa: E731
  path = write(tmp_path / "x", np.arange(4, dtype=np.float32))
  (Tensor(path).bitcast("float32") + 1).tolist()
  before = fds()
  for _ in range(50): Tensor(path)[4:8].bitcast("float32").tolist()
  kept = [Tensor(path, dtype="float32").to(uopd.Device.DEFAULT).realize() for _ in range(20)]
  assert fds() <= before + 1 and kept[3].tolist() == [0, 1, 2, 3]
  assert pathlib.Path(path).exists()
