# SPDX-License-Identifier: MIT
"""Tensors that are computed by a uopd daemon.

>>> from uopd import Tensor
>>> (Tensor([1.0, 2.0, 3.0]) * 2).tolist()
[2.0, 4.0, 6.0]
"""
from . import errors
from .dtype import DType, dtypes
from .errors import Error
from .runtime import Context, Device, client, close, connect, stats, sync
from .tensor import Tensor
from .function import function
from .helpers import GlobalCounters, fetch, getenv
from .jit import TinyJit
from .variable import UOp, Variable
from . import helpers, llm, nn, onnx, tuning

__version__ = "0.1.0"
__all__ = ["Tensor", "TinyJit", "dtypes", "DType", "Device", "Variable", "Context", "connect", "client", "close", "sync", "stats", "Error",
           "errors", "nn", "tuning", "helpers", "llm", "onnx", "function", "GlobalCounters", "fetch", "getenv", "UOp"]
