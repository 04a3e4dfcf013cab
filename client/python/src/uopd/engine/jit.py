# SPDX-License-Identifier: MIT
"""Where programs of tinygrad import TinyJit and JitError from."""
from ..jit import JitError as JitError, TinyJit as TinyJit
