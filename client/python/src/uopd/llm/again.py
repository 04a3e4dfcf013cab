# SPDX-License-Identifier: MIT
"""Loading a model once more, where a daemon was restarted and has lost it."""
from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TypeVar

from .. import runtime
from ..errors import Error

T = TypeVar("T")


def loaded_again(load: Callable[[], T]) -> T:
  """What `load` gives. Calls that did not wait have errors that the next calls would raise; they are about the daemon that is no more, and are dropped."""
  with contextlib.suppress(Error): runtime.sync()
  return load()
