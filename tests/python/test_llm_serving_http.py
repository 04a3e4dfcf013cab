# SPDX-License-Identifier: MIT
"""The HTTP side of the server of the OpenAI protocol, with sockets: requests that are wrong, slow, huge or from elsewhere. And the command."""
import contextlib
import json
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

pytest.importorskip("gguf")
pytest.importorskip("regex")
from llm_files import write_model  # noqa: E402
from llm_served import Scripted, Served  # noqa: E402

from uopd.llm.chat import ChatTemplate  # noqa: E402
from uopd.llm.gguf import stored_in  # noqa: E402
from uopd.llm.serving import http  # noqa: E402
from uopd.llm.serving.endpoints import Endpoints  # noqa: E402
from uopd.llm.tokenizer import Tokenizer  # noqa: E402

ASK = {"model": "small", "messages": [{"role": "user", "content": "a"}], "max_tokens": 3}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
  path = tmp_path_factory.mktemp("llm") / "small.gguf"
  write_model(path, "llama", layers=2)
  return path


@pytest.fixture(scope="module")
def served(path):
  tokenizer = Tokenizer.from_gguf(stored_in(path)[0])
  with Served(Endpoints("small", Scripted(tokenizer.encode("xyz" * 9)), tokenizer, ChatTemplate(tokenizer, None))) as s: yield s


def connect(served):
  s = socket.create_connection(served.server.server_address[:2], 60)
  s.settimeout(60)
  return s


def head(served, body=b"", method="POST", path="/v1/chat/completions", **headers):
  """A request; a header that is None is left out."""
  host = f"127.0.0.1:{served.server.server_address[1]}"
  values = {"Host": host, "Content-Type": "application/json", "Content-Length": str(len(body)), **{k.replace("_", "-"): v for k, v in headers.items()}}
  return f"{method} {path} HTTP/1.1\r\n".encode() + b"".join(f"{k}: {v}\r\n".encode("latin-1") for k, v in values.items() if v is not None) + b"\r\n" + body


def answers(s):
  """What comes until the server closes the connection."""
  out = b""
  while part := s.recv(1 << 16): out += part
  return out


def answer(s):
  """One answer with a Content-Length: status, headers, body."""
  file = s.makefile("rb")
  status = int(file.readline().split()[1])
  headers = {}
  while (line := file.readline().strip()): headers[line.split(b":")[0].decode().lower()] = line.partition(b":")[2].strip().decode()
  return status, headers, file.read(int(headers["content-length"]))


def ask(served, raw):
  with connect(served) as s:
    s.sendall(raw)
    status, headers, body = answer(s)
    return status, headers, json.loads(body)


def is_well(served):
  status, _, body = ask(served, head(served, json.dumps(ASK).encode()))
  return status == 200 and body["choices"][0]["message"]["content"] == "xyz"


def test_one_connection_for_several_requests(served):
  with connect(served) as s:
    for _ in range(3):
      s.sendall(head(served, json.dumps(ASK).encode()))
      assert answer(s)[0] == 200
    s.sendall(head(served, b"{"))
    assert answer(s)[0] == 400
    s.sendall(head(served, json.dumps(ASK).encode()) + head(served, json.dumps(ASK).encode(), Connection="close"))  # both at once
    assert re.findall(rb"HTTP/1.1 (\d+)", answers(s)) == [b"200", b"200"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"5", b'"a"', b"\xff", b"{} {}", b'{"temperature": NaN}', b'{"temperature": Infinity}', b"[" * 100_000, b'{"a":' * 50_000, b'{"seed": ' + b"9" * 5000 + b"}", b"null", b'{"model": "\\ud800"}'])
def test_bodies_that_are_no_request(served, body):
  status, _, found = ask(served, head(served, body))
  assert status in (400, 404) and found["error"]["type"] in ("invalid_request_error", "not_found_error") and len(json.dumps(found)) < 2000
  assert is_well(served)


