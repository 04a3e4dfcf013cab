# SPDX-License-Identifier: MIT
"""Exceptions. Each status code of the daemon has one class; each class is also the builtin that fits it."""
from . import _core


class Error(RuntimeError):
  """What the daemon or the client library refused. `code` is the name of the status code (docs/errors.md)."""
  code = "UNKNOWN"


class WrongArgument(ValueError, AssertionError, RuntimeError):
  """What a method refuses by itself. It is raised at its line, of which an Error tells by its text. Tinygrad asserts much of it."""
  code = "INVALID_ARGUMENT"


class WrongNumber(WrongArgument, OverflowError):
  """A number that the element type does not have."""


class InvalidArgument(Error, ValueError, AssertionError): code = "INVALID_ARGUMENT"
class InvalidIndex(InvalidArgument, IndexError):
  """What x[...] refuses: NumPy raises an IndexError."""


class OutOfRange(Error, IndexError): code = "OUT_OF_RANGE"
class ResourceExhausted(Error, MemoryError): code = "RESOURCE_EXHAUSTED"
class DeadlineExceeded(Error, TimeoutError): code = "DEADLINE_EXCEEDED"
class Unavailable(Error, ConnectionError): code = "UNAVAILABLE"
class Unauthenticated(Error, PermissionError): code = "UNAUTHENTICATED"
class PermissionDenied(Error, PermissionError): code = "PERMISSION_DENIED"
class Unimplemented(Error, NotImplementedError): code = "UNIMPLEMENTED"
class NotFound(Error, LookupError): code = "NOT_FOUND"
class FailedPrecondition(Error): code = "FAILED_PRECONDITION"
class JitError(FailedPrecondition, InvalidArgument):
  """What TinyJit refuses: a function that a replay would compute wrongly, or arguments that do not fit the recorded ones."""
class WrongJitType(JitError, TypeError): pass
class Cancelled(Error): code = "CANCELLED"
class Aborted(Error): code = "ABORTED"
class Internal(Error): code = "INTERNAL"
class DataLoss(Error): code = "DATA_LOSS"
class AlreadyExists(Error): code = "ALREADY_EXISTS"


_CODES = {1: Cancelled, 2: Error, 3: InvalidArgument, 4: DeadlineExceeded, 5: NotFound, 6: AlreadyExists, 7: PermissionDenied,
          8: ResourceExhausted, 9: FailedPrecondition, 10: Aborted, 11: OutOfRange, 12: Unimplemented, 13: Internal,
          14: Unavailable, 15: DataLoss, 16: Unauthenticated}
for _code, _class in _CODES.items(): _core.set_error_class(_code, _class)
_core.set_jit_error_class(JitError)
