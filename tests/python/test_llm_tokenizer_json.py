# SPDX-License-Identifier: MIT
"""Tokenizers from tokenizer.json, against the package tokenizers: small ones of several set-ups are trained here, and both encode and decode random texts."""
import copy
import json
import random
import time
import unicodedata

import pytest

pytest.importorskip("regex")
hf = pytest.importorskip("tokenizers")
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402

from uopd.llm.huggingface import Folder, JsonTokenizer, tokenizer_from_folder  # noqa: E402
from uopd.llm.huggingface.fields import Fields  # noqa: E402
from uopd.llm.huggingface.patterns import regex_search  # noqa: E402
from uopd.llm.splitting import PATTERNS  # noqa: E402

CORPUS = ["The cat sat on the mat, and that hat is the one that the other cat had.", "It's 12345 or 777! We'll see; they've gone.  Two  spaces\n\n and lines\t.", "häßlich über Ärger, café naïve ﬁne Ⅳ ½",
          "def f(x):\n    return x + 1  # 'quoted'", "漢字かな混じり文 漢字漢字 안녕하세요", "Привет мир, как дела", "🙂🙂👍🏽 family 👨‍👩‍👧", "aaaaaaaa aaaa HelloWorld HTTPServer <tag>"] * 5
POOLS = ["abcdefgh", "ABCHIT'", " ", "  \t\n\r", "0123456789", "äßéİſΣς", "абв", "漢字かな한", "🙂👍🏽🇩🇪", "\u0301\u200d\u00a0\u3000\u0085\u2028", "!?.,<|>_-/=+$", "\x00\x1c\x7f", "ﬁⅣ½²٣", "▁<>x0E2"]
PIECES = ["the ", "that", "It's", " we'll", "<|end|>", "<|end|>more", " <s> ", "[TOOL]", "<mask>", "<e>", "word<w>", " <w> ", "▁▁", "<0xE2>", "Ärger", "  ", "\n\n"]
SPECIAL = [AddedToken("<|end|>", special=True, normalized=False), AddedToken("<|end|>more", special=True, normalized=False), AddedToken("<mask>", special=True, lstrip=True, normalized=False),
           AddedToken("<e>", special=True, rstrip=True, normalized=False)]
USER = [AddedToken("[TOOL]", special=False, normalized=False), AddedToken("<w>", special=False, single_word=True, normalized=False), AddedToken("Ärger", special=False, normalized=True)]
LLAMA3 = PATTERNS["llama3"][0]


def byte_level(split=None, **more):
  t = hf.Tokenizer(models.BPE(**more))
  own = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split is None)
  t.pre_tokenizer = own if split is None else pre_tokenizers.Sequence([*split, own])
  t.decoder = decoders.ByteLevel()
  t.post_processor = processors.ByteLevel(trim_offsets=False)
  return t


def pieces(normalizer, pre=None, decoder=None, **more):
  """BPE of whole characters, as SentencePiece makes it."""
  t = hf.Tokenizer(models.BPE(unk_token="<unk>", **more))
  t.normalizer = normalizer
  if pre is not None: t.pre_tokenizer = pre
  t.decoder = decoder or decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
  return t


def scored(byte_fallback):
  """Parts of words with scores that floats of any length have exactly. They are not trained: the trainer of the package gives other scores each time."""
  r = random.Random(9)
  words = sorted({w for line in CORPUS for w in ("\u2581" + line.replace(" ", " \u2581")).split()})
  parts = sorted({w[i:i + n] for w in words for n in (1, 2, 3, 5) for i in range(len(w) - n + 1)})
  return [("<unk>", 0.0), ("<s>", 0.0), *([(f"<0x{b:02X}>", 0.0) for b in range(256)] if byte_fallback else []), *[(p, -r.randrange(16, 160) / 16) for p in parts if r.random() < 0.6]]


def unigram(pre, normalizer=None, decoder=None, byte_fallback=False):
  t = hf.Tokenizer(models.Unigram(scored(byte_fallback), 0, byte_fallback))
  t.pre_tokenizer = pre
  if normalizer is not None: t.normalizer = normalizer
  t.decoder = decoder or decoders.Metaspace()
  return t


