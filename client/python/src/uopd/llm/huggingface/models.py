# SPDX-License-Identifier: MIT
"""The `model` of tokenizer.json: words to tokens by BPE, or by the segmentation of a unigram model."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..merges import merge
from ..segments import PENALTY, Segments
from ..sentencepiece import SPACE, words_of
from ..vocabulary import MOST_TOKENS
from ..words import Words
from .fields import Fields, finite, is_text, shown

Pair = tuple[str, str]


def _checked_texts(texts: list[Any], where: str) -> None:
  if not 0 < len(texts) <= MOST_TOKENS: raise ValueError(f"{where} has {len(texts)} tokens; 1 to {MOST_TOKENS} are possible")
  wrong = next((t for t in texts if type(t) is not str or not is_text(t)), None)
  if wrong is not None: raise ValueError(f"{where} has {shown(wrong)}, which is no text")


def _vocabulary(model: Fields) -> dict[str, int]:
  vocab: dict[str, int] = model.object("vocab").values
  where = model.name("vocab")
  _checked_texts(list(vocab), where)
  seen: dict[int, str] = {}
  for text, i in vocab.items():
    if type(i) is not int or not 0 <= i < MOST_TOKENS: raise ValueError(f"{where} has {shown(i)} for the token {shown(text)}; 0 to {MOST_TOKENS - 1} are possible")
    if seen.setdefault(i, text) != text: raise ValueError(f"{where} has {i} for two tokens, {shown(seen[i])} and {shown(text)}")
  return vocab


def _byte_ids(ids: dict[str, int], where: str) -> list[int]:
  names = [f"<0x{b:02X}>" for b in range(256)]
  missing = next((name for name in names if name not in ids), None)
  if missing is not None: raise ValueError(f"{where} has byte_fallback, and its vocab no {missing}")
  return [ids[name] for name in names]


class BPE:
  """Neighbours are merged by their order in the file. `ids` has the tokens that a text can become, those of the vocabulary that control nothing."""
  def __init__(self, model: Fields) -> None:
    model.only(("type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"))
    if "dropout" in model and model.get("dropout") != 0: raise model.wrong("dropout", "not known here")
    for name in ("continuing_subword_prefix", "end_of_word_suffix"):
      if model.text(name, ""): raise model.wrong(name, "not known here")
    self.vocab = _vocabulary(model)
    self._where = model.where
    self._unknown = model.text("unk_token") if "unk_token" in model else None
    if self._unknown is not None and self._unknown not in self.vocab: raise model.wrong("unk_token", "the vocab does not have it")
    self._fuses, self._whole = model.flag("fuse_unk", False), model.flag("ignore_merges", False)
    self._bytes = _byte_ids(self.vocab, model.where) if model.flag("byte_fallback", False) else None
    self._ranks = self._merges(model.items("merges", MOST_TOKENS), model.name("merges"))
    self._ids = self.vocab

  def _merges(self, merges: list[Any], where: str) -> dict[Pair, int]:
    ranks: dict[Pair, int] = {}
    for rank, given in enumerate(merges):
      pair = given.split(" ") if type(given) is str else given
      if type(pair) is not list or len(pair) != 2 or not all(type(t) is str and t for t in pair): raise ValueError(f"{where}[{rank}] is {shown(given)}, which is no pair of tokens")
      left, right = pair
      missing = next((t for t in (left, right, left + right) if t not in self.vocab), None)
      if missing is not None: raise ValueError(f"{where}[{rank}] is {shown(given)}; the vocab has no {shown(missing)}")
      ranks[left, right] = rank
    return ranks

  def finish(self, control: set[str]) -> None:
    """Says which tokens control: no text becomes one of these, nor do merges make it."""
    self._ids = {text: i for text, i in self.vocab.items() if text not in control}
    self._ranks = {pair: rank for pair, rank in self._ranks.items() if pair[0] + pair[1] not in control}
    # With bytes for every character, none is left out; so what a merge joins lies side by side in the text.
    self._divide = words_of(left + right for left, right in self._ranks) if self._bytes is not None else None
    self._words = Words(self._word)

  def _symbols(self, word: str) -> list[str]:
    """The characters of a word, bytes for those that are no tokens, or the unknown token."""
    out: list[str] = []
    was_unknown = False
    for c in word:
      if c in self._ids: out.append(c)
      elif self._bytes is not None: out += [f"<0x{b:02X}>" for b in c.encode()]
      elif self._unknown is not None:
        if not (self._fuses and was_unknown): out.append(self._unknown)
        was_unknown = True
        continue
      else: continue  # which does not end a row of unknown ones
      was_unknown = False
    return out

  def _word(self, word: str) -> list[int]:
    if self._whole and word in self._ids: return [self._ids[word]]
    ranks, vocab = self._ranks, self.vocab
    return [vocab[s] for s in merge(self._symbols(word), lambda left, right: ranks.get((left, right)))]

  def encode(self, words: list[str]) -> list[int]:
    if self._divide is None or self._whole: return self._words.ids(words)
    return self._words.ids([part for word in words for part in (self._divide.findall(word) if SPACE in word else (word,))])


class Unigram:
  """The segmentation with the largest sum of scores."""
  def __init__(self, model: Fields) -> None:
    model.only(("type", "unk_id", "vocab", "byte_fallback"))
    pairs = model.items("vocab", MOST_TOKENS)
    where = model.name("vocab")
    for i, pair in enumerate(pairs):
      if type(pair) is not list or len(pair) != 2 or not finite(pair[1]): raise ValueError(f"{where}[{i}] is {shown(pair)}, which is no text with a finite score")
    texts = [pair[0] for pair in pairs]
    _checked_texts(texts, where)
    self.vocab: dict[str, int] = {}
    for i, text in enumerate(texts):
      if self.vocab.setdefault(text, i) != i: raise ValueError(f"{where} has the token {shown(text)} twice, as {self.vocab[text]} and {i}")
    self._scores = [float(pair[1]) for pair in pairs]
    self._unknown = model.get("unk_id")
    if type(self._unknown) is not int or not 0 <= self._unknown < len(texts): raise model.wrong("unk_id", f"the vocab has {len(texts)} tokens")
    self._bytes = _byte_ids(self.vocab, model.where) if model.flag("byte_fallback", False) else None

  def finish(self, control: set[str]) -> None:
    """As BPE's."""
    self._ids = {text: i for text, i in self.vocab.items() if text and text not in control and i != self._unknown}
    self._segments = Segments({text: self._scores[i] for text, i in self._ids.items()}, min(self._scores) - PENALTY)
    self._words = Words(self._word)

  def _word(self, word: str) -> list[int]:
    out: list[int] = []
    was_unknown = False
    for segment in self._segments.of(word):
      known = self._ids.get(segment)
      if known is not None: out.append(known)
      elif self._bytes is not None: out += [self._bytes[b] for b in segment.encode()]
      elif not was_unknown: out.append(self._unknown)  # one for all unknown characters that follow each other
      was_unknown = known is None
    return out

  def encode(self, words: list[str]) -> list[int]: return self._words.ids(words)


_KNOWN: dict[str, Callable[[Fields], BPE | Unigram]] = {"BPE": BPE, "Unigram": Unigram}


def model_of(model: Fields) -> BPE | Unigram:
  """The model. ValueError names a kind or a field that is not known here."""
  # Files of old versions of the format do not name the kind of BPE.
  return _KNOWN[model.one_of("type", tuple(_KNOWN), "BPE" if "merges" in model else None)](model)
