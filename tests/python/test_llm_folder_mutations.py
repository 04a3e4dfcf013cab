# SPDX-License-Identifier: MIT
"""Folders of the Hugging Face Hub with mistakes in the bytes of a file: each one is read, or a ValueError says what is wrong, and reading takes memory in proportion to the files."""
import json
import random
import shutil

import pytest

pytest.importorskip("gguf")
pytest.importorskip("regex")
from hf_files import PLAIN, config_of, write_folder, write_tokenizer  # noqa: E402
from llm_files import write_model  # noqa: E402
from mutations import try_all  # noqa: E402

from uopd.llm.gguf import stored_in  # noqa: E402
from uopd.llm.huggingface import Folder, template_from_folder, tokenizer_from_folder  # noqa: E402
from uopd.llm.huggingface.config import description_of  # noqa: E402

TEMPLATE = "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}"
MOST_BESIDES = 16 << 20  # bytes of messages, and of tables that every tokenizer has
REFUSALS = (ValueError, FileNotFoundError)  # an index may name a file that is not there


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
  path = tmp_path_factory.mktemp("whole")
  values = write_model(path / "m.gguf", "llama", layers=1, kinds=PLAIN)
  for name, shards in (("one", 1), ("several", 3)):
    folder = write_folder(path / name, values, "llama", shards=shards, config=config_of("llama", 1))
    write_tokenizer(folder, stored_in(path / "m.gguf")[0], TEMPLATE)
  return path


@pytest.fixture
def copied(whole, tmp_path, request):
  """A folder of which a file may be changed."""
  shutil.copytree(whole / request.param, tmp_path / "model")
  return tmp_path / "model"


def describe(folder): return description_of(Folder(folder).json("config.json"))
def tensors(folder): return {name: (t.shape, t.dtype) for name, t in Folder(folder).tensors().items()}


def speak(folder):
  opened = Folder(folder)
  tokenizer = tokenizer_from_folder(opened)
  text = "Hello, w\u00f6rld! 123 \u4e16\n"
  tokenizer.decode(tokenizer.encode(text, special=True), special=True)
  template_from_folder(opened, tokenizer).encode([{"role": "user", "content": text}])


def swapped(text, r):
  """JSON with some of its numbers, words and signs in other places: it is JSON more often than with any bytes."""
  parts = list(filter(None, text.replace("{", "\0{\0").replace("[", "\0[\0").replace(",", "\0,\0").replace(":", "\0:\0").replace("]", "\0]\0").replace("}", "\0}\0").split("\0")))
  for _ in range(r.choice((1, 1, 2, 4))):
    a, b = r.randrange(len(parts)), r.randrange(len(parts))
    if r.random() < 0.3: parts[a] = r.choice(["null", "-1", "1e999", "NaN", "18446744073709551616", '"\\ud800"', "[" * 5000, '{"a":1,"a":2}', "true"])
    else: parts[a], parts[b] = parts[b], parts[a]
  return "".join(parts)


@pytest.mark.parametrize("copied, name, use, count", [
  ("one", "config.json", describe, 500), ("several", "model.safetensors.index.json", tensors, 600), ("one", "tokenizer.json", speak, 300), ("one", "tokenizer_config.json", speak, 150),
  ("one", "generation_config.json", speak, 150)], indirect=["copied"])
def test_any_bytes(copied, name, use, count):
  use(copied)
  file = copied / name
  contents = file.read_bytes()

  def read(case):
    file.write_bytes(case)
    use(copied)

  good, r = try_all(contents, read, REFUSALS, count, 200 * len(contents) + MOST_BESIDES), random.Random(3)
  for _ in range(count):
    file.write_text(swapped(contents.decode(), r))
    try: use(copied)
    except REFUSALS as e: assert 0 < len(str(e)) < 1000, e
    else: good += 1
  assert good < 2 * count
  assert good > 0 or name.endswith("index.json")  # nothing of an index may change, but for its metadata


@pytest.mark.parametrize("copied", ["one"], indirect=True)
def test_headers_of_safetensors(copied):
  """Mistakes in the header alone, in front of the contents that it names."""
  file = copied / "model.safetensors"
  raw = file.read_bytes()
  end = 8 + int.from_bytes(raw[:8], "little")
  names = set(json.loads(raw[8:end]))

  def read(case):
    file.write_bytes(case + raw[end:])
    assert len(tensors(copied)) <= len(names)

  good = try_all(raw[:end], read, (ValueError,), 200, 200 * end + MOST_BESIDES)
  assert 0 < good < 200
