# SPDX-License-Identifier: MIT
"""Language models from folders in the layout of the Hugging Face Hub: config.json, tokenizer.json, and weights in safetensors files."""
from .folder import Folder as Folder
from .model import model_from_folder as model_from_folder
from .template import template_from_folder as template_from_folder
from .tokenizer import JsonTokenizer as JsonTokenizer
from .tokenizer import tokenizer_from_folder as tokenizer_from_folder