@pytest.mark.parametrize("status, more", [
  (403, {"Host": "attacker.example"}), (403, {"Host": "attacker.example:8000"}), (403, {"Host": "10.0.0.1"}), (403, {"Host": "127.0.0.1.attacker.example"}), (403, {"Host": "a b"}), (400, {"Host": None}), (403, {"Host": ""}),
  (403, {"Origin": "http://attacker.example"}), (403, {"Origin": "null"}), (403, {"Origin": "http://127.0.0.1:1"}), (403, {"Origin": "https://127.0.0.1"}),
  (415, {"Content_Type": "text/plain"}), (415, {"Content_Type": None}), (415, {"Content_Type": "application/x-www-form-urlencoded"}), (411, {"Content_Length": None}), (400, {"Content_Length": "-1"}), (400, {"Content_Length": "x"}),
  (400, {"Content_Length": "1_0"}), (413, {"Content_Length": str(http.MOST_BODY + 1)}), (413, {"Content_Length": "9" * 18}), (411, {"Transfer_Encoding": "chunked"})], ids=str)
def test_headers_that_are_refused(served, status, more):
  with connect(served) as s:
    s.sendall(head(served, json.dumps(ASK).encode(), **more))
    s.shutdown(socket.SHUT_WR)
    assert answer(s)[0] == status
  assert is_well(served)


@pytest.mark.parametrize("host", ["[", "[x]", "[::1", "]", "::1]", "[::1]x"])
def test_a_host_that_is_none(served, host, capfd):
  """The client's fault: nothing of it is in the output of the server."""
  assert ask(served, head(served, b"", "GET", "/v1/models", Host=host))[0] == 403
  assert capfd.readouterr().err == ""


@pytest.mark.parametrize("target", ["http://[/", "http://[x]/v1/models", "//[/"])
def test_a_path_that_is_none(served, target, capfd):
  assert ask(served, head(served, b"", "GET", target))[0] in (400, 404)
  assert ask(served, head(served, b"{}", "POST", target))[0] in (400, 404)
  assert capfd.readouterr().err == ""


@pytest.mark.parametrize("line", ["no header", "Content-Length : 9", " folded: 1", ": no name"])
def test_lines_that_are_no_headers(served, line):
  """What stands behind such a line would not be seen: a body would be read as another request."""
  hidden = head(served, b"", "GET", "/v1/models/hidden", Connection="close")
  start, _, rest = head(served, b"", "GET", "/v1/models", Content_Length=str(len(hidden))).partition(b"\r\n")
  with connect(served) as s:
    s.sendall(start + b"\r\n" + line.encode() + b"\r\n" + rest + hidden)
    s.shutdown(socket.SHUT_WR)
    assert re.findall(rb"HTTP/1.1 (\d+)", answers(s)) == [b"400"]


def test_headers_have_a_bound_together(served):
  """Each line and their number are within the bounds of http.server."""
  line = b"A: " + b"b" * 60_000 + b"\r\n"
  with connect(served) as s:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
      s.sendall(head(served, b"", "GET", "/v1/models", Connection="close").replace(b"\r\n\r\n", b"\r\n" + line * 90 + b"\r\n"))
    assert answer(s)[0] == 431
  whole = head(served, b"", "GET", "/v1/models", Connection="close").replace(b"\r\n\r\n", b"\r\n" + line + b"\r\n")
  with connect(served) as s:
    s.sendall(whole)
    assert answers(s).startswith(b"HTTP/1.1 200 ")
  with connect(served) as s:  # each request of a connection has the bound for itself
    for _ in range(5):
      s.sendall(whole.replace(b"Connection: close\r\n", b""))
      assert answer(s)[0] == 200
  assert is_well(served)


def test_hosts_and_origins_of_this_machine(served):
  port = served.server.server_address[1]
  for host in ("localhost", f"localhost:{port}", "127.0.0.1", "127.8.9.1:80", f"[::1]:{port}"):
    assert ask(served, head(served, json.dumps(ASK).encode(), Host=host))[0] == 200
    assert ask(served, head(served, json.dumps(ASK).encode(), Host=host, Origin=f"http://{host}"))[0] == 200


