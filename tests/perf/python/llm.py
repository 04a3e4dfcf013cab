# SPDX-License-Identifier: MIT
"""What language models cost, beside llama.cpp in the same run.

  UOPD_DAEMON=build/release/bin/uopd build/python-venv/bin/python tests/perf/python/llm.py MODEL.gguf [--peer PYTHON] [speed] [clients] [long]

speed    tokens a second: one sequence, a prompt of 512, a batch of 8; in turns with llama.cpp if --peer is a Python that has the package xllamacpp
clients  what the second client of a model sends, what it adds to the daemon's memory, and when it has its first token; the same of a daemon that started again with its folder
long     1,000 tokens: the graphs that are sent and the kernels that are compiled meanwhile, which are to be none

Both libraries have as many threads as this process may use processors. llama.cpp waits in loops, so its figures need a machine where nothing else runs. Without names: all.
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve()
sys.path += [str(HERE.parent), str(HERE.parents[2] / "python")]
from a_daemon import ADaemon  # noqa: E402
from bench import show  # noqa: E402
from counting_link import CountingLink  # noqa: E402

PROMPT, DECODED, LONG_PROMPT, SEQUENCES, CONTEXT = [1, 403, 281], 128, 512, 8, 1024

# A client of its own. It prints the seconds from the beginning of from_gguf to the first token.
CLIENT = """
import sys, time, uopd
uopd.client()
begin = time.perf_counter()
from uopd.llm.model import Model
first = next(Model.from_gguf(sys.argv[1], 256)[0].generate([1, 403, 281, 5, 6, 7]))
print(time.perf_counter() - begin, flush=True)
sys.stdin.read()
"""


class Llama:
  """llama.cpp in a process of another Python."""
  def __init__(self, python, model):
    threads = len(os.sched_getaffinity(0))
    self._process = subprocess.Popen([python, HERE.parents[1] / "peers/llama.py", model, str(threads), str(CONTEXT), str(SEQUENCES)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=subprocess.DEVNULL, text=True)

  def ask(self, prompts, tokens):
    self._process.stdin.write(json.dumps({"prompts": prompts, "tokens": tokens}) + "\n")
    self._process.stdin.flush()
    answer = self._process.stdout.readline()
    if not answer: raise RuntimeError("llama.cpp has ended")
    return json.loads(answer)

  def __enter__(self): return self
  def __exit__(self, *args):
    self._process.stdin.close()
    self._process.wait(60)


def prompts_of(count, length, turn):
  """Prompts that have no beginning in common with each other, nor with those of another turn."""
  return [[3 + (turn * count + i) % 1000] + [5 + (7 * k + i) % 900 for k in range(length - 1)] for i in range(count)]


def speed(model_path, rounds, peer):
  import uopd
  from uopd.llm.batch import Batch
  from uopd.llm.model import Model
  with ADaemon() as daemon:
    uopd.connect(daemon.address)
    model = Model.from_gguf(model_path, CONTEXT)[0]
    batch = Batch(model, SEQUENCES)
    batch.warm_up()

    def decode(turn):
      times = []
      for _ in model.generate([3 + turn, *PROMPT], DECODED + 1): times.append(time.perf_counter())
      return DECODED / (times[-1] - times[0])
    def prefill(turn):
      prompt = prompts_of(1, LONG_PROMPT, turn)[0]
      begin = time.perf_counter()
      next(model.generate(prompt, 1))
      return LONG_PROMPT / (time.perf_counter() - begin)
    def several(turn):
      begin = time.perf_counter()
      joined = [batch.join(p, DECODED) for p in prompts_of(SEQUENCES, 4, turn)]
      while batch.step(): pass
      return sum(len(s.said) for s in joined) / (time.perf_counter() - begin)
    ours = {"decode": decode, "prefill": prefill, "batch": several}
    for run in ours.values(): run(1000), run(1001), run(1002)  # recordings are made, and kept values

    def measured(llama):
      theirs = {} if llama is None else {
        "decode": lambda turn: DECODED / llama.ask([[3 + turn, *PROMPT]], DECODED + 1)["decode_s"],
        "prefill": lambda turn: LONG_PROMPT / llama.ask(prompts_of(1, LONG_PROMPT, turn), 1)["prompt_s"],
        "batch": lambda turn: (lambda a: a["tokens"] / a["wall_s"])(llama.ask(prompts_of(SEQUENCES, 4, turn), DECODED))}
      for name, run in ours.items():
        a, b = [], []
        for turn in range(rounds):
          a.append(run(turn))
          if theirs: b.append(theirs[name](turn))
        show(f"llm.{name}", "tok/s", statistics.median(a), "llama.cpp", statistics.median(b) if b else 0.0)
        show(f"llm.{name}.least", "tok/s", min(a), "llama.cpp", min(b) if b else 0.0)
    if peer is None: measured(None)
    else:
      with Llama(peer, model_path) as llama: measured(llama)


def first_token(address, model_path):
  """The seconds that a new client needs, which then stays, and its process."""
  process = subprocess.Popen([sys.executable, "-c", CLIENT, model_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | {"UOPD_ADDRESS": address})
  said = process.stdout.readline()
  if not said: raise RuntimeError("a client has ended without a token")
  return float(said), process


def end(*processes):
  for process in processes:
    process.stdin.close()
    process.wait(60)


def held(daemon):
  """The MiB that the daemon holds for clients, contents that they share counted once. 0 before there is a client."""
  of = daemon.metrics()
  return sum(of.get(f'uopd_client_bytes{{class="{c}"}}', 0.0) for c in ("buffers", "kept", "contents")) / 2**20


def compiled(daemon): return daemon.metrics().get("uopd_kernels_compiled_total", 0.0)


def clients(model_path, rounds, peer):
  """First, second and restarted clients, each round with a new daemon."""
  del peer
  figures = {name: [] for name in ("first", "second", "restarted")}

  def measured(daemon, link, name):
    memory, sent, kernels = held(daemon), link.sent, compiled(daemon)
    seconds, process = first_token(link.address, model_path)
    if not held(daemon): raise RuntimeError("the daemon does not say what it holds for clients")
    figures[name].append((seconds, 1e-3 * (link.sent - sent), held(daemon) - memory, compiled(daemon) - kernels))
    return process

  for _ in range(rounds):
    with ADaemon("--listen=127.0.0.1:0") as daemon:
      with CountingLink(daemon.address) as link: end(*[measured(daemon, link, name) for name in ("first", "second")])
      daemon.restart(signal.SIGTERM)
      with CountingLink(daemon.address) as link: end(measured(daemon, link, "restarted"))
  for name, found in figures.items():
    for what, unit, column in zip(("first_token", "sent", "memory", "kernels_compiled"), ("s", "kB", "MiB", ""), zip(*found)): show(f"llm.{name}.{what}", unit, statistics.median(column))


def long(model_path, rounds, peer):
  del rounds, peer
  import uopd
  from uopd.llm.model import Model
  with ADaemon() as daemon:
    uopd.connect(daemon.address)
    model = Model.from_gguf(model_path, CONTEXT)[0]
    for turn in range(2): list(model.generate([3 + turn, *PROMPT], 8))
    while (before := compiled(daemon)) != (time.sleep(5), compiled(daemon))[1]: pass  # kernels are made better behind the answers
    graphs = uopd.runtime.stats()["graphs_sent"]
    said = len(list(model.generate([9, *PROMPT], 1000)))
    show("llm.long.tokens", "", said)
    show("llm.long.graphs_sent", "", uopd.runtime.stats()["graphs_sent"] - graphs)
    show("llm.long.kernels_compiled", "", compiled(daemon) - before)


def main():
  benches = {"speed": speed, "clients": clients, "long": long}
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("model", type=pathlib.Path)
  parser.add_argument("names", nargs="*", metavar="|".join(benches))
  parser.add_argument("--peer", help="a Python that has the package xllamacpp")
  parser.add_argument("--rounds", type=int, default=5)
  args = parser.parse_args()
  for name in args.names or benches: benches[name](str(args.model.resolve()), args.rounds, args.peer)


if __name__ == "__main__": main()
