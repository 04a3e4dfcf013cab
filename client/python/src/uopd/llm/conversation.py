# SPDX-License-Identifier: MIT
"""A conversation with a language model: messages in, the text of the answer out, piece by piece."""
from __future__ import annotations

import functools
import os
from typing import Any, Iterator

from .batch import Batch, Sequence
from .chat import ChatTemplate, Message
from .model import Model
from .sampling import GREEDY, Sampling
from .tokenizer import Tokenizer


class Conversation:
  """Keeps the messages of both sides. What they have in common with what was computed before is not computed again.

  Not for several threads at once.
  """
  def __init__(self, model: Model, tokenizer: Tokenizer, template: ChatTemplate, system: str | None = None) -> None:
    self.model, self.tokenizer, self.template = model, tokenizer, template
    self._sequence: Sequence | None = None  # the latest answer
    self.messages: list[Message] = [] if system is None else [{"role": "system", "content": system}]

  @functools.cached_property
  def _batch(self) -> Batch: return Batch(self.model, 1, ends=self.tokenizer.ends)

  @staticmethod
  def from_gguf(path: str | os.PathLike[str], max_context: int = 4096, system: str | None = None, device: Any = None) -> Conversation:
    """With the model, the tokenizer and the template of a file."""
    model, values = Model.from_gguf(path, max_context, device)
    tokenizer = Tokenizer.from_gguf(values)
    return Conversation(model, tokenizer, ChatTemplate.from_gguf(values, tokenizer), system)

  @staticmethod
  def from_folder(path: str | os.PathLike[str], max_context: int = 4096, system: str | None = None, device: Any = None) -> Conversation:
    """With the model, the tokenizer and the template of a folder in the layout of the Hugging Face Hub."""
    from .huggingface import Folder, model_from_folder, template_from_folder, tokenizer_from_folder  # only now: `import uopd` imports this module
    folder = Folder(path)
    tokenizer = tokenizer_from_folder(folder)
    template = template_from_folder(folder, tokenizer)
    return Conversation(model_from_folder(folder, max_context, device), tokenizer, template, system)

  def answer(self, text: str, most: int | None = None, sampling: Sampling = GREEDY) -> Iterator[str]:
    """The model's answer to a text of the user, as pieces of text. It ends where the model ends it, after `most` tokens, or with the context. The text and as much of the answer
    as was taken become messages of the conversation when it ends. ValueError if the conversation does not fit into the context; then it stays as it was. The next answer ends this one, whose
    iterator is a RuntimeError then."""
    if not isinstance(text, str): raise TypeError(f"the user's text is {type(text).__name__}")
    question: Message = {"role": "user", "content": text}
    prompt = self.template.encode([*self.messages, question])
    if len(prompt) >= self.model.max_context:
      raise ValueError(f"the conversation has {len(prompt)} tokens; the context has room for {self.model.max_context - 1} and an answer")
    if self._sequence is not None: self._batch.leave(self._sequence)
    sequence = self._sequence = self._batch.join(prompt, most, sampling)
    said, decoder = "", self.tokenizer.decoder(begins=False)
    try:
      while came := self._batch.step():
        token = came[0][1]
        if self.tokenizer.is_end(token): break
        piece = decoder.feed(token)
        said += piece
        if piece: yield piece
        if self._sequence is not sequence: raise RuntimeError("the conversation began another answer, which ended this one")
      piece = decoder.end()
      said += piece
      if piece: yield piece
    finally:
      self._batch.leave(sequence)
      self.messages = [*self.messages, question, {"role": "assistant", "content": said}]  # behind those of an answer that has ended meanwhile
