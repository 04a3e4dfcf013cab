# SPDX-License-Identifier: MIT
"""Chat templates: messages to the text, or to the tokens, that a model goes on with."""
from __future__ import annotations

import json
import warnings
from typing import Any

from .tokenizer import Tokenizer

_KEY = "tokenizer.chat_template"
_MARKS = [chr(c) for c in range(0xfdd0, 0xfdf0)]  # code points that are no characters
Message = dict[str, Any]


def _chatml(messages: list[Message], bos: str, prompt: bool) -> str:
  turns = [f"<|im_start|>{m['role']}\n{m.get('content') or ''}<|im_end|>\n" for m in messages]
  return "".join(turns) + "<|im_start|>assistant\n" * prompt


def _llama3(messages: list[Message], bos: str, prompt: bool) -> str:
  turns = [f"<|start_header_id|>{m['role']}<|end_header_id|>\n\n{(m.get('content') or '').strip()}<|eot_id|>" for m in messages]
  return bos + "".join(turns) + "<|start_header_id|>assistant<|end_header_id|>\n\n" * prompt


def _gemma(messages: list[Message], bos: str, prompt: bool) -> str:
  """Gemma knows no system: its text begins the first turn."""
  out, system = bos, ""
  for m in messages:
    content = (m.get("content") or "").strip()
    if m["role"] == "system":
      system += content + "\n\n"
      continue
    out += f"<start_of_turn>{'model' if m['role'] == 'assistant' else m['role']}\n{system}{content}<end_of_turn>\n"
    system = ""
  if system: out += f"<start_of_turn>user\n{system.strip()}<end_of_turn>\n"
  return out + "<start_of_turn>model\n" * prompt


_BUILT_IN = ((("<|im_start|>", "<|im_end|>"), _chatml), (("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"), _llama3),
             (("<start_of_turn>", "<end_of_turn>"), _gemma))


def _content(content: Any, place: str) -> str | None:
  """The text of a message: a text, None, or the text parts of the OpenAI protocol."""
  if content is None or isinstance(content, str): return content
  if not isinstance(content, list): raise ValueError(f"{place} has a content that is neither a text nor a list of parts")
  for part in content:
    if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
      raise ValueError(f"{place} has a part that is no text: {str(part.get('type') if isinstance(part, dict) else part)[:100]}")
  return "".join([part["text"] for part in content])


def _arguments(call: Any) -> Any:
  """A call of a tool with its arguments as an object, which templates expect; the protocol has them as a text of JSON."""
  function = call.get("function") if isinstance(call, dict) else None
  if not isinstance(function, dict) or not isinstance(function.get("arguments"), str): return call
  try: arguments = json.loads(function["arguments"])
  except (ValueError, RecursionError): return call
  return {**call, "function": {**function, "arguments": arguments}} if isinstance(arguments, dict) else call


def _checked(messages: Any) -> list[Message]:
  if not isinstance(messages, list) or not messages: raise ValueError("messages is no list with at least one message")
  out = []
  for i, m in enumerate(messages):
    if not isinstance(m, dict) or not isinstance(m.get("role"), str): raise ValueError(f"messages[{i}] is no object with a role")
    m = dict(m)
    if "content" in m: m["content"] = _content(m["content"], f"messages[{i}]")
    if isinstance(m.get("tool_calls"), list): m["tool_calls"] = [_arguments(c) for c in m["tool_calls"]]
    out.append(m)
  return out


