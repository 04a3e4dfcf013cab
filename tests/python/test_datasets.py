# SPDX-License-Identifier: MIT
"""Data sets: what Debian's package installs, folders of one's own, and what is said when they are missing."""
import gzip
import io
import struct
import tarfile

import numpy as np
import pytest
from uopd import dtypes
from uopd.nn import datasets


def idx(array): return struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def test_fashion_mnist_of_debian():
  parts = datasets.mnist(fashion=True)
  assert [p.shape for p in parts] == [(60000, 1, 28, 28), (60000,), (10000, 1, 28, 28), (10000,)]
  assert all(p.dtype is dtypes.uint8 for p in parts)
  with gzip.open("/usr/share/datasets/fashion-mnist/t10k-labels-idx1-ubyte.gz") as f: labels = np.frombuffer(f.read(), np.uint8, offset=8)
  with gzip.open("/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz") as f: images = np.frombuffer(f.read(), np.uint8, offset=16)
  np.testing.assert_array_equal(parts[3].numpy(), labels)
  np.testing.assert_array_equal(parts[2].numpy().reshape(-1), images)


def test_mnist_in_a_folder(tmp_path, monkeypatch):
  rng = np.random.default_rng(1)
  arrays = {}
  (tmp_path / "mnist").mkdir()
  for prefix, n in (("train", 5), ("t10k", 3)):
    for kind, shape in (("images-idx3", (n, 28, 28)), ("labels-idx1", (n,))):
      arrays[f"{prefix}-{kind}"] = a = rng.integers(0, 256, shape, np.uint8)
      (tmp_path / "mnist" / f"{prefix}-{kind}-ubyte").write_bytes(idx(a))
  monkeypatch.setenv("UOPD_DATASETS", str(tmp_path))
  for parts in (datasets.mnist(), datasets.mnist(folder=tmp_path / "mnist"), datasets.mnist(fashion=True, folder=tmp_path / "mnist")):
    for part, a in zip(parts, arrays.values()): np.testing.assert_array_equal(part.numpy().reshape(a.shape), a)
    assert parts[0].shape == (5, 1, 28, 28)
  (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01\0\0\0\x09abc")
  with pytest.raises(ValueError, match="t10k-labels"): datasets.mnist()
  (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").unlink()
  with pytest.raises(LookupError, match="t10k-labels"): datasets.mnist()


def test_missing_data_sets_say_what_to_install(tmp_path, monkeypatch):
  monkeypatch.setenv("UOPD_DATASETS", str(tmp_path))
  with pytest.raises(FileNotFoundError, match="dataset-fashion-mnist"): datasets.mnist(fashion=True)
  with pytest.raises(FileNotFoundError, match="UOPD_DATASETS"): datasets.mnist()
  with pytest.raises(FileNotFoundError, match="cifar-10-binary.tar.gz"): datasets.cifar()


def test_cifar(tmp_path):
  rng = np.random.default_rng(2)
  records = {name: rng.integers(0, 256, (2, 3073), np.uint8) for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]}
  (tmp_path / "plain").mkdir()
  (tmp_path / "packed").mkdir()
  for name, r in records.items(): (tmp_path / "plain" / name).write_bytes(r.tobytes())
  with tarfile.open(tmp_path / "packed" / "cifar-10-binary.tar.gz", "w:gz") as tar:
    for name, r in records.items():
      info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
      info.size = r.size
      tar.addfile(info, io.BytesIO(r.tobytes()))
  train = np.concatenate([records[f"data_batch_{i}.bin"] for i in range(1, 6)])
  for folder in ("plain", "packed"):
    x, y, x_test, y_test = datasets.cifar(folder=tmp_path / folder)
    np.testing.assert_array_equal(x.numpy(), train[:, 1:].reshape(-1, 3, 32, 32))
    np.testing.assert_array_equal(y.numpy(), train[:, 0])
    np.testing.assert_array_equal(x_test.numpy().reshape(2, -1), records["test_batch.bin"][:, 1:])
    np.testing.assert_array_equal(y_test.numpy(), records["test_batch.bin"][:, 0])
  (tmp_path / "plain" / "test_batch.bin").write_bytes(b"short")
  with pytest.raises(ValueError, match="test_batch.bin .* 5 bytes"): datasets.cifar(folder=tmp_path / "plain")
