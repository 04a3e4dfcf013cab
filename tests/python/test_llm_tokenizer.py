# SPDX-License-Identifier: MIT
"""Tokenizers of GGUF files, with small vocabularies that are made here: against plain implementations, round trips, streams, values that break the rules."""
import functools
import itertools
import json
import random
import struct
import subprocess
import sys
import time

import pytest
from uopd.llm.bpe import CHARACTERS
from uopd.llm.splitting import PATTERNS, Splitter
from uopd.llm.tokenizer import Tokenizer

SPACE = "\u2581"
POOLS = ["abcdefgh", "ABC'", " ", "  \t\n\r", "0123456789", "äßéİſ", "абв", "漢字かな한", "🙂👍🏽🇩🇪", "\u0301\u200d\u00a0\u3000\u0085", "!?.,<|>_-/", "\x00\x1c\x7f", "\ud800\udfff"]
TRAINING = "the cat sat on the mat, and that hat is the one that the other cat had. It's 12345 or 777!  \n\n  aaaaaaaa häßlich 漢字漢字 🙂🙂 " * 3


def text(r, most=40):
  return "".join(r.choice(r.choice(POOLS)) for _ in range(r.randrange(most)))


def clean(s):
  """A text as the tokenizer sees it: surrogates become U+FFFD."""
  return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in s)


def joined(symbols, pair):
  """All places where the pair is, from the left."""
  out = []
  for s in symbols:
    if out and (out[-1], s) == pair: out[-1] += s
    else: out.append(s)
  return out


@functools.cache
def trained(pre="gpt-2", count=150):
  """A vocabulary of byte-level BPE: 256 bytes, the merges of the most frequent pairs, and control tokens."""
  words = ["".join(CHARACTERS[b] for b in w.encode()) for w in Splitter(pre)(TRAINING)]
  parts, merges = [list(w) for w in words], []
  for _ in range(count):
    pairs = [p for w in parts for p in itertools.pairwise(w)]
    if not pairs: break
    best = max(sorted(set(pairs)), key=pairs.count)
    merges.append(best)
    parts = [joined(w, best) for w in parts]
  tokens = list(CHARACTERS) + [a + b for a, b in merges]
  tokens = list(dict.fromkeys(tokens))
  kinds = [1] * len(tokens) + [3, 3, 3, 4]
  tokens += ["<|im_start|>", "<|im_end|>", "<|im_end|>more", "<tool>"]
  at = {t: i for i, t in enumerate(tokens)}
  return {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": kinds,
          "tokenizer.ggml.merges": [f"{a} {b}" for a, b in merges], "tokenizer.ggml.bos_token_id": at["<|im_start|>"], "tokenizer.ggml.eos_token_id": at["<|im_end|>"]}


def naive_bpe(word, values):
  """Merges the pair of neighbours with the best rank, the leftmost of them, again and again."""
  ranks = {tuple(m.split(" ")): i for i, m in reversed(list(enumerate(values["tokenizer.ggml.merges"])))}
  parts = [CHARACTERS[b] for b in word.encode()]
  while True:
    pairs = [(ranks[p], i) for i, p in enumerate(itertools.pairwise(parts)) if p in ranks]
    if not pairs: break
    _, i = min(pairs)
    parts[i:i + 2] = [parts[i] + parts[i + 1]]
  return [values["tokenizer.ggml.tokens"].index(p) for p in parts]


@pytest.mark.parametrize("pre", sorted(PATTERNS))
def test_every_pattern_keeps_all_of_a_text(pre):
  r, split = random.Random(1), Splitter(pre)
  for _ in range(300):
    s = text(r)
    words = split(s)
    assert "".join(words) == s and all(words)


