# SPDX-License-Identifier: MIT
"""The HTTP side of the server: Python's own, with bounds on what a client can cost, and checks that a page of another site is not the client."""
from __future__ import annotations

import base64
import email.errors
import hashlib
import hmac
import http.client
import http.server
import io
import ipaddress
import json
import pathlib
import re
import select
import socket
import socketserver
import sys
import threading
import time
import traceback
import urllib.parse
from collections.abc import Iterator
from typing import Any

from .asked import json_of
from .endpoints import Endpoints
from .refusal import Refusal

MOST_HEAD = 1 << 17       # bytes of the first line and the headers of a request
MOST_BODY = 1 << 20       # bytes of what follows them
MOST_CONNECTIONS = 128
SECONDS_FOR_REQUEST = 30.0  # for a client to send one, from its first wait on
SECONDS_FOR_WRITE = 30.0    # for a client to take what one call writes

# What the parser of headers finds in lines that are none. It does not look for headers behind such a line.
_NO_HEADERS = (email.errors.MissingHeaderBodySeparatorDefect, email.errors.FirstHeaderLineIsContinuationDefect, email.errors.MisplacedEnvelopeHeaderDefect, email.errors.InvalidHeaderDefect)
_PAGE = pathlib.Path(__file__).with_name("page.html").read_bytes()


def _hash_of(tag: str) -> str:
  found = re.search(f"<{tag}>(.*?)</{tag}>", _PAGE.decode(), re.DOTALL)
  assert found is not None
  return "'sha256-" + base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode() + "'"


_POLICY = f"default-src 'none'; script-src {_hash_of('script')}; style-src {_hash_of('style')}; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def is_loopback(host: str) -> bool:
  """Whether a name or an address leads to this machine alone."""
  return all(ipaddress.ip_address(str(a[4][0]).partition("%")[0]).is_loopback for a in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))


def check_reach(host: str, keys: list[bytes]) -> None:
  """ValueError without keys for a host that other machines reach."""
  if not keys and not is_loopback(host): raise ValueError(f"{host} can be reached from other machines: --api-key-file is needed")


def keys_in(path: str) -> list[bytes]:
  """The API keys of a file, one a line. ValueError if there is none, or one that is too short to be a secret."""
  keys = [line.strip().encode() for line in pathlib.Path(path).read_text().splitlines() if line.strip()]
  if not keys: raise ValueError(f"{path} has no API key")
  if any(len(k) < 16 for k in keys): raise ValueError(f"{path} has an API key of less than 16 characters")
  return keys


