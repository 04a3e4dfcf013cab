# SPDX-License-Identifier: MIT
"""The server of the OpenAI protocol within the process of a test, and what stands in for a model where its words have to be known."""
import threading

import openai

from uopd.llm.serving.http import Server


class Served:
  """`with Served(...) as s:` answers at s.server.url."""
  def __init__(self, endpoints, keys=()):
    self.endpoints, self.server = endpoints, Server("127.0.0.1", 0, endpoints, list(keys))
    self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
    self.thread.start()

  def client(self, key="none"): return openai.OpenAI(base_url=f"{self.server.url}/v1", api_key=key, max_retries=0, timeout=120)

  def __enter__(self): return self
  def __exit__(self, *args):
    self.server.shutdown()
    self.thread.join()
    self.server.server_close()
    self.endpoints.close()


class Scripted:
  """In the place of a batch: each sequence says the same tokens."""
  context = 4096

  def __init__(self, tokens): self.tokens, self.running, self.free = tokens, [], 2
  def checked(self, prompt): return prompt
  def join(self, prompt, most, sampling):
    self.free -= 1
    s = type("S", (), {"done": False, "said": 0, "most": most or 10 ** 6})()
    self.running.append(s)
    return s
  def leave(self, s):
    if s in self.running:
      self.running.remove(s)
      self.free += 1
    s.done = True
  def step(self):
    out = []
    for s in list(self.running):
      out.append((s, self.tokens[s.said]))
      s.said += 1
      s.done = s.said >= min(s.most, len(self.tokens))
    return out