# What the patterns differ in, as the models' authors have it.
@pytest.mark.parametrize("pre, given, want", [
  ("gpt-2", "I'm 12345, you'LL  go\n\n x", ["I", "'m", " 12345", ",", " you", "'", "LL", " ", " go", "\n\n", " x"]),
  ("smollm", "a 123 b", ["a", " ", "1", "2", "3", " b"]),
  ("smollm", "a  1", ["a", "  ", "1"]),
  ("llama-bpe", "I'm 12345, you'LL  go\n\n x", ["I", "'m", " ", "123", "45", ",", " you", "'LL", " ", " go", "\n\n", " x"]),
  ("llama-bpe", "a   12  ", ["a", "  ", " ", "12", "  "]),
  ("gpt-4o", "a   ! ", ["a", "  ", " !", " "]),
  ("qwen2", "x=123\r\n y", ["x", "=", "1", "2", "3", "\r\n", " y"]),
  ("gpt-4o", "HelloWorld's  ABCdef 1234/\n", ["Hello", "World's", " ", " ABCdef", " ", "123", "4", "/\n"]),
  ("tekken", "HelloWorld's 12", ["Hello", "World", "'s", " ", "1", "2"]),
  ("dbrx", "12345", ["123", "45"]),
  ("olmo", "12345 x", ["12345", " x"]),
  ("deepseek-llm", "ab 12\n漢字!", ["ab", " ", "12", "\n", "漢字", "!"]),
  ("deepseek-v3", "ab 1234 漢字!x", ["ab", " ", "123", "4", " ", "漢字", "!x"]),
  ("starcoder", "x12", ["x", "1", "2"]),
  ("default", "a.b 12345", ["a", ".", "b", " ", "123", "45"]),
  ("qwen35", "e\u0301a", ["e\u0301a"]),
  ("bloom", "ab, cd", ["ab", ",", " cd"]),
])
def test_patterns(pre, given, want):
  assert Splitter(pre)(given) == want


@pytest.mark.parametrize("pre", ["gpt-2", "smollm", "qwen2", "default", "deepseek-v3"])
def test_bpe_against_the_plain_one(pre):
  values = trained(pre)
  t, split, r = Tokenizer.from_gguf(values), Splitter(pre), random.Random(2)
  for _ in range(400):
    s = text(r)
    assert t.encode(s) == [i for w in split(clean(s)) for i in (naive_bpe(w, values) if w else [])], s
  for s in ("a" * 300, "ab" * 200, "that" * 100, "cat the hat" * 30):
    assert t.encode(s) == [i for w in split(s) for i in naive_bpe(w, values)]


def test_bpe_with_ranks_in_any_order():
  """Merges whose parts come later in the file than what they make."""
  r = random.Random(3)
  for _ in range(60):
    made = {a + b: (a, b) for _ in range(3) for a, b in [r.sample("abc", 2)]}
    for _ in range(12):
      a, b = r.choice(["a", "b", "c", *made]), r.choice(["a", "b", "c", *made])
      if len(a + b) < 9: made.setdefault(a + b, (a, b))
    merges = list(made.values())
    r.shuffle(merges)
    values = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": [*CHARACTERS, *made], "tokenizer.ggml.merges": [f"{a} {b}" for a, b in merges]}
    t = Tokenizer.from_gguf(values)
    for _ in range(20):
      word = "".join(r.choice("abc") for _ in range(r.randrange(30)))
      assert t.encode(word) == (naive_bpe(word, values) if word else [])


def test_a_word_that_is_a_token_is_not_merged_with_llama3():
  tokens = [*CHARACTERS, "ab", "abc"]
  values = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": ["a b"], "tokenizer.ggml.add_bos_token": False}
  assert Tokenizer.from_gguf(values | {"tokenizer.ggml.pre": "llama-bpe"}).encode("abc") == [257]
  assert Tokenizer.from_gguf(values | {"tokenizer.ggml.pre": "gpt-2"}).encode("abc") == [256, ord("c")]
  assert Tokenizer.from_gguf(values, pre="qwen2").encode("abc") == Tokenizer.from_gguf(values, pre="gpt-2").encode("abc") != [257]