def test_random_fields_are_answered_or_refused(served):
  """Any value in any place of a request: never an error of the server."""
  rng = random.Random(7)
  deep = "end"
  for _ in range(400): deep = {"a": deep}
  values = [None, True, False, 0, 1, -1, 2.5, 1e308, 1 << 70, "", "a", "\ud800", "\x00", "text", "function", [], {}, [[]], [None], ["a"], {"a": "b"}, {"type": "text"}, [{"type": "text", "text": "a"}], deep, [deep] * 3]
  fields = ["model", "messages", "prompt", "max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "min_p", "repeat_penalty", "seed", "frequency_penalty", "presence_penalty", "stop", "stream", "stream_options",
            "tools", "tool_choice", "n", "logprobs", "logit_bias", "response_format", "functions", "user", "metadata", "unknown", ""]
  inner = ["role", "content", "tool_calls", "name", "type", "function", "include_usage", "arguments"]
  statuses = set()
  for i in range(600):
    given = {"model": "small", "max_tokens": 2, "messages": [{"role": "user", "content": "a"}]} if i % 2 else {"model": "small", "max_tokens": 2, "prompt": "a"}
    for _ in range(rng.randint(1, 2)):
      if i % 2 and rng.random() < 0.4: given["messages"] = [{"role": "user", "content": "a", rng.choice(inner): rng.choice(values)}]
      elif rng.random() < 0.2: given["tools"] = [{"type": "function", "function": {"name": "f", rng.choice(inner): rng.choice(values)}}]
      else: given[rng.choice(fields)] = rng.choice(values)
    if given.get("stream") is True: del given["stream"]
    status, _, body = ask(served, head(served, json.dumps(given).encode(), path="/v1/chat/completions" if i % 2 else "/v1/completions"))
    assert status in (200, 400, 404), (given, body)
    assert status == 200 or body["error"]["message"]
    statuses.add(status)
  assert statuses == {200, 400, 404}


def test_a_body_that_is_too_large_is_told_so(served):
  """Also to a client that sends all of it before it reads."""
  body = json.dumps({**ASK, "user": "x" * (7 * http.MOST_BODY)}).encode()
  status, _, found = ask(served, head(served, body))
  assert status == 413 and str(http.MOST_BODY) in found["error"]["message"]


def test_requests_that_are_no_http(served):
  for raw in (b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 9 + b"\r\n\r\n", b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n",
              b"GET / HTTP/1.1\r\nA: " + b"b" * 70_000 + b"\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n"):
    with connect(served) as s:
      s.sendall(raw)
      s.shutdown(socket.SHUT_WR)
      try: assert b"HTTP/1.1 200" not in answers(s)
      except ConnectionResetError: pass
  assert is_well(served)


def test_paths_and_methods(served):
  for method, path, status in (("GET", "/nothing", 404), ("GET", "/v1/chat/completions", 405), ("POST", "/v1/models", 405), ("POST", "/v1/embeddings", 404), ("POST", "/../../etc/passwd", 404), ("GET", "/v1/models/%2e%2e", 404),
                               ("DELETE", "/v1/models/small", 501), ("OPTIONS", "/v1/chat/completions", 501)):
    assert ask(served, head(served, json.dumps(ASK).encode() if method == "POST" else b"", method, path))[0] == status, path
  assert ask(served, head(served, b"", "GET", "/v1/models?a=b"))[0] == 200


def test_slow_requests_end(served, monkeypatch):
  """By the time of a whole request, however often something comes."""
  monkeypatch.setattr(http, "SECONDS_FOR_REQUEST", 0.5)
  body = json.dumps(ASK).encode()
  for raw in (b"", b"POST /v1/chat", head(served, body)[:-len(body)], head(served, body)[:-3]):
    with connect(served) as s:
      s.sendall(raw)
      found = answers(s)  # the server closes it
      assert not found or b" 408 " in found.split(b"\r\n")[0]
  with connect(served) as s:
    ended = threading.Event()
    def drip():
      try:
        for b in head(served, b" " * 10_000):
          s.send(bytes([b]))
          if ended.wait(0.02): return
      except OSError: pass
    thread = threading.Thread(target=drip)
    thread.start()
    try: answers(s)
    except ConnectionResetError: pass
    ended.set()
    thread.join()
  monkeypatch.undo()
  assert is_well(served)


def test_too_many_connections(served):
  held = [connect(served) for _ in range(http.MOST_CONNECTIONS)]
  try:
    limit = time.monotonic() + 60
    while True:  # until the last of them have a thread
      with connect(served) as s:
        s.sendall(head(served, json.dumps(ASK).encode()))
        try: status = answer(s)[0]
        except (ConnectionResetError, IndexError, BrokenPipeError): status = 503
        if status == 503: break
      assert time.monotonic() < limit
  finally:
    for s in held: s.close()
  limit = time.monotonic() + 60
  while True:
    try:
      if is_well(served): break
    except (ConnectionResetError, IndexError, KeyError, ValueError, BrokenPipeError): pass
    assert time.monotonic() < limit


