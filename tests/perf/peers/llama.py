# SPDX-License-Identifier: MIT
"""Runs a GGUF model in llama.cpp (package xllamacpp), for tests/perf/python/llm.py.

  python llama.py MODEL.gguf THREADS CONTEXT SEQUENCES

Reads a line of JSON for each question from standard input, and answers with one line:
  {"prompts": [[token, ...], ...], "tokens": N}   greedy, all prompts at the same time: {"prompt_s": ..., "decode_s": ..., "wall_s": ..., "tokens": ...}
Nothing of a prompt is kept for the next question. `decode_s` and `prompt_s` are what llama.cpp says about the first sequence.
"""
import concurrent.futures
import json
import os
import sys
import time

import xllamacpp


def main():
  path, threads, context, sequences = sys.argv[1], *(int(a) for a in sys.argv[2:])
  answers = os.fdopen(os.dup(1), "w")
  os.dup2(2, 1)  # llama.cpp writes its log to standard output
  params = xllamacpp.CommonParams()
  params.model.path = path
  params.n_ctx, params.n_parallel, params.n_batch = context * sequences, sequences, 2048
  params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
  server = xllamacpp.Server(params)

  def one(prompt, count):
    return server.handle_completions({"prompt": prompt, "max_tokens": count, "temperature": 0.0, "cache_prompt": False, "ignore_eos": True, "timings_per_token": True})

  with concurrent.futures.ThreadPoolExecutor(sequences) as pool:
    for line in sys.stdin:
      question = json.loads(line)
      begin = time.perf_counter()
      results = list(pool.map(lambda prompt: one(prompt, question["tokens"]), question["prompts"]))
      wall = time.perf_counter() - begin
      timings = results[0]["timings"]
      print(json.dumps({"prompt_s": timings["prompt_ms"] / 1e3, "decode_s": timings["predicted_ms"] / 1e3, "wall_s": wall,
                        "tokens": sum(r["usage"]["completion_tokens"] for r in results), "prompt": timings["prompt_n"]}), file=answers, flush=True)


if __name__ == "__main__": main()
