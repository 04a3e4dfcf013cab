# SPDX-License-Identifier: MIT
"""What a client asks for, read from the JSON of its request. Every field is checked: one that cannot be served is refused by name, since an answer without it would be another one."""
from __future__ import annotations

import json
import secrets
from typing import Any, NamedTuple

from ..sampling import Sampling
from .refusal import Refusal

MOST_STOPS, LONGEST_STOP = 4, 500  # stop strings of a request, and characters of each
# Fields that say nothing about the text of an answer.
_WITHOUT_EFFECT = frozenset(("user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "parallel_tool_calls", "reasoning_effort", "verbosity"))
# Fields that are served only where they ask for nothing, with these values.
_NOTHING: dict[str, tuple[Any, ...]] = {
  "n": (1,), "best_of": (1,), "echo": (False,), "suffix": ("",), "logprobs": (False,), "top_logprobs": (0,), "logit_bias": ({},), "functions": ([],), "function_call": ("none",), "audio": (), "prediction": (),
  "modalities": (["text"],), "response_format": ({"type": "text"},), "web_search_options": ()}
_BOTH = frozenset(("model", "max_tokens", "temperature", "top_p", "top_k", "min_p", "repeat_penalty", "seed", "frequency_penalty", "presence_penalty", "stop", "stream", "stream_options"))
_ROLES = ("system", "developer", "user", "assistant", "tool")


class Asked(NamedTuple):
  """A request. prompt: a text or tokens, of a completion; messages, tools: of a chat."""
  prompt: str | list[int]
  messages: list[dict[str, Any]]
  tools: list[Any]
  most: int | None
  sampling: Sampling
  stops: list[str]
  streams: bool
  has_usage: bool  # whether a stream ends with what was used


def json_of(body: bytes) -> dict[str, Any]:
  def constant(name: str) -> None: raise ValueError(f"{name} is no number of JSON")
  try: value = json.loads(body.decode("utf-8"), parse_constant=constant)
  except (ValueError, RecursionError) as e: raise Refusal(400, f"The body is no JSON that can be read: {str(e)[:200]}") from None
  if not isinstance(value, dict): raise Refusal(400, "The body is no JSON object")
  return value


def _wrong(name: str, value: Any, wanted: str) -> Refusal: return Refusal(400, f"{name} is {_shown(value)}; it must be {wanted}", name)
def _shown(value: Any) -> str:
  text = json.dumps(value) if not isinstance(value, (dict, list)) else "an object" if isinstance(value, dict) else "a list"
  return text if len(text) <= 100 else text[:100] + "..."


def _number(given: dict[str, Any], name: str, default: float, low: float, high: float) -> float:
  x = given.get(name)
  if x is None: return default
  if isinstance(x, bool) or not isinstance(x, (int, float)) or not low <= x <= high: raise _wrong(name, x, f"a number from {low:g} to {high:g}")
  return float(x)


def _integer(given: dict[str, Any], name: str, low: int, high: int) -> int | None:
  x = given.get(name)
  if x is None: return None
  if isinstance(x, bool) or not isinstance(x, int) or not low <= x <= high: raise _wrong(name, x, f"an integer from {low} to {high}")
  return x


def _flag(given: dict[str, Any], name: str, inside: str = "") -> bool:
  x = given.get(name)
  if x is not None and not isinstance(x, bool): raise _wrong(inside + name, x, "true or false")
  return bool(x)


def _stops(given: dict[str, Any]) -> list[str]:
  x = given.get("stop")
  stops = [] if x is None else [x] if isinstance(x, str) else x
  if not isinstance(stops, list) or len(stops) > MOST_STOPS or not all(isinstance(s, str) and 0 < len(s) <= LONGEST_STOP for s in stops):
    raise _wrong("stop", x, f"a text, or a list of up to {MOST_STOPS} texts, each of 1 to {LONGEST_STOP} characters")
  return stops


def _stream(given: dict[str, Any]) -> tuple[bool, bool]:
  streams, options = _flag(given, "stream"), given.get("stream_options")
  if options is None: return streams, False
  if not isinstance(options, dict) or options.keys() - {"include_usage", "include_obfuscation"}: raise _wrong("stream_options", options, "an object with include_usage")
  if not streams: raise Refusal(400, "stream_options is for requests with stream", "stream_options")
  return streams, _flag(options, "include_usage", "stream_options.")


def _common(given: dict[str, Any], model: str, more: frozenset[str], most: int | None) -> Asked:
  """All but the prompt and the messages. most: of a request that does not say."""
  for name, value in given.items():
    if name in _BOTH or name in more or name in _WITHOUT_EFFECT or value is None: continue
    if name not in _NOTHING: raise Refusal(400, f"{name[:100]} is no field that is known here", name[:100], "unknown_parameter")
    if not any(type(value) is type(v) and value == v for v in _NOTHING[name]):
      wanted = " or ".join(json.dumps(v) for v in _NOTHING[name]) or "left out"
      raise Refusal(400, f"{name} is {_shown(value)}; this server knows only requests where it is {wanted}", name, "unsupported_value")
  if not isinstance(given.get("model"), str): raise Refusal(400, "model is missing: the name of the model", "model")
  if given["model"] != model: raise Refusal(404, f"The model {_shown(given['model'])} is not served here; {json.dumps(model)} is", "model", "model_not_found")
  asked = _integer(given, "max_tokens", 1, 1 << 31)
  if "max_completion_tokens" in more: asked = found if (found := _integer(given, "max_completion_tokens", 1, 1 << 31)) is not None else asked
  seed = _integer(given, "seed", -(1 << 63), (1 << 64) - 1)
  sampling = Sampling(_number(given, "temperature", 1, 0, 2), _integer(given, "top_k", 0, 1 << 24) or 0, _number(given, "top_p", 1, 0, 1), _number(given, "min_p", 0, 0, 1),
                      _number(given, "repeat_penalty", 1, 0.01, 100), frequency_penalty=_number(given, "frequency_penalty", 0, -2, 2),
                      presence_penalty=_number(given, "presence_penalty", 0, -2, 2), seed=secrets.randbits(64) if seed is None else seed)
  return Asked("", [], [], most if asked is None else asked, sampling, _stops(given), *_stream(given))


def completion_of(given: dict[str, Any], model: str) -> Asked:
  """A request to /v1/completions."""
  common = _common(given, model, frozenset(("prompt",)), 16)
  prompt = given.get("prompt")
  if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)): prompt = prompt[0]  # a list of one prompt
  if isinstance(prompt, str) or isinstance(prompt, list) and prompt and all(isinstance(t, int) and not isinstance(t, bool) for t in prompt): return common._replace(prompt=prompt)
  raise _wrong("prompt", prompt, "one text, or one list of tokens")


