# SPDX-License-Identifier: MIT
"""Conversations with a model in a folder, against the same model in a GGUF file, from Python and from the command line."""
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request

import pytest

pytest.importorskip("gguf")
pytest.importorskip("regex")
from hf_files import PLAIN, config_of, write_folder, write_tokenizer  # noqa: E402
from llm_files import write_model  # noqa: E402

from uopd.llm.conversation import Conversation  # noqa: E402
from uopd.llm.gguf import stored_in  # noqa: E402

TEMPLATE = "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m['role'] }}: {{ m['content'] }}<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>{% endif %}"


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
  path = tmp_path_factory.mktemp("conversation")
  values = write_model(path / "small.gguf", "llama", layers=2, kinds=PLAIN)
  folder = write_folder(path / "model", values, "llama", config=config_of("llama", 2))
  write_tokenizer(folder, stored_in(path / "small.gguf")[0])
  return path / "small.gguf", folder


def said(chat, *texts): return ["".join(chat.answer(text, 12)) for text in texts]


def test_answers_are_those_of_the_gguf_file(paths):
  gguf, folder = paths
  texts = ["Hello", "And you? <|im_end|> \u00e9\u4e16 12345", "  a\n\n"]
  chat, other = Conversation.from_folder(folder, system="Be short."), Conversation.from_gguf(gguf, system="Be short.")
  for text in texts: assert chat.template.encode([{"role": "user", "content": text}]) == other.template.encode([{"role": "user", "content": text}])
  assert said(chat, *texts) == said(other, *texts)
  assert chat.tokenizer.is_end(other.tokenizer.eos)


@pytest.mark.parametrize("where", ["settings", "list", "file"])
def test_the_template_of_the_folder(paths, tmp_path, where):
  pytest.importorskip("jinja2")
  folder = tmp_path / "model"
  shutil.copytree(paths[1], folder)
  write_tokenizer(folder, stored_in(paths[0])[0], {"settings": TEMPLATE, "list": [{"name": "tool_use", "template": "x"}, {"name": "default", "template": TEMPLATE}], "file": "x"}[where])
  if where == "file": (folder / "chat_template.jinja").write_text(TEMPLATE)
  chat = Conversation.from_folder(folder)
  messages = [{"role": "user", "content": "Hi <|im_end|>"}]
  assert chat.template.render(messages) == "\u0100<|im_start|>user: Hi <|im_end|><|im_end|><|im_start|>"
  ids = chat.template.encode(messages)
  assert ids.count(chat.tokenizer.id("<|im_end|>")) == 1 and chat.tokenizer.decode(ids) == "\u0100user: Hi <|im_end|>"


def test_the_template_decides_about_the_token_that_begins_a_text(paths, tmp_path):
  pytest.importorskip("jinja2")
  folder = tmp_path / "model"
  shutil.copytree(paths[1], folder)
  messages = [{"role": "user", "content": "Hi"}]
  for template, begins in (("<|im_start|>Hi", False), ("{{ bos_token }}<|im_start|>Hi", True), (None, False)):
    write_tokenizer(folder, stored_in(paths[0])[0], template)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "bos_token": "<|im_end|>", "add_bos_token": True}))
    chat = Conversation.from_folder(folder)
    end, start = chat.tokenizer.id("<|im_end|>"), chat.tokenizer.id("<|im_start|>")
    assert chat.tokenizer.with_bos([5]) == [end, 5]
    if template is not None: assert chat.template.encode(messages)[:2] == ([end, start] if begins else [start, chat.tokenizer.id("H")])
    else: assert chat.template.encode(messages)[:2] == [end, start]  # the built-in one has none, so the tokenizer decides


@pytest.mark.parametrize("template, says", [([{"name": "tool_use", "template": "x"}], "chat_template has no template of the name default"), (5, "chat_template is 5"), ([5], r"chat_template\[0\] is 5"), ("{% for", "chat_template, line 1")])
def test_templates_that_break_a_rule(paths, tmp_path, template, says):
  pytest.importorskip("jinja2")
  folder = tmp_path / "model"
  shutil.copytree(paths[1], folder)
  write_tokenizer(folder, stored_in(paths[0])[0], template)
  with pytest.raises(ValueError, match=says): Conversation.from_folder(folder)


def run(*arguments):
  return subprocess.run([sys.executable, "-m", "uopd.llm", *map(str, arguments)], capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONIOENCODING": "utf-8"})


def test_the_command(paths, tmp_path):
  _, folder = paths
  once = run(folder, "--prompt", "Hello", "--most", 12)
  assert once.returncode == 0 and once.stdout == said(Conversation.from_folder(folder), "Hello")[0] + "\n", once
  assert run(folder, "--benchmark", 8).stdout.endswith("tokens a second; 0 graphs sent\n")
  (tmp_path / "config.json").write_text(json.dumps(config_of("llama", 2)))
  for more, says in ((None, "tokenizer.json"), ("{}", "tokenizer.json has no `model`"), ("[" * 100_000, "tokenizer.json is nested too deeply")):
    if more is not None: (tmp_path / "tokenizer.json").write_text(more)
    failed = run(tmp_path, "--prompt", "Hello")
    assert failed.returncode == 1 and failed.stderr.startswith("uopd.llm: ") and says in failed.stderr and "Traceback" not in failed.stderr, failed


def test_a_folder_is_served(paths):
  _, folder = paths
  process = subprocess.Popen([sys.executable, "-m", "uopd.llm", str(folder), "--serve", "0", "--slots", "1"], stdout=subprocess.PIPE, text=True)
  try:
    url = re.search(r"http://\S+/v1", process.stdout.readline())[0]
    with urllib.request.urlopen(f"{url}/models", timeout=60) as answer: assert [m["id"] for m in json.load(answer)["data"]] == [folder.name]
  finally:
    process.terminate()
    process.wait(60)
