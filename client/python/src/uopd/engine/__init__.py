# SPDX-License-Identifier: MIT
"""Where programs of tinygrad import TinyJit from: engine.jit."""