def test_clients_that_leave_at_any_moment(served):
  raw = head(served, json.dumps({**ASK, "stream": True, "max_tokens": 20}).encode())
  for n in range(0, len(raw), 17):
    with connect(served) as s: s.sendall(raw[:n])
  for _ in range(20):
    with connect(served) as s:
      s.sendall(raw)
      s.recv(10)
  limit = time.monotonic() + 60
  while served.endpoints.scheduler.running: assert time.monotonic() < limit
  assert is_well(served)


def test_a_client_that_leaves_with_another_request_under_way(served, monkeypatch):
  """The connection can be read then, and is closed all the same."""
  batch = served.endpoints.scheduler.batch
  may_end, step = threading.Event(), batch.step
  monkeypatch.setattr(batch, "step", lambda: step() if may_end.is_set() else (time.sleep(0.01), [])[1])
  with connect(served) as s:
    s.sendall(head(served, json.dumps(ASK).encode()))
    limit = time.monotonic() + 60
    while not served.endpoints.scheduler.running:
      assert time.monotonic() < limit
      time.sleep(0.001)
    s.sendall(b"GET /v1/models")
  while served.endpoints.scheduler.running:
    assert time.monotonic() < limit
    time.sleep(0.001)
  may_end.set()
  assert is_well(served)


def test_the_page(served):
  with connect(served) as s:
    s.sendall(head(served, b"", "GET", "/"))
    status, headers, page = answer(s)
  assert status == 200 and headers["content-type"] == "text/html; charset=utf-8" and len(page) <= 20_000
  policy = headers["content-security-policy"]
  assert "default-src 'none'" in policy and "unsafe" not in policy and policy.count("'sha256-") == 2 and "frame-ancestors 'none'" in policy
  text = page.decode()
  assert not re.search(r"https?://|innerHTML|insertAdjacentHTML|document\.write|eval\(|\son\w+=|style=", text)


def start(*arguments):
  return subprocess.Popen([sys.executable, "-m", "uopd.llm", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_the_command(path, tmp_path):
  keys = tmp_path / "keys"
  keys.write_text("a-key-of-this-test\n\nanother-key-of-it\n")
  server = start(path, "--serve", 0, "--slots", 2, "--max-context", 64, "--api-key-file", keys)
  try:
    line = server.stdout.readline()
    url = re.fullmatch(r"small is served at (http://127\.0\.0\.1:\d+)/v1, and a page to chat at \1/\n", line)[1]
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(ASK).encode(), {"Content-Type": "application/json", "Authorization": "Bearer another-key-of-it"})
    assert json.load(urllib.request.urlopen(request, timeout=60))["usage"]["completion_tokens"] == 3
    with pytest.raises(urllib.error.HTTPError, match="401"): urllib.request.urlopen(f"{url}/v1/models", timeout=60)
    assert b"<!doctype html>" in urllib.request.urlopen(f"{url}/", timeout=60).read()
    server.send_signal(signal.SIGINT)
    assert server.wait(60) == 0 and server.stderr.read() == ""
  finally:
    server.kill()
    server.communicate()


def test_commands_that_are_refused(path, tmp_path):
  (tmp_path / "none").write_text("\n")
  (tmp_path / "short").write_text("abc\n")
  taken = socket.create_server(("127.0.0.1", 0))
  for arguments, says in ((["--serve", "0.0.0.0:0"], "0.0.0.0 can be reached from other machines: --api-key-file is needed"), (["--serve", "[::]:0"], ":: can be reached"), (["--serve", "0", "--api-key-file", tmp_path / "none"], "has no API key"),
                          (["--serve", "0", "--api-key-file", tmp_path / "short"], "less than 16"), (["--serve", "0", "--api-key-file", tmp_path / "absent"], "absent"), (["--serve", "0", "--slots", 0], "slots is 0"),
                          (["--serve", taken.getsockname()[1]], "in use"), (["--serve", "x"], "'x' is no [HOST:]PORT"), (["--serve", "65536"], "'65536' is no")):
    run = start(path, *arguments)
    _, stderr = run.communicate(timeout=300)
    assert run.returncode in (1, 2) and says in stderr and "Traceback" not in stderr, (arguments, stderr)
  taken.close()


def test_nothing_waits_for_a_name_service():
  assert http.is_loopback("127.0.0.1") and http.is_loopback("::1") and http.is_loopback("localhost") and not http.is_loopback("0.0.0.0") and not http.is_loopback("::")