def split(pattern, behavior, invert=False): return pre_tokenizers.Split(pattern, behavior, invert)


def plain(pre, normalizer=None, decoder=None):
  t = hf.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
  t.pre_tokenizer = pre
  if normalizer is not None: t.normalizer = normalizer
  if decoder is not None: t.decoder = decoder
  return t


def with_prefix():
  t = byte_level()
  t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
  return t


SETUPS = {
  "gpt2": lambda: byte_level(),
  "gpt2 with a space in front": with_prefix,
  "llama3": lambda: byte_level([split(Regex(LLAMA3), "isolated")], ignore_merges=True),
  "qwen2": lambda: qwen(),
  "digits": lambda: byte_level([pre_tokenizers.Digits(individual_digits=True)]),
  "digits together": lambda: byte_level([pre_tokenizers.Digits(individual_digits=False), split(Regex(r"\s+"), "merged_with_next")]),
  "deepseek": lambda: byte_level([split(Regex(p), "isolated") for p in PATTERNS["deepseek-coder"]]),
  "gpt-4o": lambda: byte_level([split(Regex(PATTERNS["gpt-4o"][0]), "removed", True)]),
  "words": lambda: byte_level([split(Regex(r"\w+"), "contiguous")]),
  "llama2": lambda: pieces(normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), byte_fallback=True, fuse_unk=True),
  "gemma": lambda: pieces(normalizers.Replace(" ", "▁"), split(" ", "merged_with_previous"), decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]), byte_fallback=True, fuse_unk=True),
  "metaspace always": lambda: pieces(normalizers.NFKC(), pre_tokenizers.Metaspace(prepend_scheme="always"), decoders.Metaspace(prepend_scheme="always"), byte_fallback=True),
  "metaspace first": lambda: pieces(normalizers.Lowercase(), pre_tokenizers.Metaspace(prepend_scheme="first"), decoders.Metaspace(prepend_scheme="first"), fuse_unk=True),
  "metaspace never": lambda: pieces(normalizers.NFD(), pre_tokenizers.Metaspace(prepend_scheme="never", split=False), decoders.Metaspace(prepend_scheme="never")),
  "metaspace first behind another": lambda: pieces(normalizers.NFC(), pre_tokenizers.Sequence([split("t", "merged_with_next"), pre_tokenizers.Metaspace(prepend_scheme="first")]), decoders.Metaspace(prepend_scheme="first"), fuse_unk=True),
  "unigram": lambda: unigram(pre_tokenizers.Metaspace(prepend_scheme="always")),
  "unigram with normal forms": lambda: unigram(pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]), normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Replace(Regex(" {2,}"), " ")])),
  "unigram with bytes": lambda: unigram(pre_tokenizers.Metaspace(prepend_scheme="never"), None, decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="never")]), byte_fallback=True),
  "whitespace": lambda: plain(pre_tokenizers.Whitespace(), normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Strip()])),
  "punctuation": lambda: plain(pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]), normalizers.NFC()),
  "punctuation in a row": lambda: plain(pre_tokenizers.Punctuation(behavior="contiguous"), normalizers.Strip(left=False)),
  "delimiter": lambda: plain(pre_tokenizers.CharDelimiterSplit(" "), normalizers.Replace(Regex("[0-9]+"), "#"), decoders.Sequence([decoders.Replace("a", "bb"), decoders.Strip("t", 1, 0)])),
  "no merges across": lambda: plain(split("a", "merged_with_next"), None, decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 2, 0)])),
  "between": lambda: plain(split(Regex("[a-e]+"), "merged_with_previous", True)),
}


def qwen():
  t = byte_level([split(Regex(PATTERNS["qwen2"][0]), "isolated")])
  t.normalizer = normalizers.NFC()
  return t


