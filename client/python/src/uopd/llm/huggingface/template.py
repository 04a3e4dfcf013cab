# SPDX-License-Identifier: MIT
"""The chat template of a folder."""
from __future__ import annotations

from ..chat import ChatTemplate
from ..tokenizer import Tokenizer
from .folder import MOST_SMALL, Folder

_FILE = "chat_template.jinja"


def _source(folder: Folder) -> tuple[str | None, str]:
  """The text of the template, and where it is: a file of its own, or a field of tokenizer_config.json, which may have several by name."""
  if folder.has(_FILE): return folder.read(_FILE, MOST_SMALL), _FILE
  settings = folder.settings()
  if settings is None or "chat_template" not in settings: return None, "chat_template"
  where = settings.name("chat_template")
  if not isinstance(settings.get("chat_template"), list): return settings.text("chat_template", most=MOST_SMALL), where
  named = {t.text("name"): t.text("template", most=MOST_SMALL) for t in settings.objects("chat_template", 64)}
  if "default" not in named: raise ValueError(f"{where} has no template of the name default")
  return named["default"], where


def template_from_folder(folder: Folder, tokenizer: Tokenizer) -> ChatTemplate:
  """The template that the files of a folder have, or the built-in one that fits the control tokens. A broken template is a ValueError.

  The models were trained with what the template writes: no `bos` is put before it. The template of a GGUF file may count on that."""
  source, where = _source(folder)
  return ChatTemplate(tokenizer, source, where, adds_bos=source is None)
