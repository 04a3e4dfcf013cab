# SPDX-License-Identifier: MIT
"""Data sets that are on this machine; nothing is downloaded.

They are looked for in the folder UOPD_DATASETS, else in /usr/share/datasets, where Debian's packages put theirs.
"""
from __future__ import annotations

import os
import pathlib
from typing import Any

from .. import _core
from ..base import wrap
from ..runtime import client
from ..tensor import Tensor

_RECORD = 1 + 3 * 32 * 32  # bytes of one example of CIFAR: the label, then the channels


def _folder(folder: str | os.PathLike[str] | None, name: str, how: str) -> pathlib.Path:
  found = pathlib.Path(folder) if folder is not None else pathlib.Path(os.environ.get("UOPD_DATASETS") or "/usr/share/datasets") / name
  if not found.is_dir():
    raise FileNotFoundError(f"there is no folder {found} with the data set {name}: {how}, or name another folder by `folder`, "
                            f"or one that has {name} in it by UOPD_DATASETS")
  return found


def mnist(device: Any = None, fashion: bool = False, folder: str | os.PathLike[str] | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
  """MNIST or Fashion-MNIST: images (n, 1, 28, 28) and labels (n) to train with, then those to test with, as uint8.

  folder: where the files train-images-idx3-ubyte and so on are, with or without .gz.
  """
  if fashion: where = _folder(folder, "fashion-mnist", "install Debian's package dataset-fashion-mnist")
  else: where = _folder(folder, "mnist", "download the four files train-images-idx3-ubyte.gz and so on")
  parts: list[Tensor] = []
  for prefix in ("train", "t10k"):
    images, labels = (wrap(h) for h in _core.load_examples(client(), str(where), prefix))
    parts += [images.reshape(images.shape[0], 1, *images.shape[1:]).to(device), labels.to(device)]
  return parts[0], parts[1], parts[2], parts[3]


def cifar(device: Any = None, folder: str | os.PathLike[str] | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
  """CIFAR-10: images (n, 3, 32, 32) and labels (n) to train with, then those to test with, as uint8.

  folder: where the files of the binary version are, data_batch_1.bin and so on, or the archive cifar-10-binary.tar.gz.
  """
  where = _folder(folder, "cifar-10-batches-bin", "unpack cifar-10-binary.tar.gz")
  archive = where / "cifar-10-binary.tar.gz"

  def examples(names: list[str]) -> Tensor:
    contents = bytearray()
    if archive.is_file():
      import tarfile  # here, since it makes `import uopd` some milliseconds longer
      with tarfile.open(archive) as tar:
        for name in names:
          member = tar.extractfile(f"cifar-10-batches-bin/{name}")
          if member is None: raise ValueError(f"{archive} has no file cifar-10-batches-bin/{name}")
          contents += member.read()
    else:
      for name in names: contents += (where / name).read_bytes()
    if not contents or len(contents) % _RECORD: raise ValueError(f"{', '.join(names)} in {where} have {len(contents)} bytes, not {_RECORD} an example")
    return Tensor(bytes(contents)).reshape(-1, _RECORD).to(device)
  train, test = examples([f"data_batch_{i}.bin" for i in range(1, 6)]), examples(["test_batch.bin"])
  return train[:, 1:].reshape(-1, 3, 32, 32), train[:, 0], test[:, 1:].reshape(-1, 3, 32, 32), test[:, 0]
