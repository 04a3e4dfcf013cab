# SPDX-License-Identifier: MIT
"""Files of language models."""
from . import chat as chat
from . import gguf as gguf
from . import tokenizer as tokenizer