@pytest.mark.parametrize("pre", ["gpt-2", "smollm", "llama-bpe", "gpt-4o", "tekken", "deepseek-llm"])
def test_round_trip(pre):
  t, r = Tokenizer.from_gguf(trained("gpt-2") | {"tokenizer.ggml.pre": pre}), random.Random(4)
  for _ in range(300):
    s = text(r, 80)
    assert t.decode(t.encode(s)) == clean(s)
  assert t.encode("") == [] and t.decode([]) == ""


def test_control_tokens_only_where_they_are_asked_for():
  t = Tokenizer.from_gguf(trained())
  start, end, longer, tool = [t.id(x) for x in ("<|im_start|>", "<|im_end|>", "<|im_end|>more", "<tool>")]
  s = "<|im_start|>user\nhi<|im_end|>more<tool>x<|im_end|>"
  marked = t.encode(s, special=True)
  assert [i for i in marked if i in (start, end, longer, tool)] == [start, longer, tool, end]  # of two that begin at a place the longer one
  plain = t.encode(s)
  assert not {start, end, longer} & set(plain) and tool in plain  # a token that the model's user defined is none of control
  assert t.decode(plain) == s == t.decode(marked, special=True)
  assert t.decode(marked) == "user\nhi<tool>x"
  assert t.encode("<|im_start|", special=True) == t.encode("<|im_start|")
  assert t.is_control(start) and not t.is_control(tool)


def test_no_merge_makes_a_control_token():
  values = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": [*CHARACTERS, "ab", "abc"], "tokenizer.ggml.token_type": [1] * 257 + [3],
            "tokenizer.ggml.merges": ["a b", "ab c"]}
  for pre in ("gpt-2", "llama-bpe"):
    t = Tokenizer.from_gguf(values | {"tokenizer.ggml.pre": pre, "tokenizer.ggml.add_bos_token": False})
    assert 257 not in t.encode("abc abc") and t.decode(t.encode("abc abc")) == "abc abc"
    assert t.encode("abc", special=True) == [257]
  ids = scored({"a": -1.0, "b": -1.0, "ab": -2.0, "abc": -0.1}, kinds={"abc": 3}).encode("abcabc")
  assert len(ids) and all(i != 4 for i in ids)


def test_ends():
  values = trained()
  t = Tokenizer.from_gguf(values)
  assert t.eos == t.id("<|im_end|>") and t.is_end(t.eos) and not t.is_end(t.bos) and not t.is_end(65)
  # Ends by their texts, if they are control tokens; a user's token of such a text is one, and an ordinary word is not.
  more = ["<|eot_id|>", "<end_of_turn>", "</s>", "<|endoftext|>", "<|end|>"]
  t = Tokenizer.from_gguf({**values, "tokenizer.ggml.tokens": values["tokenizer.ggml.tokens"] + more, "tokenizer.ggml.token_type": values["tokenizer.ggml.token_type"] + [3, 4, 1, 3, 3]})
  assert [t.is_end(t.id(m)) for m in more] == [True, True, False, True, True]
  assert t.id("<end_of_turn>") not in t.encode("<end_of_turn>") and t.id("<end_of_turn>") in t.encode("<end_of_turn>", special=True)
  t = Tokenizer.from_gguf({**values, "tokenizer.ggml.tokens": values["tokenizer.ggml.tokens"] + ["<|end|>", "<|return|>", "<|call|>"],
                           "tokenizer.ggml.token_type": values["tokenizer.ggml.token_type"] + [3, 3, 3]})
  assert [t.is_end(t.id(m)) for m in ("<|end|>", "<|return|>", "<|call|>")] == [False, True, True]
  t = Tokenizer.from_gguf({**values, "tokenizer.ggml.eot_token_id": 70})
  assert t.is_end(70)
  for wrong in (-1, len(t)):
    for f in (t.is_end, t.is_control, t.text, lambda i: t.decode([i])):
      with pytest.raises(ValueError, match=f"token {wrong}"): f(wrong)


