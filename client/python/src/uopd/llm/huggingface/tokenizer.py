# SPDX-License-Identifier: MIT
"""The tokenizer of a folder: tokenizer.json, and what the files beside it say about the tokens that begin and end a text."""
from __future__ import annotations

from ..tokenizer import Decoder, Tokenizer
from ..vocabulary import CONTROL, MOST_TOKENS, NORMAL, UNUSED, USER, Tokens
from .added import Added, Finders, added_tokens
from .decoders import Chain, MakeStep, decoder_of
from .fields import Fields, is_text
from .folder import MOST_LARGE, Folder
from .models import model_of
from .normalizers import Normalizer, keeps_beginning, normalizer_of
from .pre_tokenizers import PreTokenizer, Word, parts_of, pre_tokenizer_of
from .processors import ends_of

_FILE = "tokenizer.json"
_MOST_MISSING = 1 << 16  # numbers without a token


def _optional(file: Fields, name: str) -> Fields | None: return file.object(name) if name in file else None


class JsonTokenizer(Tokenizer):
  """What a tokenizer.json describes. For several threads at once."""
  def __init__(self, file: Fields, words: int = 0, settings: Fields | None = None, ends: tuple[int, ...] = ()) -> None:
    """words: of the model, which may have more than the tokenizer. settings: tokenizer_config.json. ends: tokens that end what the model says, by other files."""
    self._model = model_of(file.object("model"))
    added = added_tokens(file, settings)
    tokens = _tokens_of(self._model.vocab, added, words, file.where)
    normalizer, pre = _optional(file, "normalizer"), _optional(file, "pre_tokenizer")
    self._normalize: Normalizer | None = normalizer_of(normalizer) if normalizer is not None else None
    self._divide: PreTokenizer | None = pre_tokenizer_of(pre) if pre is not None else None
    if pre is not None and not keeps_beginning(normalizer) and any(p.get("prepend_scheme", "") == "first" for p in parts_of(pre)):
      raise ValueError(f"{file.where} has the prepend_scheme 'first' with a normalizer that may take away the beginning of a text, which is not known here")
    if settings is not None and pre is not None and pre.get("type") == "ByteLevel" and settings.flag("add_prefix_space", pre.get("add_prefix_space")) != pre.get("add_prefix_space"):
      raise settings.wrong("add_prefix_space", f"{file.where} says otherwise")
    self._finders = Finders([t._replace(special=tokens.kinds[t.id] == CONTROL) for t in added], self._normalize, file.name("added_tokens"))
    self._normalized = self._finders.normalized  # what the decoder gets of these tokens
    self._steps: list[MakeStep] = decoder_of(_optional(file, "decoder"))
    self._model.finish({tokens.tokens[i] for i, kind in enumerate(tokens.kinds) if kind == CONTROL})
    processor = _optional(file, "post_processor")
    begin, end = ends_of(processor) if processor is not None else (None, None)
    bos, eos = (_named(settings, name, tokens) for name in ("bos_token", "eos_token"))
    for i in (begin, end, *ends):
      if i is not None and i >= len(tokens.tokens): raise ValueError(f"{file.where} has {len(tokens.tokens)} tokens; token {i} begins or ends texts by it or by the files beside it")
    bos = begin if begin is not None else bos
    add_bos, add_eos = (settings.flag(name, given is not None) if settings is not None else given is not None for name, given in (("add_bos_token", begin), ("add_eos_token", end)))
    super().__init__(tokens, bos, eos if eos is not None else end, add_bos and bos is not None, add_eos, ends)

  def _encoded(self, text: str, special: bool, mark: str) -> list[int]:
    out: list[int] = []
    for begin, end, token in self._finders.raw(text, special):
      if token is not None:
        out.append(token)
        continue
      part = text[begin:end].replace(mark, "") if mark else text[begin:end]
      if self._normalize is not None: part = self._normalize(part)
      for first, last, token in self._finders.normal(part):
        if token is not None: out.append(token)
        else: out += self._model.encode(self._words(part[first:last], begin == 0 and first == 0))
    return out

  def _words(self, text: str, is_first: bool) -> list[str]:
    return [text] if self._divide is None else [w.text for w in self._divide([Word(text, is_first)])]

  def decoder(self, special: bool = False, begins: bool = True) -> Decoder: return _Decoder(self, special, begins)


class _Decoder:
  def __init__(self, tokenizer: JsonTokenizer, special: bool, begins: bool) -> None:
    self._tokenizer, self._special, self._chain = tokenizer, special, Chain(tokenizer._steps, begins)

  def feed(self, id: int) -> str:
    if not self._special and self._tokenizer.is_control(id): return ""
    self._tokenizer._check(id)
    text = self._tokenizer._normalized.get(id) or self._tokenizer._vocabulary.tokens[id]
    return self._chain.feed(text) if text else ""

  def end(self) -> str: return self._chain.end()


def _tokens_of(vocab: dict[str, int], added: list[Added], words: int, where: str) -> Tokens:
  """All tokens by their numbers. Numbers without a token have an empty text."""
  n = max(words, max(vocab.values()) + 1, max((t.id + 1 for t in added), default=0))
  if n > max(words, len(vocab) + len(added)) + _MOST_MISSING: raise ValueError(f"{where} has the token {n - 1}, and no more than {len(vocab) + len(added)} tokens")
  texts, kinds = [""] * n, [UNUSED] * n
  for text, i in vocab.items(): texts[i], kinds[i] = text, NORMAL
  for t in added:
    if not t.text: raise ValueError(f"{where} has the added token {t.id} without a text")
    if t.text in vocab and vocab[t.text] != t.id or texts[t.id] not in ("", t.text): raise ValueError(f"{where} has the added token {t.text!r} as {t.id}; the vocab has {texts[t.id]!r} there")
    texts[t.id], kinds[t.id] = t.text, CONTROL if t.special else USER
  return Tokens(texts, kinds, where)


def _named(settings: Fields | None, name: str, tokens: Tokens) -> int | None:
  """The token that tokenizer_config.json names for a role, as a text or as an object with `content`."""
  if settings is None or name not in settings: return None
  given = settings.get(name)
  text = given.get("content") if isinstance(given, dict) else given
  if type(text) is not str or not is_text(text): raise settings.wrong(name, "the text of a token is possible")
  found = tokens.by_text.get(text)
  if found is None: raise settings.wrong(name, f"{_FILE} has no such token")
  return found


def _ends(folder: Folder) -> tuple[int, ...]:
  """The tokens that end what a model says, by generation_config.json and config.json."""
  out: list[int] = []
  for name in ("generation_config.json", "config.json"):
    if not folder.has(name): continue
    fields = folder.json(name)
    given = fields.get("eos_token_id", [])
    for i in given if isinstance(given, list) else [given]:
      if type(i) is not int or i < 0: raise fields.wrong("eos_token_id", "the numbers of tokens are possible")
      out.append(i)
  return tuple(out)


def tokenizer_from_folder(folder: Folder) -> JsonTokenizer:
  """The tokenizer of a folder. It has as many tokens as the model of config.json, where the folder has one; those without a text are none of any text.

  A file or a part of it that is missing, breaks a rule, or is not known here is a ValueError that names it, or an OSError. Most tokenizers need the package
  regex: `pip install 'uopd[llm]'`.
  """
  words = folder.json("config.json").size("vocab_size", MOST_TOKENS) if folder.has("config.json") else 0
  return JsonTokenizer(folder.json(_FILE, MOST_LARGE), words, folder.settings(), _ends(folder))
