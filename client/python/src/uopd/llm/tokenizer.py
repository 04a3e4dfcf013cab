# SPDX-License-Identifier: MIT
"""Tokenizers: texts to tokens and back. Those of GGUF files are made here."""
from __future__ import annotations

import abc
import codecs
import re
from collections.abc import Iterable
from typing import Any, Protocol

from .bpe import ByteLevel
from .sentencepiece import ScoredBPE, Unigram
from .vocabulary import BYTE, CONTROL, UNKNOWN, USER, Tokens, Vocabulary, flag, number

_SURROGATES = re.compile("[\ud800-\udfff]")


class Decoder(Protocol):
  """Makes text of tokens that come one by one. `Tokenizer.decoder` makes one."""
  def feed(self, id: int) -> str:
    """The text that is complete with one more token. Bytes of a character that is not complete are held back."""
  def end(self) -> str:
    """What was held back: U+FFFD, or nothing."""


class Tokenizer(abc.ABC):
  """What all tokenizers have. `Tokenizer.from_gguf` makes that of a GGUF file, `huggingface.tokenizer_from_folder` that of a folder."""
  def __init__(self, vocabulary: Tokens, bos: int | None, eos: int | None, add_bos: bool, add_eos: bool, ends: Iterable[int | None]) -> None:
    """ends: tokens that end what a model says, besides `eos` and those with the usual texts."""
    self._vocabulary = vocabulary
    self.bos, self.eos, self.add_bos, self.add_eos = bos, eos, add_bos, add_eos
    self._ends = vocabulary.ends | {i for i in (eos, *ends) if i is not None}

  @staticmethod
  def from_gguf(values: dict[str, Any], pre: str | None = None) -> Tokenizer:
    """The tokenizer that the values of a GGUF file describe. A `pre` replaces the file's `tokenizer.ggml.pre`, which some old files lack.

    A value that is missing, wrong or not known here is a ValueError that names it. Models: gpt2 (byte-level BPE), llama (BPE of SentencePiece), t5 (its
    unigram models). Byte-level BPE needs the package regex: `pip install 'uopd[llm]'`.
    """
    model = values.get("tokenizer.ggml.model")
    if model is None: raise ValueError("the file has no tokenizer.ggml.model")
    if not isinstance(model, str) or model not in ("gpt2", "llama", "t5"): raise ValueError(f"tokenizer.ggml.model is {model!r}; gpt2, llama and t5 are known here")
    vocabulary = Vocabulary(values)
    if model == "gpt2": return _OfGguf(vocabulary, ByteLevel(values, vocabulary, pre), values)
    if model == "llama": return _OfGguf(vocabulary, ScoredBPE(values, vocabulary), values)
    return _OfGguf(vocabulary, Unigram(values, vocabulary), values)

  def __len__(self) -> int: return len(self._vocabulary.tokens)

  def encode(self, text: str, special: bool = False) -> list[int]:
    """The tokens of a text, without those that begin and end it (`with_bos`). With `special`, control tokens that are written in the text, such as
    <|im_end|>, are these tokens: for a text that a chat template made. Without it they are ordinary characters, so that a user's text cannot end a turn.
    Surrogates without their other half become U+FFFD."""
    return self._encode(text, special, "")

  def _encode(self, text: str, special: bool, mark: str) -> list[int]:
    """As encode. The mark is taken out of the text where the control tokens have been found."""
    return self._encoded(text if text.isascii() else _SURROGATES.sub("\ufffd", text), special, mark)

  @abc.abstractmethod
  def _encoded(self, text: str, special: bool, mark: str) -> list[int]:
    """As _encode, of a text without surrogates."""

  def with_bos(self, ids: list[int]) -> list[int]:
    """The tokens with `bos` before them, if the file asks for it and they do not begin with it."""
    return [self.bos, *ids] if self.add_bos and self.bos is not None and ids[:1] != [self.bos] else ids

  def id(self, token: str) -> int | None:
    """The token with this text, as it is written in the file, or None."""
    return self._vocabulary.by_text.get(token)

  def text(self, id: int) -> str:
    """A token as it is written in the file: with U+2581 or U+0120 for a space."""
    self._check(id)
    return self._vocabulary.tokens[id]

  def is_control(self, id: int) -> bool:
    """Whether a token is none of a text, such as <|im_start|>."""
    self._check(id)
    return self._vocabulary.kinds[id] in (CONTROL, UNKNOWN)

  @property
  def ends(self) -> frozenset[int]:
    """The tokens that end what a model says."""
    return frozenset(self._ends)
  def is_end(self, id: int) -> bool:
    """Whether a model says by this token that it has ended: the file's eos, eot and eom, and control tokens with the texts that are usual for it."""
    self._check(id)
    return id in self._ends

  def decode(self, ids: Iterable[int], special: bool = False) -> str:
    """The text of tokens. Control tokens are left out, or with `special` written. What is no UTF-8 becomes U+FFFD."""
    decoder = self.decoder(special)
    return "".join([decoder.feed(i) for i in ids]) + decoder.end()

  @abc.abstractmethod
  def decoder(self, special: bool = False, begins: bool = True) -> Decoder:
    """Decodes token by token: what it gives adds up to what `decode` gives. With `begins=False` the tokens go on with a text, so that a space at their
    beginning is one; else it is the one that SentencePiece puts before each text, and is left out."""

  def _check(self, id: int) -> None:
    if not 0 <= id < len(self._vocabulary.tokens): raise ValueError(f"token {id} is none of the {len(self._vocabulary.tokens)} of the vocabulary")


