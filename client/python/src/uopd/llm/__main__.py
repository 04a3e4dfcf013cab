# SPDX-License-Identifier: MIT
"""python -m uopd.llm MODEL: a conversation with a language model on the terminal, or a server for programs of the OpenAI protocol."""
from __future__ import annotations

import argparse
import os
import secrets
import signal
import sys
import time
from typing import Any

from .. import runtime
from ..errors import Error, FailedPrecondition
from .again import loaded_again
from .conversation import Conversation
from .model import Model
from .sampling import Sampling

_REFUSALS = (ValueError, OSError, ImportError, Error)


def _arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser(prog="python -m uopd.llm", description="A conversation with a language model that a daemon computes. UOPD_ADDRESS is the address of the daemon.")
  parser.add_argument("model", help="a GGUF file, of a model in several files the first one; or a folder in the layout of the Hugging Face Hub")
  parser.add_argument("--max-context", "--max_context", type=int, default=4096, metavar="N", help="the most tokens of a conversation [%(default)s]")
  parser.add_argument("--system", metavar="TEXT", help="what the model is told before the conversation")
  parser.add_argument("--prompt", metavar="TEXT", help="answer this text and end")
  parser.add_argument("--most", type=int, metavar="N", help="the most tokens of an answer")
  parser.add_argument("--temperature", type=float, default=0.0, metavar="T", help="draw tokens at random, the more so the higher this is; 0 takes the likeliest ones [%(default)s]")
  parser.add_argument("--top-k", type=int, default=0, metavar="K", help="draw among the K likeliest words; 0: all [%(default)s]")
  parser.add_argument("--top-p", type=float, default=1.0, metavar="P", help="draw among the likeliest words that have the part P of the probability together [%(default)s]")
  parser.add_argument("--min-p", type=float, default=0.0, metavar="P", help="draw among words that are at least P times as likely as the likeliest one [%(default)s]")
  parser.add_argument("--repeat-penalty", type=float, default=1.0, metavar="R", help="makes words less likely that are among the last 64 tokens; 1: no penalty [%(default)s]")
  parser.add_argument("--seed", type=int, metavar="N", help="equal seeds give equal answers; without one each run has another")
  parser.add_argument("--benchmark", type=int, nargs="?", const=20, metavar="N", help="print the speed of N tokens, and end [%(const)s]")
  parser.add_argument("--serve", type=_address, metavar="[HOST:]PORT", help="answer requests of the OpenAI protocol at http://HOST:PORT/v1, with a page to chat at /; HOST is 127.0.0.1 without one")
  parser.add_argument("--slots", type=int, default=4, metavar="N", help="requests that --serve computes at once, each with memory for --max-context tokens [%(default)s]")
  parser.add_argument("--api-key-file", metavar="FILE", help="keys, one a line, of which --serve asks for one; needed where HOST can be reached from other machines")
  return parser.parse_args()


def _address(text: str) -> tuple[str, int]:
  host, _, port = text.rpartition(":")
  if not port.isascii() or not port.isdigit() or int(port) > 65535: raise argparse.ArgumentTypeError(f"{text!r} is no [HOST:]PORT")
  return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


def _loaded(given: argparse.Namespace) -> Conversation:
  load = Conversation.from_folder if os.path.isdir(given.model) else Conversation.from_gguf
  return load(given.model, given.max_context, given.system)


def _serve(given: argparse.Namespace) -> None:
  from .batch import Batch
  from .serving.endpoints import Endpoints
  from .serving.http import Server, check_reach, keys_in
  host, port = given.serve
  keys = keys_in(given.api_key_file) if given.api_key_file is not None else []
  check_reach(host, keys)
  loaded = _loaded(given)
  def batch_of(model: Model) -> Batch:
    batch = Batch(model, given.slots, ends=loaded.tokenizer.ends)
    batch.warm_up()
    return batch
  def again() -> Batch:
    model = _loaded(given).model
    if model.config != loaded.model.config: raise ValueError(f"{given.model} has another model than before; start the server again")
    return batch_of(model)
  endpoints = Endpoints(os.path.basename(os.path.abspath(given.model)).removesuffix(".gguf"), batch_of(loaded.model), loaded.tokenizer, loaded.template, again=again)
  with Server(host, port, endpoints, keys) as server:
    print(f"{endpoints.name} is served at {server.url}/v1, and a page to chat at {server.url}/", flush=True)
    def end(*_: Any) -> None: raise KeyboardInterrupt
    signal.signal(signal.SIGTERM, end)
    try: server.serve_forever()
    except KeyboardInterrupt: pass
    finally: endpoints.close()


def _benchmark(model: Model, count: int) -> None:
  """Times of single tokens, after some that compile, and what was sent for them."""
  for _ in model.generate([0], 5): pass
  begin, times = time.perf_counter(), []
  before = runtime.stats()
  for _ in model.generate([1], count):
    now = time.perf_counter()
    times.append(now - begin)
    begin = now
  graphs = runtime.stats()["graphs_sent"] - before["graphs_sent"]
  median = sorted(times)[len(times) // 2]
  print(f"{len(times)} tokens, {1e3 * median:.1f} ms each (median), {1 / median:.1f} tokens a second; {graphs} graphs sent")


def _sampling(given: argparse.Namespace) -> Sampling:
  seed = secrets.randbits(64) if given.seed is None else given.seed
  return Sampling(given.temperature, given.top_k, given.top_p, given.min_p, given.repeat_penalty, seed=seed)


def _say(conversation: Conversation, text: str, given: argparse.Namespace) -> None:
  try:
    for piece in conversation.answer(text, given.most, _sampling(given)): print(piece, end="", flush=True)
    print()
  except KeyboardInterrupt: print(" ...")


def _talk(conversation: Conversation, text: str, given: argparse.Namespace) -> Conversation:
  """Answers a text. Gives the conversation to go on with: another one, with all that was said, if the daemon was restarted and has lost the model. A text that is not answered is forgotten."""
  before = conversation.messages
  try: _say(conversation, text, given)
  except FailedPrecondition as e:
    print(f"uopd.llm: {e}; the model is loaded again", file=sys.stderr)
    conversation.messages = before
    conversation = loaded_again(lambda: _loaded(given))
    conversation.messages = before
    _say(conversation, text, given)
  except _REFUSALS:
    conversation.messages = before
    raise
  return conversation


def main() -> int:
  """Returns the exit status."""
  given = _arguments()
  try:
    _sampling(given)
    if given.serve is not None:
      _serve(given)
      return 0
    conversation = _loaded(given)
    if given.benchmark is not None:
      _benchmark(conversation.model, max(2, given.benchmark))
      return 0
    if given.prompt is not None:
      _say(conversation, given.prompt, given)
      return 0
  except _REFUSALS as e:
    print(f"uopd.llm: {e}", file=sys.stderr)
    return 1
  while True:
    try: text = input(">>> ")
    except EOFError:
      print()
      return 0
    except KeyboardInterrupt:
      print()
      continue
    if not text.strip(): continue
    try: conversation = _talk(conversation, text, given)
    except _REFUSALS as e: print(f"uopd.llm: {e}", file=sys.stderr)


if __name__ == "__main__": sys.exit(main())