def test_bos():
  values = trained()
  assert Tokenizer.from_gguf(values).with_bos([5]) == [5]
  t = Tokenizer.from_gguf(values | {"tokenizer.ggml.add_bos_token": True})
  assert t.with_bos([5]) == [t.bos, 5] == t.with_bos([t.bos, 5]) and t.with_bos([]) == [t.bos]
  assert Tokenizer.from_gguf(values | {"tokenizer.ggml.pre": "llama-bpe"}).add_bos  # as these files mean it


def test_streams():
  t, r = Tokenizer.from_gguf(trained()), random.Random(5)
  for _ in range(100):
    ids = t.encode(clean(text(r)))
    if r.random() < 0.5: ids = [r.randrange(len(t)) for _ in range(20)]  # mostly no UTF-8
    decoder = t.decoder()
    pieces = [decoder.feed(i) for i in ids] + [decoder.end()]
    raw = b"".join(bytes(CHARACTERS.index(c) for c in t.text(i)) if i < len(t) - 4 else b"<tool>" * (i == len(t) - 1) for i in ids)
    assert "".join(pieces) == t.decode(ids) == raw.decode("utf-8", "replace")
  decoder = t.decoder()
  a, b, c, d = "🙂".encode()
  assert [decoder.feed(t.id(CHARACTERS[x])) for x in (a, b, c, d, a, b, ord("x"), 0xff)] == ["", "", "", "🙂", "", "", "\ufffdx", "\ufffd"]
  assert decoder.end() == "" and decoder.feed(t.id(CHARACTERS[a])) == "" and decoder.end() == "\ufffd"