def chat_of(given: dict[str, Any], model: str) -> Asked:
  """A request to /v1/chat/completions."""
  common = _common(given, model, frozenset(("messages", "max_completion_tokens", "tools", "tool_choice")), None)
  messages, tools, choice = given.get("messages"), given.get("tools"), given.get("tool_choice")
  if not isinstance(messages, list) or not messages: raise _wrong("messages", messages, "a list with at least one message")
  out = []
  for i, m in enumerate(messages):
    if not isinstance(m, dict): raise Refusal(400, f"messages[{i}] is no object", f"messages[{i}]")
    if m.get("role") not in _ROLES: raise Refusal(400, f"messages[{i}].role is {_shown(m.get('role'))}; it must be one of {', '.join(_ROLES)}", f"messages[{i}].role")
    if m.get("content") is None and not m.get("tool_calls"): raise Refusal(400, f"messages[{i}] has no content", f"messages[{i}].content")
    if m.get("tool_calls") is not None and not isinstance(m["tool_calls"], list): raise Refusal(400, f"messages[{i}].tool_calls is no list", f"messages[{i}].tool_calls")
    # Templates know no developer, and look at what is null as if it was there.
    out.append({k: "system" if k == "role" and v == "developer" else v for k, v in m.items() if v is not None or k == "content"})
  if tools is not None and not isinstance(tools, list): raise _wrong("tools", tools, "a list")
  for i, t in enumerate(tools or []):
    if not isinstance(t, dict) or t.get("type") != "function" or not isinstance(t.get("function"), dict) or not isinstance(t["function"].get("name"), str):
      raise Refusal(400, f"tools[{i}] is no object of the type function, with the function's name", f"tools[{i}]")
  if choice not in (None, "auto", "none"): raise Refusal(400, f"tool_choice is {_shown(choice)}; auto and none are known here", "tool_choice", "unsupported_value")
  return common._replace(messages=out, tools=[] if choice == "none" else tools or [])
