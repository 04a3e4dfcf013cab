# SPDX-License-Identifier: MIT
"""What the server answers: the objects of the OpenAI protocol, made of what a model writes. Knows nothing of HTTP."""
from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from ...errors import Unavailable
from ..batch import Batch
from ..chat import ChatTemplate
from ..tokenizer import Tokenizer
from .answer import THINK, Answer, Part
from .asked import Asked, chat_of, completion_of
from .marks import Stops
from .refusal import Refusal
from .scheduler import Full, Generation, Scheduler, Unwanted

_FIXED_BYTES, _BYTES_OF_A_TOKEN = 1 << 16, 32  # of a request: beyond so many for each token of the context no ordinary prompt fits
Json = dict[str, Any]


class Reply:
  """An answer that is being written. parts: its pieces, as they come; then `finish_reason` and `usage` are known."""
  def __init__(self, asked: Asked, generation: Generation, tokenizer: Tokenizer, chat: bool, in_reasoning: bool) -> None:
    self.asked, self.is_chat = asked, chat
    self.id, self.created = ("chatcmpl-" if chat else "cmpl-") + secrets.token_hex(12), int(time.time())
    self.finish_reason = ""
    self._generation, self._written = generation, 0
    self._decoder, self._stops = tokenizer.decoder(begins=False), Stops(asked.stops)
    self._answer = Answer(bool(asked.tools), in_reasoning) if chat else None

  @property
  def usage(self) -> Json:
    prompt = len(self._generation.prompt)
    return {"prompt_tokens": prompt, "completion_tokens": self._written, "total_tokens": prompt + self._written}

  def parts(self) -> Iterator[Part]:
    """Waits for the parts. ConnectionError if the client has gone; Refusal if the daemon fails. One that is left early gives its place back."""
    try:
      ended = False
      while not ended and (token := self._generation.events.get()) is not None:
        if isinstance(token, Unwanted): raise ConnectionAbortedError
        if isinstance(token, Exception): raise Refusal(503 if isinstance(token, Unavailable) else 500, f"The model cannot be computed: {str(token)[:500]}")
        self._written += 1
        text, ended = self._stops.feed(self._decoder.feed(token))
        yield from self._parts_of(text)
      if not ended:
        text, ended = self._stops.feed(self._decoder.end())
        yield from self._parts_of(text if ended else text + self._stops.end())
      if self._answer is not None: yield from self._answer.end()
      self.finish_reason = "stop" if ended else self._generation.reason
      if self.finish_reason == "stop" and self._answer is not None and self._answer.calls: self.finish_reason = "tool_calls"
    finally: self._generation.cancel()

  def cancel(self) -> None:
    """Nobody waits for the rest."""
    self._generation.cancel()

  def _parts_of(self, text: str) -> list[Part]:
    if self._answer is not None: return self._answer.feed(text)
    return [Part("content", text)] if text else []


