# SPDX-License-Identifier: MIT
"""Files of language models."""
from . import gguf as gguf