def trained(name):
  """A tokenizer of the package, with added tokens."""
  t = SETUPS[name]()
  if name.startswith("unigram"): t.add_special_tokens(["<unk>", "<s>"])
  else:
    fallback = [f"<0x{b:02X}>" for b in range(256)] if t.model.byte_fallback else []
    alphabet = pre_tokenizers.ByteLevel.alphabet() if isinstance(t.decoder, decoders.ByteLevel) else []
    trainer = trainers.BpeTrainer(vocab_size=420 + len(fallback), special_tokens=["<unk>", "<s>", *fallback], initial_alphabet=alphabet, show_progress=False)
    t.train_from_iterator(CORPUS, trainer)
  t.add_special_tokens(copy.deepcopy(SPECIAL))
  t.add_tokens(copy.deepcopy(USER))
  return t


@pytest.fixture(scope="module", params=sorted(SETUPS))
def both(request):
  theirs = trained(request.param)
  file = json.loads(theirs.to_str())
  # The bytes are no special tokens in real files.
  file["added_tokens"] = [t for t in file["added_tokens"] if not t["content"].startswith("<0x")]
  theirs = hf.Tokenizer.from_str(json.dumps(file))
  return JsonTokenizer(Fields(file, "tokenizer.json")), theirs, file


def text(r, most=30):
  return "".join(r.choice(PIECES) if r.random() < 0.2 else r.choice(r.choice(POOLS)) for _ in range(r.randrange(most)))


def test_encode(both):
  ours, theirs, _ = both
  r = random.Random(1)
  assert len(ours) == theirs.get_vocab_size()
  for s in [text(r) for _ in range(1500)] + CORPUS + ["a" * 300, "that" * 100, "cat the hat" * 30, " ", "", "<s>", "  <mask>  <e>  "]:
    assert ours.encode(s, special=True) == theirs.encode(s, add_special_tokens=False).ids, s


def test_encode_without_special_tokens(both):
  """A text of a user: what looks like a special token is text. Nothing of it becomes one."""
  ours, theirs, file = both
  theirs = hf.Tokenizer.from_str(json.dumps(file))
  theirs.encode_special_tokens = True
  r, special = random.Random(2), {t["id"] for t in file["added_tokens"] if t["special"]}
  unknown = theirs.token_to_id("<unk>")
  if file["model"]["type"] == "Unigram":  # theirs makes <s> of a text all the same
    file = copy.deepcopy(file)
    file["model"]["vocab"][1][0] = "\ue000"
    file["added_tokens"] = [t for t in file["added_tokens"] if t["content"] != "<s>"]
    theirs = hf.Tokenizer.from_str(json.dumps(file))
    theirs.encode_special_tokens = True
  for s in [text(r) for _ in range(500)] + ["<|end|>", "<s>", "x<mask>y"]:
    found = ours.encode(s)
    assert found == theirs.encode(s, add_special_tokens=False).ids, s
    assert not set(found) & special - {unknown}, s


def test_decode(both):
  ours, theirs, _ = both
  r = random.Random(3)
  for _ in range(600):
    ids = theirs.encode(text(r), add_special_tokens=False).ids if r.random() < 0.5 else [r.randrange(len(ours)) for _ in range(r.randrange(12))]
    for special in (False, True): assert ours.decode(ids, special) == theirs.decode(ids, skip_special_tokens=not special), ids


def test_a_stream_adds_up(both):
  ours = both[0]
  r = random.Random(4)
  for _ in range(200):
    ids = [r.randrange(len(ours)) for _ in range(r.randrange(30))]
    decoder = ours.decoder(special=True)
    assert "".join([decoder.feed(i) for i in ids]) + decoder.end() == ours.decode(ids, special=True)


def test_what_goes_on_with_a_text_keeps_its_space(both):
  """A text that goes on is what two texts in a row are, less the first."""
  ours, theirs, _ = both
  ids = theirs.encode("the cat", add_special_tokens=False).ids
  decoder = ours.decoder(begins=False)
  found = "".join([decoder.feed(i) for i in ids]) + decoder.end()
  more = ours.decode(ids + ids)
  assert more.endswith(found) or found.strip() == ours.decode(ids).strip()


def test_characters_that_a_normalizer_knows(both):
  """Characters of all kinds; newer ones than those of Unicode 3.2 are in some of the tables and not in others."""
  ours, theirs, _ = both
  known = [chr(c) for c in range(1, 0x30000) if unicodedata.ucd_3_2_0.category(chr(c)) not in ("Cn", "Cs", "Co") and c != 0x166d]
  r = random.Random(5)
  for _ in range(150):
    s = "".join(r.choice(known) + r.choice(["", "", " ", "a"]) for _ in range(40))
    assert ours.encode(s, special=True) == theirs.encode(s, add_special_tokens=False).ids, ascii(s)


