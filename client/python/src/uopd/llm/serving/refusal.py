# SPDX-License-Identifier: MIT
"""Errors of the OpenAI protocol."""
from __future__ import annotations

from typing import Any

_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error", 500: "server_error", 503: "server_error"}


class Refusal(Exception):
  """A request that is not answered. status: of HTTP; param: the field that is at fault; code: a word for programs, where the protocol has one."""
  def __init__(self, status: int, message: str, param: str | None = None, code: str | None = None) -> None:
    super().__init__(message)
    self.status, self.param, self.code = status, param, code

  def body(self) -> dict[str, Any]:
    return {"error": {"message": str(self), "type": _TYPES.get(self.status, "invalid_request_error"), "param": self.param, "code": self.code}}
