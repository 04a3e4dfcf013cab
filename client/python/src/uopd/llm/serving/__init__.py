# SPDX-License-Identifier: MIT
"""A server of the OpenAI protocol for one language model. `python -m uopd.llm MODEL.gguf --serve PORT` starts it."""