def file_of(name="qwen2"): return json.loads(trained(name).to_str())


def ours(file, settings=None, words=0, ends=()): return JsonTokenizer(Fields(file, "tokenizer.json"), words, None if settings is None else Fields(settings, "tokenizer_config.json"), ends)


def template(single):
  return {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}} if t == "$A" else {"SpecialToken": {"id": t, "type_id": 0}} for t in single], "pair": [],
          "special_tokens": {t: {"id": t, "ids": [{"<unk>": 0, "<s>": 1}[t]], "tokens": [t]} for t in single if t != "$A"}}


def test_tokens_that_begin_and_end_a_text():
  file = file_of()
  for single, bos, eos in ((["<s>", "$A"], 1, None), (["$A"], None, None), (["$A", "<s>"], None, 1), (["<s>", "$A", "<unk>"], 1, 0)):
    file["post_processor"] = template(single)
    for processor in (template(single), {"type": "Sequence", "processors": [{"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}, template(single)]}):
      file["post_processor"] = processor
      t, theirs = ours(file), hf.Tokenizer.from_str(json.dumps(file))
      assert (t.bos, t.add_bos, t.eos, t.add_eos) == (bos, bos is not None, eos, eos is not None)
      want = theirs.encode("the cat").ids
      assert t.with_bos(t.encode("the cat")) == (want[:-1] if eos is not None else want)
  settings = {"bos_token": {"content": "<s>", "special": True}, "eos_token": "<|end|>"}
  file["post_processor"] = template(["$A"])
  t = ours(file, settings, ends=(7,))
  assert (t.bos, t.add_bos, t.eos) == (1, False, t.id("<|end|>")) and t.is_end(7) and t.is_end(t.eos) and not t.is_end(8)
  assert ours(file, {**settings, "add_bos_token": True}).with_bos([5]) == [1, 5]
  file["post_processor"] = template(["<s>", "$A"])
  assert ours(file, {**settings, "add_bos_token": False}).with_bos([5]) == [5]
  with pytest.raises(ValueError, match="tokenizer_config.json: bos_token is '<none>'; tokenizer.json has no such token"): ours(file, {"bos_token": "<none>"})


def test_an_end_is_no_ordinary_word():
  """A token that ends what a model says, and that the file has as a user's."""
  file = file_of()
  file["added_tokens"].append({**file["added_tokens"][-1], "id": 999, "content": "<|im_end|>", "special": False, "normalized": False})
  t = ours(file)
  assert t.is_control(999) and t.is_end(999) and t.encode("<|im_end|>", special=True) == [999] and 999 not in t.encode("<|im_end|>")
  assert len(t) == 1000 and t.text(998) == "" and t.decode([998, 999]) == "" and t.decode([999], special=True) == "<|im_end|>"


def test_flags_of_the_other_file():
  file = file_of()
  tool, mask = [next(t for t in file["added_tokens"] if t["content"] == c) for c in ("[TOOL]", "<mask>")]
  as_settings = {"added_tokens_decoder": {str(tool["id"]): {**tool, "special": True}, str(mask["id"]): {**mask, "lstrip": False}, "700": {"content": "<new>", "special": True}}}
  t = ours(file, as_settings)
  assert t.is_control(tool["id"]) and not ours(file).is_control(tool["id"])
  assert t.encode("a  <mask>", True) != ours(file).encode("a  <mask>", True) and t.encode("<new>", True) == [700]
  with pytest.raises(ValueError, match=r"added_tokens_decoder: 0: content is 'x'; tokenizer.json has '<unk>'"): ours(file, {"added_tokens_decoder": {"0": {"content": "x"}}})
  for name in ("-1", "x", "9" * 30, "\u0663"):
    with pytest.raises(ValueError, match="added_tokens_decoder: "): ours(file, {"added_tokens_decoder": {name: {"content": "x"}}})


def test_forms_of_old_files():
  """Merges as texts, Metaspace without prepend_scheme."""
  file = file_of("metaspace always")
  want = ours(file)
  file["model"]["merges"] = [" ".join(m) for m in file["model"]["merges"]]
  del file["pre_tokenizer"]["prepend_scheme"]
  file["pre_tokenizer"] |= {"add_prefix_space": True, "str_rep": "\u2581"}
  t = ours(file)
  r = random.Random(1)
  for _ in range(100): assert t.encode(s := text(r)) == want.encode(s)


def test_merges_make_no_special_token():
  file = file_of("metaspace never")
  file["model"]["vocab"]["<s"] = len(file["model"]["vocab"]) + 100
  file["model"]["merges"] += [["<", "s"], ["<s", ">"]]
  t = ours(file)
  assert t.encode("<s>", True) == [1] and t.encode("<s>") == [t.id("<s"), t.id(">")]
  theirs = hf.Tokenizer.from_str(json.dumps(file))
  theirs.encode_special_tokens = True
  assert theirs.encode("<s>").ids == [1]  # which the package does make
  file["model"]["ignore_merges"] = True
  assert 1 not in ours(file).encode("<s>")


def test_white_space_belongs_to_one_token():
  """A token takes the space that another one would begin with."""
  file = file_of()
  file["added_tokens"].append({"id": 900, "content": " x", "special": False, "normalized": False})
  t = ours(file)
  assert t.encode("a x", True) == [t.id("a"), 900] and t.encode("<e> x", True) == [t.id("<e>"), t.id("x")]


@pytest.mark.parametrize("name", ["llama2", "metaspace always"])
def test_only_the_beginning_of_a_text_has_a_space_less(name):
  t = ours(file_of(name))
  ids = t.encode("the cat")
  more = t.decoder(begins=False)
  assert t.decode(ids) == "the cat" and "".join([more.feed(i) for i in ids]) + more.end() == " the cat"


def test_files_that_say_different_things():
  file = file_of("gpt2")
  assert not file["pre_tokenizer"]["add_prefix_space"]
  ours(file, {"add_prefix_space": False})
  with pytest.raises(ValueError, match="tokenizer_config.json: add_prefix_space is True; tokenizer.json says otherwise"): ours(file, {"add_prefix_space": True})


def change(path, value):
  """Replaces, or with None removes, a field of a copy of a file."""
  def apply(file):
    at = file
    for key in path[:-1]: at = at[key]
    if value is None: del at[path[-1]]
    else: at[path[-1]] = value
  return apply


BPE, SPLIT = ("model",), ("pre_tokenizer",)
LONG = {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 65}
DEEP = {"type": "NFC"}
for _ in range(10): DEEP = {"type": "Sequence", "normalizers": [DEEP]}
GROWS = {"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 20}] * 60}  # each step alone is within the bound


@pytest.mark.parametrize("path, value, says", [
  (("model",), None, "tokenizer.json has no `model`"), (("model",), [], "model is .*, which is no JSON object"), (("model", "type"), "WordPiece", "model: type is 'WordPiece'; known here: BPE, Unigram"),
  (("model", "type"), [], "model: type is"), (("model", "vocab"), {}, "vocab has 0 tokens"), (("model", "vocab"), None, "model has no `vocab`"), (("model", "vocab"), {"a": -1}, "vocab has -1 for the token 'a'"),
  (("model", "vocab"), {"a": 1 << 40}, "for the token 'a'"), (("model", "vocab"), {"a": "1"}, "vocab has '1'"), (("model", "vocab"), {"a": True}, "vocab has True"), (("model", "vocab"), {"a": 1, "b": 1}, "vocab has 1 for two tokens, 'a' and 'b'"),
  (("model", "vocab", "\ud800"), 999, "which is no text"), (("model", "merges"), ["a"], r"merges\[0\] is 'a', which is no pair"), (("model", "merges"), ["a b c"], "which is no pair"), (("model", "merges"), [["a"]], "which is no pair"),
  (("model", "merges"), [["a", 5]], "which is no pair"), (("model", "merges"), [["a", ""]], "which is no pair"), (("model", "merges"), ["zz qq"], r"merges\[0\] is 'zz qq'; the vocab has no 'zz'"), (("model", "merges"), [["a", "\ud800"]], "the vocab has no"),
  (("model", "dropout"), 0.1, "dropout is 0.1; not known here"), (("model", "continuing_subword_prefix"), "##", "continuing_subword_prefix is '##'"), (("model", "end_of_word_suffix"), "</w>", "end_of_word_suffix"),
  (("model", "byte_fallback"), True, "has byte_fallback, and its vocab no <0x00>"), (("model", "unk_token"), "none", "unk_token is 'none'"), (("model", "new"), 1, "has the field 'new', which is not known here"),
  (("normalizer",), {"type": "Precompiled", "precompiled_charsmap": ""}, "normalizer: type is 'Precompiled'; known here: NFC"), (("normalizer",), LONG, "a list of at most 64 elements"), (("normalizer",), DEEP, "nested too deeply"),
  (("normalizer",), {"type": "Replace", "pattern": {"Regex": "("}, "content": ""}, "pattern: Regex is no regular expression"), (("normalizer",), {"type": "Replace", "pattern": {"Regex": r"\h"}, "content": ""}, r"has '\\\\h', which is not known"),
  (("normalizer",), {"type": "Replace", "pattern": {"Other": "a"}, "content": ""}, "String or Regex is possible"), (("normalizer",), {"type": "Replace", "pattern": {"String": "a"}, "content": "x" * 1000}, "content is"),
  (("pre_tokenizer",), {"type": "BertPreTokenizer"}, "pre_tokenizer: type is 'BertPreTokenizer'"), (("pre_tokenizer",), {"type": "Sequence", "pretokenizers": [{"type": "UnicodeScripts"}]}, r"pretokenizers\[0\]: type is 'UnicodeScripts'"),
  (("pre_tokenizer",), {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel", "add_prefix_space": False}] * 2}, "has ByteLevel twice"), (("pre_tokenizer",), {"type": "Split", "pattern": "a", "behavior": "Other"}, "behavior is 'Other'"),
  (("pre_tokenizer",), {"type": "Split", "pattern": {"Regex": "a" * 20_000}, "behavior": "Isolated"}, "has 20000 characters"), (("pre_tokenizer",), {"type": "Metaspace", "replacement": "ab"}, "replacement is 'ab'"),
  (("pre_tokenizer",), {"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"}, "prepend_scheme is 'last'"), (("pre_tokenizer",), {"type": "CharDelimiterSplit", "delimiter": ""}, "delimiter is ''"),
  (("post_processor",), {"type": "BertProcessing"}, "post_processor: type is 'BertProcessing'"), (("post_processor",), {**template(["<s>", "$A"]), "special_tokens": {}}, "has no `<s>`"), (("post_processor",), template(["$A", "$A"]), "has the text 2 times"),
  (("post_processor",), template(["<s>", "<unk>", "$A"]), "more than one token on one side"), (("post_processor",), {"type": "Sequence", "processors": [template(["<s>", "$A"])] * 2}, "adds tokens more than once"),
  (("decoder",), {"type": "WordPiece", "prefix": "##", "cleanup": True}, "decoder: type is 'WordPiece'"), (("decoder",), {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "ByteLevel"}]}, "ByteLevel behind Fuse"),
  (("decoder",), {"type": "Strip", "content": " ", "start": -1, "stop": 0}, "start is -1"), (("decoder",), {"type": "Strip", "content": "  ", "start": 1, "stop": 0}, "content is"),
  (("added_tokens",), [{"id": -1, "content": "x"}], r"added_tokens\[0\]: id is -1"), (("added_tokens",), [{"id": 5_000_000, "content": "x"}], "has the token 5000000, and no more than"), (("added_tokens",), [{"id": 3, "content": "new"}], "the vocab has"),
  (("added_tokens",), [{"id": 900, "content": "a"}], "added token 'a' as 900"), (("added_tokens",), [{"id": 900, "content": "x" * 300}], "content is"), (("added_tokens",), [{"id": 900, "content": ""}], "900 without a text"),
  (("added_tokens",), [{"id": 900, "content": "<new>"}, {"id": 900, "content": "<new>"}], "has the id 900 of the added token '<new>'"), (("added_tokens",), [{"id": 900, "content": "<new>", "special": "yes"}], "special is 'yes'"), (("added_tokens",), {}, "added_tokens is {}"),
])
def test_files_that_break_a_rule(path, value, says):
  file = file_of()
  ours(file)
  change(path, value)(file)
  with pytest.raises(ValueError, match=says) as e: ours(file)
  assert len(str(e.value)) < 600 and "tokenizer.json" in str(e.value)


@pytest.mark.parametrize("vocab, unk, says", [([["a", float("nan")]], 0, "no text with a finite score"), ([["a", 10 ** 400]], 0, "no text with a finite score"), ([["a"]], 0, "no text with"), ([["a", 1], ["a", 2]], 0, "'a' twice, as 0 and 1"),
                                              ([["a", 1]], 1, "unk_id is 1"), ([["a", 1]], None, "no `unk_id`"), ([], 0, "has 0 tokens"), ([[5, 1.0]], 0, "has 5, which is no text"), ({}, 0, "vocab is {}")])
def test_unigram_models_that_break_a_rule(vocab, unk, says):
  with pytest.raises(ValueError, match=says): ours({"model": {"type": "Unigram", "vocab": vocab, "unk_id": unk}})


def test_a_special_token_that_a_normalizer_changes():
  file = file_of("metaspace first")
  file["added_tokens"].append({"id": 900, "content": "<|END|>", "special": True, "normalized": True})
  with pytest.raises(ValueError, match="has the special token '<|END|>', which is normalised"): ours(file)
  file["added_tokens"][-1]["normalized"] = False
  t = ours(file)
  assert t.encode("<|END|>", True) == [900] and 900 not in t.encode("<|end|> <|End|>", True)


def test_a_scheme_that_depends_on_the_beginning():
  file = file_of("metaspace first")
  file["normalizer"] = {"type": "Strip", "strip_left": True, "strip_right": False}
  with pytest.raises(ValueError, match="prepend_scheme 'first' with a normalizer"): ours(file)


def test_texts_that_a_normalizer_blows_up():
  file = file_of("metaspace never")
  file["normalizer"] = GROWS
  begin = time.monotonic()
  t = ours(file)
  with pytest.raises(ValueError, match="normalizer makes 400000 characters of a text of 1000"): t.encode("a" * 1000)
  file["normalizer"], file["decoder"] = None, {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 200}] * 60}
  with pytest.raises(ValueError, match="characters of a token"): ours(file).decode(t.encode("x")[:0] + [t.id("a")])
  assert time.monotonic() - begin < 60


def test_an_expression_without_end(monkeypatch):
  monkeypatch.setattr("uopd.llm.huggingface.patterns._SECONDS", 0.2)
  search = regex_search(r"(a|aa)+$", "the pattern")
  with pytest.raises(ValueError, match="the pattern takes more than 0.2 s for a text of 101 characters"): search("a" * 100 + "b")


# What Oniguruma and the package regex read differently.
@pytest.mark.parametrize("source, given", [(r"\w+", "a\u00b2\u200db \u00bd"), (r"[^\w]+", "a\u00b2\u200db \u00bd-"), (r"^a", "ab\nab"), (r"b$", "ab\nab"), (r"[a[bc]]+", "abcd[]"), (r"[\w]+", "a\u00b2\u200db \u00bd"), (r"[a-z&&[^b]]+", "abcab"), (r".+", "a\nb"),
                                           (r"\p{L}+", "aБ1"), (r"(?i:'s|'ll)", "'\u017f'LL"), (r"\s+(?!\S)|\s+", "a  b \x1c \x85\u180e"), (r"[\]a]+", "]a["), (r"(?<=a)b++", "abbb")])
def test_expressions(source, given):
  want = [span for _, span in pre_tokenizers.Split(Regex(source), "removed", True).pre_tokenize_str(given)]
  assert regex_search(source, "x")(given) == want


@pytest.mark.parametrize("source", [r"\h", r"\W", r"\b", r"\x41", r"\A", "(?m:a)", "(?<n>a)", "a{1,2}+", "[a--b]", "[a||b]", "a\\", r"\p", r"\pL", "[", "(?i)a", r"\1", "(?i:ss)"])
def test_expressions_that_are_refused(source):
  with pytest.raises(ValueError, match="^the pattern"): regex_search(source, "the pattern")


def test_a_whole_text_is_stripped_as_its_parts_come():
  """Fuse and Strip, against the text at its end."""
  file = file_of("no merges across")
  r = random.Random(6)
  for start, stop in ((0, 0), (1, 0), (2, 1), (0, 3)):
    file["decoder"]["decoders"][1] = {"type": "Strip", "content": "a", "start": start, "stop": stop}
    t = ours(file)
    for _ in range(200):
      ids = [r.choice([t.id("a"), t.id("b"), t.id("a")]) for _ in range(r.randrange(9))]
      s = "".join(t.text(i) for i in ids)
      s = s[min(start, len(s) - len(s.lstrip("a"))):]
      assert t.decode(ids) == s[:max(len(s.rstrip("a")), len(s) - stop)]
      whole = t.decoder(begins=False)
      assert ("".join([whole.feed(i) for i in ids]) + whole.end()).startswith("".join(t.text(i) for i in ids)[:3].rstrip("a"))


def test_surrogates_become_the_replacement_character(both):
  t = both[0]
  assert t.encode("a\ud800b") == t.encode("a\ufffdb")


def test_long_texts_take_time_in_proportion(both):
  t, times = both[0], []
  for n in (2_000, 20_000):
    begin = time.process_time()
    t.encode("the cat sat " * (n // 12) + "a" * n)
    times.append(time.process_time() - begin)
  assert times[1] < 40 * times[0] + 1


def test_from_a_folder(tmp_path):
  file = file_of()
  (tmp_path / "tokenizer.json").write_text(json.dumps(file))
  plain = tokenizer_from_folder(Folder(tmp_path))
  assert plain.encode("the cat") == ours(file).encode("the cat") and len(plain) == len(ours(file))
  (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>", "chat_template": "x" * (1 << 21)}))
  (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 8]}))
  (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 9, "vocab_size": 600}))
  t = tokenizer_from_folder(Folder(tmp_path))
  assert len(t) == 600 and [i for i in range(600) if t.is_end(i)] == sorted((7, 8, 9, t.id("<|end|>"))) and t.decode([599]) == ""
  with pytest.raises(ValueError, match="token 600 is none"): t.decode([600])
  for wrong, says in (({"eos_token_id": "x"}, "eos_token_id is 'x'"), ({"eos_token_id": [-1]}, "eos_token_id is"), ({"eos_token_id": 10_000}, "token 10000 begins or ends")):
    (tmp_path / "generation_config.json").write_text(json.dumps(wrong))
    with pytest.raises(ValueError, match=says): tokenizer_from_folder(Folder(tmp_path))


JUNK = [None, True, False, 0, -1, 1, 1 << 31, 1 << 70, 1.5, -1e308, "", "x", "\ud800", "(", "ByteLevel", "Sequence", "Replace", "Strip", "Metaspace", [], {}, [[]], [None], {"String": "a"}, {"Regex": "[a"}, {"Regex": "a*"}, {"type": "NFC"},
        {"type": "Strip"}, {"type": "ByteLevel"}, {"type": "Metaspace"}, {"type": "Sequence"}]


def places(value, path=()):
  """All places in a file, of lists and vocabularies only some."""
  yield path
  items = list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
  for key, v in items[:12] + items[-3:]: yield from places(v, (*path, key))


def test_files_with_any_junk(both):
  """A value anywhere is another one: the file is read, and then tokens come and go, or a ValueError says what is wrong."""
  file, r, read = both[2], random.Random(8), 0
  where = list(places(file))[1:]
  for _ in range(250):
    path, broken = r.choice(where), file
    copies = broken = dict(file)
    for key in path[:-1]:
      copies[key] = copy.copy(copies[key])
      copies = copies[key]
    copies[path[-1]] = r.choice(JUNK)
    try:
      t = ours(broken)
      t.decode(t.encode(text(r), special=True), special=True)
    except ValueError as e: assert len(str(e)) < 700, e
    else: read += 1
  assert 0 < read < 250
