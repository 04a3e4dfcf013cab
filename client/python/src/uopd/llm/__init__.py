# SPDX-License-Identifier: MIT
"""Language models from files, and what is around them. `python -m uopd.llm MODEL` is a conversation with one."""
from . import batch as batch
from . import chat as chat
from . import conversation as conversation
from . import gguf as gguf
from . import model as model
from . import sampling as sampling
from . import tokenizer as tokenizer