class ChatTemplate:
  """A chat template. `ChatTemplate.from_gguf` makes that of a GGUF file, `huggingface.template_from_folder` that of a folder."""
  def __init__(self, tokenizer: Tokenizer, source: str | None, name: str = _KEY, adds_bos: bool = True) -> None:
    """A template of a given text, or without one the built-in template that fits the control tokens of the vocabulary. name: what errors call it.
    adds_bos: whether `bos` comes before what the template writes, if the tokenizer asks for it and the template does not write it."""
    self._tokenizer, self._template, self._name, self._adds_bos = tokenizer, None, name, adds_bos
    self._built_in = next((f for tokens, f in _BUILT_IN if all((i := tokenizer.id(t)) is not None and tokenizer.is_control(i) for t in tokens)), None)
    if source is not None:
      try: from .template import Template
      except ImportError as e:
        if e.name is None or e.name.partition(".")[0] not in ("jinja2", "markupsafe"): raise
        if self._built_in is None: raise ModuleNotFoundError(f"{name} needs the package jinja2: pip install 'uopd[llm]', or pip install jinja2", name="jinja2") from None
        warnings.warn(f"{name} needs the package jinja2 (pip install jinja2); without it the built-in template {self._built_in.__name__[1:]} takes its place", stacklevel=3)
      else: self._template = Template(source, name)
    elif self._built_in is None: raise ValueError(f"the file has no {name}, and its control tokens are not those of ChatML, Llama 3 or Gemma")

  @staticmethod
  def from_gguf(values: dict[str, Any], tokenizer: Tokenizer) -> ChatTemplate:
    """The template that the values of a GGUF file have, or the built-in one for ChatML, Llama 3 or Gemma that fits the control tokens, if the file has none
    or jinja2 is not installed. A broken template is a ValueError."""
    source = values.get(_KEY)
    if source is not None and not isinstance(source, str): raise ValueError(f"{_KEY} is {type(source).__name__}, which is no text")
    return ChatTemplate(tokenizer, source)

  def render(self, messages: list[Message], tools: list[Any] | None = None, add_generation_prompt: bool = True, **more: Any) -> str:
    """The text for a list of messages, each with `role` and `content` (a text, or a list of text parts). `tools` and all further values go to the template.
    An error of the template, or one that it raises itself, is a ValueError; so is a template that works too long or writes too much."""
    return self._render(_checked(messages), tools, add_generation_prompt, more)

  def encode(self, messages: list[Message], tools: list[Any] | None = None, add_generation_prompt: bool = True, **more: Any) -> list[int]:
    """The tokens for a list of messages, with `bos` if a GGUF file asks for it. Control tokens come from the template alone: one that is written in a message,
    in a tool or in a further value stays text."""
    given = [_checked(messages), tools, more]
    try: seen = str(given)
    except RecursionError: raise ValueError("the messages are nested too deeply") from None
    mark = next((c for c in _MARKS if c not in seen and ascii(c)[1:-1] not in seen), None)
    if mark is None: raise ValueError("the messages have all code points from U+FDD0 to U+FDEF, which are no characters")
    marked = self._marked(given, mark)
    text = self._render(marked[0], marked[1], add_generation_prompt, marked[2])
    ids = self._tokenizer._encode(text, True, mark)
    return self._tokenizer.with_bos(ids) if self._adds_bos else ids

  def _marked(self, value: Any, mark: str) -> Any:
    if isinstance(value, str): return self._tokenizer._vocabulary.control.broken(value, mark)
    if isinstance(value, list): return [self._marked(v, mark) for v in value]
    if isinstance(value, dict): return {self._marked(k, mark): self._marked(v, mark) for k, v in value.items()}
    return value

  def _render(self, messages: list[Message], tools: list[Any] | None, prompt: bool, more: dict[str, Any]) -> str:
    tokenizer = self._tokenizer
    bos, eos = ["" if i is None else tokenizer.text(i) for i in (tokenizer.bos, tokenizer.eos)]
    if self._template is not None:
      return self._template.render({"bos_token": bos, "eos_token": eos, **more, "messages": messages, "tools": tools, "add_generation_prompt": prompt})
    if tools: raise ValueError(f"tools need a {self._name} of the file, and the package jinja2; the built-in templates have no place for them")
    assert self._built_in is not None
    return self._built_in(messages, bos if tokenizer.add_bos else "", prompt)
