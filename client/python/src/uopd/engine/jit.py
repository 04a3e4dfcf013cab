# SPDX-License-Identifier: MIT
"""Where programs of tinygrad import TinyJit from."""
from ..jit import TinyJit as TinyJit