class _Limited(io.RawIOBase):
  """Reads from a socket until a moment, and no more than `left` bytes, whatever for. http.client.HTTPException: there are more."""
  def __init__(self, connection: socket.socket) -> None: self._connection, self.until, self.left = connection, 0.0, 0
  def readable(self) -> bool: return True
  def readinto(self, buffer: Any) -> int:
    left = self.until - time.monotonic()
    if left <= 0: raise TimeoutError
    if self.left <= 0: raise http.client.HTTPException(f"The headers of the request have more than {MOST_HEAD} bytes")
    self._connection.settimeout(left)
    n = self._connection.recv_into(buffer, min(len(buffer), self.left))
    self.left -= n
    return n


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
  """Answers requests on an address, each connection with a thread."""
  daemon_threads = True
  allow_reuse_address = True
  request_queue_size = MOST_CONNECTIONS

  def __init__(self, host: str, port: int, endpoints: Endpoints, keys: list[bytes]) -> None:
    """keys: one of them comes with each request; empty: none is asked for. ValueError without keys for an address that other machines reach. OSError for one that cannot be had."""
    check_reach(host, keys)
    self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
    self.endpoints, self._keys, self.is_local = endpoints, [hashlib.sha256(k).digest() for k in keys], is_loopback(host)
    self._free = threading.Semaphore(MOST_CONNECTIONS)
    super().__init__((host, port), _Handler)

  @property
  def url(self) -> str:
    host, port = self.server_address[:2]
    return f"http://[{str(host)}]:{port}" if self.address_family == socket.AF_INET6 else f"http://{str(host)}:{port}"

  def server_bind(self) -> None: socketserver.TCPServer.server_bind(self)  # HTTPServer's asks the name service for a name

  def is_key(self, given: str | None) -> bool:
    if not self._keys: return True
    kind, _, key = (given or "").partition(" ")
    digest = hashlib.sha256(key.strip().encode("utf-8", "surrogateescape")).digest()
    found = [hmac.compare_digest(digest, k) for k in self._keys]  # all of them, whichever it is
    return kind.lower() == "bearer" and any(found)

  def process_request(self, request: Any, client_address: Any) -> None:
    if not self._free.acquire(blocking=False):
      request.settimeout(0)
      try: request.send(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
      except OSError: pass
      self.shutdown_request(request)
      return
    try: super().process_request(request, client_address)
    except BaseException:
      self._free.release()
      raise

  def process_request_thread(self, request: Any, client_address: Any) -> None:
    try: super().process_request_thread(request, client_address)
    finally: self._free.release()

  def handle_error(self, request: Any, client_address: Any) -> None:
    """Errors of a connection that has broken say nothing about the server."""
    if not isinstance(sys.exc_info()[1], OSError): super().handle_error(request, client_address)


class _Handler(http.server.BaseHTTPRequestHandler):
  protocol_version = "HTTP/1.1"
  server_version, sys_version = "uopd", ""
  server: Server

  def setup(self) -> None:
    super().setup()
    self.rfile.close()
    self._limited = _Limited(self.connection)
    self.rfile: Any = io.BufferedReader(self._limited)
    self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

  def handle_one_request(self) -> None:
    self._unread = 0  # bytes of the body that may be under way
    self._has_begun = False  # whether a part of the answer has been sent
    self._limited.until, self._limited.left = time.monotonic() + SECONDS_FOR_REQUEST, MOST_HEAD
    super().handle_one_request()

  def log_message(self, format: str, *args: Any) -> None: pass

  def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
    """What http.server itself finds wrong with a request."""
    self.close_connection = True
    if code == 431: self._unread = 8 * MOST_BODY
    self._refuse(Refusal(code, (explain if code == 431 else message) or "The request is no HTTP request that is known here"))
    self._drain()

  def do_GET(self) -> None: self._guarded(self._get)
  def do_POST(self) -> None: self._guarded(self._post)

  def _guarded(self, work: Any) -> None:
    try: work()
    except Refusal as e:
      self._refuse(e)
      self._drain()
    except OSError: raise  # the connection
    except Exception:
      traceback.print_exc()
      self.close_connection = True
      if not self._has_begun: self._refuse(Refusal(500, "The server has failed; its output says how"))

  def _drain(self) -> None:
    """Takes what was not read: else the system would reset the connection, and the client might not see the answer."""
    if self._unread == 0: return
    self.connection.shutdown(socket.SHUT_WR)
    self._limited.left += self._unread
    while self._unread > 0 and (part := self.rfile.read1(min(self._unread, 1 << 16))): self._unread -= len(part)
    self._unread = 0

  def _refuse(self, refusal: Refusal) -> None:
    more = {"Retry-After": "1"} if refusal.status == 429 else {"WWW-Authenticate": "Bearer"} if refusal.status == 401 else {}
    self._send(refusal.status, json.dumps(refusal.body()).encode(), more)

  def _send(self, status: int, body: bytes, more: dict[str, str] | None = None, kind: str = "application/json") -> None:
    self.connection.settimeout(SECONDS_FOR_WRITE)
    self._has_begun = True
    self.send_response(status)
    for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), "X-Content-Type-Options": "nosniff", **(more or {})}.items(): self.send_header(name, value)
    if self.close_connection: self.send_header("Connection", "close")
    self.end_headers()
    self.wfile.write(body)

  def _check(self, needs_key: bool = True) -> str:
    """Gives the path of a request that may go on. A page of another site may send requests here, or let its own name lead here: then Origin or Host says so."""
    if any(isinstance(d, _NO_HEADERS) for d in self.headers.defects):
      self.close_connection = True  # the length of its body may not be known
      raise Refusal(400, "The request has a line that is no header")
    hosts, origin = self.headers.get_all("Host", []), self.headers.get("Origin")
    if len(hosts) != 1: raise Refusal(400, "The request has no Host, or several")
    if self.server.is_local and not _is_this_machine(hosts[0]): raise Refusal(403, "The Host of the request is not this machine")
    if origin is not None and origin != f"http://{hosts[0]}": raise Refusal(403, "The request comes from a page of another site")
    if needs_key and not self.server.is_key(self.headers.get("Authorization")): raise Refusal(401, "The API key is missing or wrong", code="invalid_api_key")
    return self._path()

  def _path(self) -> str:
    try: return urllib.parse.urlsplit(self.path).path
    except ValueError: raise Refusal(400, "The request has no path that can be read") from None

  def _get(self) -> None:
    if self.headers.get("Content-Length") not in (None, "0") or self.headers.get("Transfer-Encoding") is not None: self.close_connection = True  # the body is not read
    path = self._check(needs_key=self._path() != "/")
    if path == "/": self._send(200, _PAGE, {"Content-Security-Policy": _POLICY, "Referrer-Policy": "no-referrer"}, "text/html; charset=utf-8")
    elif path == "/v1/models": self._send(200, json.dumps(self.server.endpoints.models()).encode())
    elif path.startswith("/v1/models/"): self._send(200, json.dumps(self.server.endpoints.model(urllib.parse.unquote(path[len("/v1/models/"):]))).encode())
    elif path in ("/v1/completions", "/v1/chat/completions"): raise Refusal(405, f"{path} is for POST")
    else: raise Refusal(404, f"There is no {path[:200]}")

  def _post(self) -> None:
    close, self.close_connection = self.close_connection, True  # until the body is read
    length = self.headers.get("Content-Length", "")
    self._unread = min(int(length), 8 * MOST_BODY) if re.fullmatch("[0-9]{1,18}", length) else 0
    path = self._check()
    if path not in ("/v1/completions", "/v1/chat/completions"): raise Refusal(405 if path.startswith("/v1/models") or path == "/" else 404, f"There is no {path[:200]} for POST")
    if self.headers.get_content_type() != "application/json": raise Refusal(415, "The Content-Type of the request is not application/json")
    body = self._body()
    self.close_connection = close
    given = json_of(body)
    endpoints = self.server.endpoints
    reply = (endpoints.chat if path == "/v1/chat/completions" else endpoints.complete)(given, len(body), self._is_there)
    try:
      if reply.asked.streams: self._stream(endpoints.stream(reply))
      else: self._send(200, json.dumps(endpoints.whole(reply)).encode())
    except ConnectionError: self.close_connection = True  # the client has gone
    finally: reply.cancel()

  def _body(self) -> bytes:
    lengths = self.headers.get_all("Content-Length", [])
    if self.headers.get("Transfer-Encoding") is not None or len(lengths) != 1: raise Refusal(411, "The request has no Content-Length, or several")
    if not re.fullmatch("[0-9]{1,18}", lengths[0].strip()): raise Refusal(400, "The Content-Length is no number")
    n = int(lengths[0])
    if n > MOST_BODY: raise Refusal(413, f"The request has {n} bytes; {MOST_BODY} are possible")
    self._unread = 0
    self._limited.left += n
    try: body: bytes = self.rfile.read(n)
    except TimeoutError: raise Refusal(408, f"The request did not come within {SECONDS_FOR_REQUEST:g} seconds") from None
    if len(body) < n: raise Refusal(400, f"The request ends after {len(body)} of {n} bytes")
    return body

  def _is_there(self) -> bool:
    """Whether the client still waits: it has not closed its side of the connection, whatever it has sent before. Does not wait."""
    try:
      poll = select.poll()
      poll.register(self.connection, select.POLLRDHUP)
      return not poll.poll(0)
    except (OSError, ValueError): return False

  def _stream(self, chunks: Iterator[dict[str, Any]]) -> None:
    """Server-sent events. What goes wrong before the first one is an ordinary error."""
    first = next(chunks)
    self.close_connection = True  # the end of the connection is the end of the stream
    self.connection.settimeout(SECONDS_FOR_WRITE)
    self._has_begun = True
    self.send_response(200)
    for name, value in {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "Connection": "close", "X-Content-Type-Options": "nosniff"}.items(): self.send_header(name, value)
    self.end_headers()
    def say(value: dict[str, Any]) -> None: self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")
    try:
      say(first)
      for c in chunks: say(c)
      self.wfile.write(b"data: [DONE]\n\n")
    except Refusal as e: say(e.body())
    except TimeoutError: pass  # the client does not take what comes


def _is_this_machine(host: str) -> bool:
  """Whether a header Host names this machine: localhost, or an address of loopback."""
  if not re.fullmatch(r"[\w.:\-\[\]]{1,300}", host): return False
  try:
    name = urllib.parse.urlsplit(f"//{host}").hostname or ""
    return name == "localhost" or ipaddress.ip_address(name).is_loopback
  except ValueError: return False