def test_bytes_that_the_vocabulary_lacks_are_left_out():
  tokens = [c for b, c in enumerate(CHARACTERS) if b != 7]
  t = Tokenizer.from_gguf({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": []})
  assert t.decode(t.encode("a\x07b")) == "ab"


def seconds(f, *arguments):
  return min(timed(f, *arguments) for _ in range(3))


def timed(f, *arguments):
  start = time.perf_counter()
  f(*arguments)
  return time.perf_counter() - start


def test_long_words_take_no_quadratic_time():
  values = trained()
  doubling = ["a" * (1 << i) for i in range(12)]
  tokens = values["tokenizer.ggml.tokens"] + [d for d in doubling[1:] if d not in values["tokenizer.ggml.tokens"]]
  merges = values["tokenizer.ggml.merges"] + [f"{d} {d}" for d in doubling[:-1]]
  t = Tokenizer.from_gguf({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": merges})
  s = scored({"a" * (1 << i): -1.0 - i for i in range(12)} | {SPACE: -1.0})
  u = unigram({"a" * i: -1.0 - i / 100 for i in range(1, 12)} | {SPACE: -1.0})
  for tokenizer in (t, s, u):
    short, long = seconds(tokenizer.encode, "a" * 2_000), seconds(tokenizer.encode, "a" * 32_000)
    assert long < 16 * short * 4, (short, long)  # 16 times as much; quadratic would be 256 times
  assert t.decode(t.encode("a" * 32_000)) == "a" * 32_000


def test_english_is_fast():
  t, r = Tokenizer.from_gguf(trained()), random.Random(6)
  words = ["".join(r.choice("etaoinshrdlu") for _ in range(r.randrange(2, 9))) for _ in range(3000)]
  s = " ".join(r.choice(words) for _ in range(17_000))
  assert len(s) > 90_000
  assert min(timed(Tokenizer.from_gguf(trained()).encode, s) for _ in range(3)) < 3  # 0.1 s on a machine of its own


# SentencePiece

def scored(scores, kinds=None, more=None, **others):
  tokens = ["<unk>", *scores, "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))]
  kind = lambda t: (kinds or {}).get(t, 2 if t == "<unk>" else 3 if t in ("<s>", "</s>") else 6 if t.startswith("<0x") else 1)
  values = {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.scores": [float(scores.get(t, 0)) for t in tokens],
            "tokenizer.ggml.token_type": [kind(t) for t in tokens], "tokenizer.ggml.bos_token_id": tokens.index("<s>"), "tokenizer.ggml.eos_token_id": tokens.index("</s>")}
  return Tokenizer.from_gguf(values | (more or {}) | {f"tokenizer.ggml.{k}": v for k, v in others.items()})


def unigram(scores, more=None, **others):
  tokens = ["<pad>", "</s>", "<unk>", *scores]
  return Tokenizer.from_gguf({"tokenizer.ggml.model": "t5", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.scores": [0.0, 0.0, 0.0, *scores.values()],
                              "tokenizer.ggml.token_type": [3, 3, 2] + [1] * len(scores)} | (more or {}) | {f"tokenizer.ggml.{k}": v for k, v in others.items()})


def test_scores_beyond_the_range_of_floats():
  """Sums of them are infinite, and the text is divided all the same."""
  t = unigram({"a": -1e308, "b": -1.5e308, "ac": 1.7e308})
  assert t.encode("ac" * 20) and t.encode("xy")
  assert t.decode(t.encode("ba" * 20)) == "ba" * 20


def naive_scored(s, scores):
  parts = list(s)
  while True:
    pairs = [(-scores[a + b], i) for i, (a, b) in enumerate(itertools.pairwise(parts)) if a + b in scores]
    if not pairs: return parts
    _, i = min(pairs)
    parts[i:i + 2] = [parts[i] + parts[i + 1]]


@pytest.mark.parametrize("inside", [False, True])
def test_scored_bpe_against_the_plain_one(inside):
  """With tokens that have a space behind a letter, where a text must not be divided into words, and without."""
  r = random.Random(8)
  for _ in range(40):
    alphabet = "abc" + SPACE
    scores = {c: -9.0 for c in "ab" + SPACE}  # c has no token, and becomes a byte
    for _ in range(25):
      token = "".join(r.choice(alphabet) for _ in range(r.randrange(2, 5)))
      if inside or SPACE not in token.lstrip(SPACE): scores[token] = -float(r.randrange(1, 9))
    t = scored(scores)
    for _ in range(40):
      s = "".join(r.choice("abc  é") for _ in range(r.randrange(1, 16)))
      want = []
      for part in naive_scored(SPACE + s.replace(" ", SPACE), scores): want += [part] if part in scores else [f"<0x{b:02X}>" for b in part.encode()]
      assert [t.text(i) for i in t.encode(s)] == want, s
      assert t.decode(t.encode(s)) == s


def test_spaces_of_sentencepiece():
  scores = {SPACE: -1.0, "a": -1.0, SPACE + "a": -0.5}
  t = scored(scores)
  show = lambda t, s, special=False: [t.text(i) for i in t.encode(s, special)]
  assert show(t, "a a") == [SPACE + "a", SPACE + "a"] and show(t, " a") == [SPACE, SPACE + "a"] and show(t, "") == []
  assert show(t, "a\n") == [SPACE + "a", "<0x0A>"]
  assert show(t, "a<s>a", True) == [SPACE + "a", "<s>", SPACE + "a"] and show(t, "<s>", True) == ["<s>"]
  assert t.decode(t.encode(" a")) == " a" and t.add_bos and t.with_bos([]) == [t.id("<s>")]
  assert t.decode(t.encode("a<s>a", True)) == "a a"
  t = scored(scores, add_space_prefix=False)
  assert show(t, "a a") == ["a", SPACE + "a"] and t.decode(t.encode(" a")) == " a"
  # A stream that goes on with a text keeps its first space.
  t = scored(scores)
  assert t.decoder().feed(t.id(SPACE + "a")) == "a" and t.decoder(begins=False).feed(t.id(SPACE + "a")) == " a"
  # <0x0A> that is written in a text is text.
  assert t.id("<0x41>") not in t.encode("<0x41>", special=True) and t.decode(t.encode("<0x41>")) == "<0x41>"
  d = t.decoder()
  assert [d.feed(t.id(f"<0x{b:02X}>")) for b in "é".encode()] == ["", "é"]


def best_of_all(s, scores, worst):
  """The best sum of scores of all segmentations."""
  if not s: return 0.0
  options = [scores[s[:n]] + best_of_all(s[n:], scores, worst) for n in range(1, len(s) + 1) if s[:n] in scores]
  if s[0] not in scores: options.append(worst + best_of_all(s[1:], scores, worst))
  return max(options)


def test_unigram_against_all_segmentations():
  r = random.Random(9)
  for _ in range(60):
    scores = {"".join(r.choice("abc" + SPACE) for _ in range(r.randrange(1, 4))): -r.random() * 10 for _ in range(14)}
    t, worst = unigram(scores, add_space_prefix=True), min(scores.values()) - 10
    for _ in range(30):
      s = "".join(r.choice("abcd ") for _ in range(r.randrange(1, 11)))
      written = (SPACE if s.strip() else "") + s.replace(" ", SPACE)
      parts = [t.text(i) for i in t.encode(s)]
      if "<unk>" not in parts:
        assert "".join(parts) == written
        assert sum(scores[p] for p in parts) == pytest.approx(best_of_all(written, scores, worst))
      else:  # an unknown token stands for one or more characters that follow each other
        assert any(c not in scores for c in written) and not any(p == q == "<unk>" for p, q in itertools.pairwise(parts))
      known = [c for c in written if c in scores]
      if len(known) == len(written): assert "<unk>" not in parts


def test_unigram_spaces_and_bytes():
  scores = {SPACE: -3.0, "a": -2.0, SPACE + "a": -1.0}
  show = lambda t, s: [t.text(i) for i in t.encode(s)]
  assert show(unigram(scores), " a  a") == [SPACE + "a", SPACE, SPACE + "a"]
  assert show(unigram(scores, add_space_prefix=True, remove_extra_whitespaces=True), "  a   a ") == [SPACE + "a", SPACE + "a"]
  assert show(unigram(scores), "axyza") == ["a", "<unk>", "a"]
  assert not unigram(scores).add_bos and unigram(scores).add_eos
  tokens = ["<pad>", "</s>", "<unk>", *scores, *(f"<0x{b:02X}>" for b in range(256))]
  t = Tokenizer.from_gguf({"tokenizer.ggml.model": "t5", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.scores": [0.0] * 3 + list(scores.values()) + [0.0] * 256,
                           "tokenizer.ggml.token_type": [3, 3, 2, 1, 1, 1] + [6] * 256})
  assert show(t, "aé") == ["a", "<0xC3>", "<0xA9>"] and t.decode(t.encode("aé")) == "aé"


def charsmap(pairs):
  """A map of characters in the format of SentencePiece: every node of the tree of the keys has a block of 256 elements."""
  tree, texts = {}, b""
  for key, value in pairs.items():
    node = tree
    for b in key.encode(): node = node.setdefault(b, {})
    node["value"] = len(texts)
    texts += value.encode() + b"\0"
  units, following = {}, itertools.count(1)
  def place(node, at, label, leaf):
    base = next(following) * 256
    units[at] = ((at ^ base) << 10 if at ^ base < 1 << 21 else 0) | label | (256 if leaf else 0)
    if leaf: units[base] = 0x80000000 | node["value"]
    for b, child in node.items():
      if b != "value": place(child, base ^ b, b, "value" in child)
  place(tree, 0, 0, False)
  raw = b"".join(struct.pack("<I", units.get(i, 0)) for i in range(max(units) + 256))
  return list(struct.pack("<I", len(raw)) + raw + texts)


def test_charsmap():
  r = random.Random(10)
  pairs = {"a": "b", "ab": "x", "\u00a0": " ", "①": "1", "fi": "ﬁ", "zz": ""}
  scores = {c: -1.0 for c in SPACE + "abcxyz1ﬁfi"}
  t = unigram(scores, precompiled_charsmap=charsmap(pairs))
  for _ in range(300):
    s, at, want = "".join(r.choice("abcfiz①\u00a0é") for _ in range(r.randrange(12))), 0, ""
    while at < len(s):
      key = max((k for k in pairs if s.startswith(k, at)), key=len, default=None)
      want += pairs[key] if key else s[at]
      at += len(key or "x")
    want = want.replace(" ", SPACE)
    assert [t.text(i) for i in t.encode(s)] == [SPACE if c == SPACE else c if c in scores else "<unk>" for i, c in enumerate(want) if not (c == "é" and want[i - 1:i] == "é")]
  raw = charsmap(pairs)
  for wrong in ("x", [1, 2], [300], raw[:len(raw) // 2], [255, 255, 255, 255, *raw[4:]]):
    with pytest.raises(ValueError, match="precompiled_charsmap"): unigram(scores, precompiled_charsmap=wrong)
  for _ in range(300):  # broken elements: an error, or another text, in bounded time
    bad = list(raw)
    for _ in range(200): bad[r.randrange(4, len(bad))] = r.randrange(256)
    t = unigram(scores, precompiled_charsmap=bad)
    try: t.encode("abcfiz①\u00a0éab")
    except ValueError as e: assert "precompiled_charsmap" in str(e)


# Values that break the rules

@pytest.mark.parametrize("key, value, message", [
  ("model", None, "tokenizer.ggml.model"), ("model", "bert", "tokenizer.ggml.model is 'bert'; gpt2"), ("model", 3, "tokenizer.ggml.model is 3"), ("model", ["gpt2"], "tokenizer.ggml.model"),
  ("pre", None, "no tokenizer.ggml.pre; name one"), ("pre", "nonsense", "tokenizer.ggml.pre is 'nonsense'.*llama-bpe.*qwen2"), ("pre", 7, "tokenizer.ggml.pre is 7"),
  ("tokens", None, "no tokenizer.ggml.tokens"), ("tokens", "abc", "tokenizer.ggml.tokens"), ("tokens", [1, 2], "tokenizer.ggml.tokens"), ("tokens", [], "tokenizer.ggml.tokens"),
  ("tokens", ["a", "a"], "tokenizer.ggml"), ("token_type", [1], "tokenizer.ggml.token_type"), ("token_type", "x", "tokenizer.ggml.token_type"),
  ("merges", None, "no tokenizer.ggml.merges"), ("merges", ["a"], "tokenizer.ggml.merges has 'a'"), ("merges", ["a b c"], "tokenizer.ggml.merges has"), ("merges", [" a"], "tokenizer.ggml.merges"),
  ("merges", ["a \u4e00"], "tokenizer.ggml.merges.*has no"), ("merges", ["! \u0100"], "tokenizer.ggml.merges.*has no"), ("merges", [3], "tokenizer.ggml.merges"), ("merges", {}, "tokenizer.ggml.merges"),
  ("bos_token_id", 10**6, "tokenizer.ggml.bos_token_id is 1000000"), ("bos_token_id", -1, "tokenizer.ggml.bos_token_id"), ("eos_token_id", "2", "tokenizer.ggml.eos_token_id"),
  ("eos_token_id", True, "tokenizer.ggml.eos_token_id"), ("eot_token_id", 1e9, "tokenizer.ggml.eot_token_id"), ("add_bos_token", 1, "tokenizer.ggml.add_bos_token"),
  ("scores", [float("nan")], "tokenizer.ggml.scores"),
])
def test_wrong_values_of_bpe(key, value, message):
  values = dict(trained())
  if value is None: del values[f"tokenizer.ggml.{key}"]
  else: values[f"tokenizer.ggml.{key}"] = value
  with pytest.raises(ValueError, match=message): Tokenizer.from_gguf(values)


def test_more_wrong_values():
  values = trained()
  n = len(values["tokenizer.ggml.tokens"])
  for kinds in ([1] * (n - 1) + [7], [1] * (n - 1) + [-1], [1] * (n - 1) + ["x"], [1] * (n + 1), [True] * n):
    with pytest.raises(ValueError, match="token_type"): Tokenizer.from_gguf(values | {"tokenizer.ggml.token_type": kinds})
  with pytest.raises(ValueError, match="twice, as 0 and"): Tokenizer.from_gguf(values | {"tokenizer.ggml.tokens": values["tokenizer.ggml.tokens"][:-1] + [CHARACTERS[0]]})
  with pytest.raises(ValueError, match="control token of 300"): Tokenizer.from_gguf(values | {"tokenizer.ggml.tokens": values["tokenizer.ggml.tokens"][:-1] + ["<" * 300]})
  with pytest.raises(ValueError, match="bos_token_id, which its texts begin"):
    Tokenizer.from_gguf({k: v for k, v in values.items() if k != "tokenizer.ggml.bos_token_id"} | {"tokenizer.ggml.add_bos_token": True})
  for wrong in (float("nan"), float("inf"), "1", None, True):
    with pytest.raises(ValueError, match="tokenizer.ggml.scores has"): scored({"a": 0}, more={"tokenizer.ggml.scores": [wrong] * 260})
    with pytest.raises(ValueError, match="tokenizer.ggml.scores has"): unigram({"a": 0}, more={"tokenizer.ggml.scores": [wrong] * 4})
  for model, tokens in (("llama", ["<unk>", "<s>", "</s>"]), ("t5", ["<pad>", "</s>", "<unk>"])):
    with pytest.raises(ValueError, match="no tokenizer.ggml.scores"): Tokenizer.from_gguf({"tokenizer.ggml.model": model, "tokenizer.ggml.tokens": tokens})
    with pytest.raises(ValueError, match="unknown_token_id is 9"):
      Tokenizer.from_gguf({"tokenizer.ggml.model": model, "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.scores": [0.0] * 3, "tokenizer.ggml.unknown_token_id": 9})
  with pytest.raises(ValueError, match="add_space_prefix"): scored({"a": 0}, add_space_prefix="yes")
  assert Tokenizer.from_gguf(values | {"tokenizer.ggml.tokens": values["tokenizer.ggml.tokens"] + ["", ""],
                                       "tokenizer.ggml.token_type": values["tokenizer.ggml.token_type"] + [1, 3]}).encode("a") == [ord("a")]


def test_many_control_tokens():
  """Every place of a text could begin one: the time stays bounded by the lengths that there are."""
  values = trained()
  more = ["<" * n + ">" for n in range(2, 250)]
  t = Tokenizer.from_gguf({**values, "tokenizer.ggml.tokens": values["tokenizer.ggml.tokens"] + more, "tokenizer.ggml.token_type": values["tokenizer.ggml.token_type"] + [3] * len(more)})
  assert timed(t.encode, "<" * 20_000, True) < 20


def test_without_regex():
  """The error names the package. SentencePiece needs none."""
  program = f"""
import json, sys
sys.modules["regex"] = None
from uopd.llm.tokenizer import Tokenizer
try: Tokenizer.from_gguf(json.loads({json.dumps(json.dumps(trained()))}))
except ModuleNotFoundError as e: assert e.name == "regex" and "pip install regex" in str(e), e
else: sys.exit("no error")
Tokenizer.from_gguf({{"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>"], "tokenizer.ggml.scores": [0.0, 0.0, 0.0]}}).encode("x")
"""
  subprocess.run([sys.executable, "-c", program], check=True)