class Endpoints:
  """A model and its name, for any number of threads."""
  def __init__(self, name: str, batch: Batch, tokenizer: Tokenizer, template: ChatTemplate | None, most_waiting: int = 64, again: Callable[[], Batch] | None = None) -> None:
    """template: None for a model without one, which answers no chats. most_waiting: requests that wait for a place of the batch. again: of Scheduler."""
    self.name, self._tokenizer, self._template = name, tokenizer, template
    self._context, self._created = batch.context, int(time.time())
    self._encoding = threading.Lock()  # one prompt at a time: encoding takes the interpreter from the thread that drives the batch
    self.scheduler = Scheduler(batch, tokenizer.is_end, most_waiting, again)

  def models(self) -> Json: return {"object": "list", "data": [self.model(self.name)]}

  def model(self, name: str) -> Json:
    if name != self.name: raise Refusal(404, f"The model {name[:100]!r} is not served here", "model", "model_not_found")
    return {"id": self.name, "object": "model", "created": self._created, "owned_by": "uopd"}

  def complete(self, given: Json, size: int, is_wanted: Callable[[], bool]) -> Reply:
    """size: bytes of the request, for this and `chat`."""
    asked = completion_of(given, self.name)
    self._check_size(size, "prompt")
    prompt = asked.prompt
    if isinstance(prompt, str):
      with self._encoding: prompt = self._tokenizer.with_bos(self._tokenizer.encode(prompt))
    return self._begin(asked, prompt, "prompt", False, False, is_wanted)

  def _check_size(self, size: int, param: str) -> None:
    """Refuses what is so long that only making tokens of it would cost much."""
    if size > _FIXED_BYTES + _BYTES_OF_A_TOKEN * self._context: raise self._too_long(f"a request of {size} bytes", param)

  def _too_long(self, found: str, param: str) -> Refusal:
    return Refusal(400, f"This model's maximum context length is {self._context} tokens, and the {param} resulted in {found}", param, "context_length_exceeded")

  def chat(self, given: Json, size: int, is_wanted: Callable[[], bool]) -> Reply:
    asked = chat_of(given, self.name)
    self._check_size(size, "messages")
    template = self._template
    if template is None: raise Refusal(400, "The model has no chat template; use /v1/completions")
    def encoded(tools: list[Any] | None, param: str) -> list[int]:
      try:
        with self._encoding: return template.encode(asked.messages, tools)
      except ValueError as e: raise Refusal(400, str(e)[:1000], param) from None
      except RecursionError: raise Refusal(400, f"{param} is nested too deeply", param) from None
    prompt = encoded(None, "messages")
    if asked.tools:
      without, prompt = prompt, encoded(asked.tools, "tools")
      if prompt == without: raise Refusal(400, "The chat template of the model has no place for tools", "tools", "unsupported_value")
    in_reasoning = self._tokenizer.decode(prompt[-8:], special=True).rstrip().endswith(THINK)
    return self._begin(asked, prompt, "messages", True, in_reasoning, is_wanted)

  def _begin(self, asked: Asked, prompt: list[int], param: str, chat: bool, in_reasoning: bool, is_wanted: Callable[[], bool]) -> Reply:
    if len(prompt) > self._context: raise self._too_long(f"{len(prompt)} tokens", param)
    try: generation = self.scheduler.begin(prompt, asked.most, asked.sampling, is_wanted)
    except ValueError as e: raise Refusal(400, str(e)[:1000], param) from None
    except Full as e: raise Refusal(429, f"The server is busy: {e}", code="rate_limit_exceeded") from None
    return Reply(asked, generation, self._tokenizer, chat, in_reasoning)

  def whole(self, reply: Reply) -> Json:
    """The answer as one object, when it is there."""
    found = list(reply.parts())
    texts = {kind: "".join(p.text for p in found if p.kind == kind) for kind in ("content", "reasoning_content")}
    if reply.is_chat:
      calls = [p.call for p in found if p.call is not None]
      message: Json = {"role": "assistant", "content": texts["content"] or (None if calls else "")}
      if texts["reasoning_content"]: message["reasoning_content"] = texts["reasoning_content"]
      if calls: message["tool_calls"] = calls
      choice: Json = {"index": 0, "message": message}
    else: choice = {"index": 0, "text": texts["content"]}
    choice |= {"logprobs": None, "finish_reason": reply.finish_reason}
    return self._head(reply, False) | {"choices": [choice], "usage": reply.usage}

  def stream(self, reply: Reply) -> Iterator[Json]:
    """The answer as objects, each as soon as there is something to say. The first one comes with the first token."""
    calls, first = 0, True
    def chunk(content: Json, reason: str | None = None) -> Json:
      choice = {"index": 0, **content, "logprobs": None, "finish_reason": reason}
      return self._head(reply, True) | {"choices": [choice]} | ({"usage": None} if reply.asked.has_usage else {})
    for part in reply.parts():
      if first and reply.is_chat: yield chunk({"delta": {"role": "assistant", "content": ""}})
      first = False
      if not reply.is_chat: yield chunk({"text": part.text})
      elif part.call is None: yield chunk({"delta": {part.kind: part.text}})
      else:
        yield chunk({"delta": {"tool_calls": [{"index": calls, **part.call}]}})
        calls += 1
    if first and reply.is_chat: yield chunk({"delta": {"role": "assistant", "content": ""}})
    yield chunk({"delta": {}} if reply.is_chat else {"text": ""}, reply.finish_reason)
    if reply.asked.has_usage: yield self._head(reply, True) | {"choices": [], "usage": reply.usage}

  def _head(self, reply: Reply, streams: bool) -> Json:
    kind = ("chat.completion.chunk" if streams else "chat.completion") if reply.is_chat else "text_completion"
    return {"id": reply.id, "object": kind, "created": reply.created, "model": self.name}

  def close(self) -> None: self.scheduler.close()
