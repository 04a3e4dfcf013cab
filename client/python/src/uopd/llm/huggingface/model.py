# SPDX-License-Identifier: MIT
"""The model of a folder."""
from __future__ import annotations

from typing import Any

from ..model import Model
from .config import description_of
from .folder import Folder
from .weights import weights_of


def model_from_folder(folder: Folder, max_context: int = 4096, device: Any = None) -> Model:
  """The model of a folder. Every tensor is sent to the daemon once, with the dtype that it has in the file; Gemma's norms are float32.

  A file or a field that is missing, breaks a rule, or is not known here is a ValueError that names it, or an OSError.
  """
  description = description_of(folder.json("config.json"))
  return Model(description.config, weights_of(folder.tensors(), description, device), max_context)
