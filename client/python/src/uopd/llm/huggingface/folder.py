# SPDX-License-Identifier: MIT
"""Folders of models: their files by name, JSON with bounds, and the tensors of one or several safetensors files. Nothing in a folder is trusted."""
from __future__ import annotations

import json
import os
import pathlib
import re
import stat
from typing import Any

from ...tensor import Tensor
from .fields import Fields, shown

MOST_SMALL = 1 << 20   # bytes of a file of settings
MOST_LARGE = 1 << 26   # bytes of tokenizer.json and of an index; those of large models have 2^25
MOST_SHARDS = 500      # each of them stays open
_SETTINGS = "tokenizer_config.json"
_WHOLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_SHARD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,240}\.safetensors")


def _constant(text: str) -> Any: raise ValueError(f"{text} is no number of JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  out = dict(pairs)
  if len(out) < len(pairs):
    seen = set[str]()
    for key, _ in pairs:
      if key in seen: raise ValueError(f"the key {shown(key)} is there twice")
      seen.add(key)
  return out


class Folder:
  """A folder in the layout of the Hugging Face Hub, or a snapshot in the Hub's cache.

  Files are read from the folder alone. A link may lead to a file below the folder, and from a snapshot of the cache to the cache's folder `blobs`.
  """
  def __init__(self, path: str | os.PathLike[str]) -> None:
    self.path = pathlib.Path(path)
    if not stat.S_ISDIR(os.stat(self.path).st_mode): raise NotADirectoryError(f"{self.path} is no folder")
    real = self.path.resolve()
    self._roots = [real]
    if real.parent.name == "snapshots": self._roots.append(real.parent.parent / "blobs")

  def has(self, name: str) -> bool:
    """Whether there is something of this name, be it a file that can be read or not."""
    return os.path.lexists(self.path / name)

  def file(self, name: str) -> pathlib.Path:
    """The path of a file. ValueError if it is no regular file or lies elsewhere, OSError if there is none."""
    path = self.path / name
    try: real = path.resolve(strict=True)
    except RuntimeError: raise ValueError(f"{path} is a link that leads to itself") from None
    if not any(real.is_relative_to(root) for root in self._roots): raise ValueError(f"{path} is a link that leads out of its folder, to {real}")
    if not stat.S_ISREG(os.stat(real).st_mode): raise ValueError(f"{path} is no regular file")
    return real

  def read(self, name: str, most: int) -> str:
    """The text of a file of at most `most` bytes."""
    with open(self.file(name), "rb") as f: raw = f.read(min(most, os.fstat(f.fileno()).st_size) + 1)  # read() takes memory for all that it may read
    if len(raw) > most: raise ValueError(f"{name} has more than {most} bytes")
    try: return raw.decode()
    except UnicodeDecodeError as e: raise ValueError(f"{name} is no UTF-8 at byte {e.start}") from None

  def json(self, name: str, most: int = MOST_SMALL) -> Fields:
    """The JSON object in a file of at most `most` bytes."""
    text = self.read(name, most)
    try: return Fields(json.loads(text, object_pairs_hook=_object, parse_constant=_constant), name)
    except RecursionError: raise ValueError(f"{name} is nested too deeply") from None
    except ValueError as e: raise e if str(e).startswith(name) else ValueError(f"{name}: {str(e)[:300]}") from None

  def settings(self) -> Fields | None:
    """What tokenizer_config.json has, or None without one. With thousands of added tokens it is larger than other files of settings."""
    return self.json(_SETTINGS, MOST_LARGE) if self.has(_SETTINGS) else None

  def _shards(self) -> dict[str, set[str]]:
    """The files of a model in several ones, with the names of the tensors that the index has for each."""
    index = self.json(_INDEX, MOST_LARGE)
    shards: dict[str, set[str]] = {}
    for tensor, shard in index.object("weight_map").values.items():
      if type(shard) is not str or not _SHARD.fullmatch(shard):
        raise ValueError(f"{_INDEX} has the tensor {shown(tensor)} in the file {shown(shard)}; only a name of a safetensors file in the same folder is possible")
      shards.setdefault(shard, set()).add(tensor)
      if len(shards) > MOST_SHARDS: raise ValueError(f"{_INDEX} names more than {MOST_SHARDS} files")
    return shards

  def tensors(self) -> dict[str, Tensor]:
    """The tensors of all safetensors files by name. They are read when they are used. A file that breaks a rule of the format is an error that names the tensor."""
    from ...nn.state import safe_load  # only now: nn.state imports this package
    if self.has(_WHOLE): return safe_load(self.file(_WHOLE))
    if not self.has(_INDEX): raise ValueError(f"{self.path} has neither {_WHOLE} nor {_INDEX}")
    out: dict[str, Tensor] = {}
    for shard, names in sorted(self._shards().items()):
      there = safe_load(self.file(shard))
      if lacking := names - there.keys(): raise ValueError(f"{shard} has no tensor `{min(lacking)}`, which {_INDEX} has there")
      if others := there.keys() - names: raise ValueError(f"{shard} has the tensor `{min(others)}`, which {_INDEX} does not have there")
      out |= there
    return out