class _OfGguf(Tokenizer):
  """The tokenizer of a GGUF file."""
  def __init__(self, vocabulary: Vocabulary, method: ByteLevel | ScoredBPE | Unigram, values: dict[str, Any]) -> None:
    n = len(vocabulary.tokens)
    self._method = method
    usual = {"llama": (1, 2), "t5": (None, 1)}.get(values["tokenizer.ggml.model"], (None, None))
    bos, eos = [given if (given := number(values, f"{name}_token_id", n)) is not None else i if i is None or i < n else None for name, i in zip(("bos", "eos"), usual)]
    add_bos, add_eos = flag(values, "add_bos_token", method.add_bos), flag(values, "add_eos_token", method.add_eos)
    if add_bos and bos is None: raise ValueError("the file has no tokenizer.ggml.bos_token_id, which its texts begin with")
    if add_eos and eos is None: raise ValueError("the file has no tokenizer.ggml.eos_token_id, which its texts end with")
    super().__init__(vocabulary, bos, eos, add_bos, add_eos, (number(values, "eot_token_id", n), number(values, "eom_token_id", n)))
    self._bytes: dict[int, bytes] = {}

  def _encoded(self, text: str, special: bool, mark: str) -> list[int]:
    out: list[int] = []
    for part in (self._vocabulary.control if special else self._vocabulary.user).parts(text):
      if isinstance(part, int): out.append(part)
      else: out += self._method.encode(part.replace(mark, "") if mark else part)
    return out

  def decoder(self, special: bool = False, begins: bool = True) -> Decoder: return _DecoderOfGguf(self, special, begins)

  def _bytes_of(self, id: int, special: bool) -> bytes:
    self._check(id)
    kind = self._vocabulary.kinds[id]
    if kind in (CONTROL, UNKNOWN) and not special: return b""
    found = self._bytes.get(id)
    if found is not None: return found
    token = self._vocabulary.tokens[id]
    if kind == BYTE and (m := re.fullmatch("<0x([0-9A-Fa-f]{2})>", token)): found = bytes.fromhex(m[1])
    elif kind in (CONTROL, UNKNOWN, USER): found = token.encode("utf-8", "surrogateescape")
    else: found = self._method.bytes_of(token)
    self._bytes[id] = found
    return found


class _DecoderOfGguf:
  def __init__(self, tokenizer: _OfGguf, special: bool, begins: bool) -> None:
    self._tokenizer, self._special = tokenizer, special
    self._strip = begins and tokenizer._method.add_space_prefix
    self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

  def feed(self, id: int) -> str:
    raw = self._tokenizer._bytes_of(id, self._special)
    if self._strip and raw:
      self._strip = False
      raw = raw.removeprefix(b" ")
    return self._utf8.decode(raw)

  def end(self) -> str: return self._utf8.decode(b"", final=True)
