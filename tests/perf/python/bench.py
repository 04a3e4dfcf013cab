# SPDX-License-Identifier: MIT
"""What the Python client costs, beside what it is measured against.

  UOPD_DAEMON=build/release/bin/uopd build/python-venv/bin/python tests/perf/python/bench.py [replay] [build] [transfer] [import]

All but `build` and `import` compare with build/release/bin/uopd-perf, which runs against the same daemon in turns with Python.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

PERF = pathlib.Path(__file__).parents[3] / "build/release/bin/uopd-perf"


def peer(name, address, scale):
  """The figures of a C++ benchmark by name."""
  r = subprocess.run([PERF, "--json", "--address", address, "--scale", str(scale), name], capture_output=True, text=True, check=True)
  return {m["name"]: m for m in map(json.loads, r.stdout.splitlines())}


def show(name, unit, value, peer_name="", other=0.0):
  print(f"{name:34} {value:9.2f} {unit:5}" + (f"  {peer_name} {other:.2f}, ratio {value / other:.3f}" if other else ""), flush=True)


def replay(rounds):
  """The training step of uopd-perf's jit.replay: CPU time of this process, all its threads, per step."""
  import uopd
  from uopd import Tensor, TinyJit, nn
  layers = [nn.Linear(784, 128), nn.Linear(128, 64), nn.Linear(64, 10)]
  optimizer = nn.optim.Adam(nn.state.get_parameters(layers))

  @TinyJit
  def step(x, y):
    loss = layers[2](layers[1](layers[0](x).relu()).relu()).sparse_categorical_crossentropy(y).backward()
    optimizer.step()
    return loss.realize()
  x, y = Tensor.rand(128, 784).realize(), Tensor.zeros(128, dtype="int32").contiguous().realize()
  steps, cpu, calling, alone, cpp, wall = 200, [], [], [], [], []
  with Tensor.train():
    for _ in range(50): step(x, y)
    uopd.sync()
    for _ in range(rounds):
      for _ in range(3):
        begin, thread, real = time.process_time(), time.thread_time(), time.perf_counter()
        for i in range(steps):
          step(x, y)
          if i % 50 == 49: uopd.sync()
        cpu.append(1e6 * (time.process_time() - begin) / steps)
        calling.append(1e6 * (time.thread_time() - thread) / steps)
        wall.append(1e6 * (time.perf_counter() - real) / steps)
      figures = peer("jit", uopd.client().address, 0.3)
      alone.append(figures["jit.replay.cpu"]["peer_value"])
      cpp.append(figures["jit.replay.cpu"]["value"])
  median = statistics.median
  show("python.replay.cpu", "us", median(cpu), "messages alone", median(alone))
  show("python.replay.over_messages", "us", median(cpu) - median(alone))
  show("python.replay.calling_thread", "us", median(calling))
  show("cpp.replay.cpu", "us", median(cpp), "messages alone", median(alone))
  show("python.replay.step", "us", median(wall))


def build(rounds):
  """The graph of ResNet-50, forward, batch 1. Nothing is sent."""
  from resnet import ResNet50
  from uopd import Tensor
  image, first, again = Tensor.empty(1, 3, 224, 224), [], []
  for _ in range(rounds):
    model = ResNet50()
    for i in range(10):
      begin = time.perf_counter()
      model(image)
      (first if i == 0 else again).append(1e3 * (time.perf_counter() - begin))
  show("python.build.resnet50.first", "ms", statistics.median(first))
  show("python.build.resnet50.again", "ms", statistics.median(again))


def transfer(rounds):
  """Arrays of 64 MiB, in turns with bare streams."""
  import numpy as np
  import uopd
  from uopd import Tensor
  data, up, down, bare = np.ones(16 << 20, np.float32), [], [], []
  for _ in range(rounds):
    for _ in range(5):
      begin = time.perf_counter()
      kept = Tensor(data)
      kept[7:8].item()   # a tensor is uploaded when something needs it
      up.append(1e-6 * data.nbytes / (time.perf_counter() - begin))
    for _ in range(5):
      begin = time.perf_counter()
      kept.numpy()
      down.append(1e-6 * data.nbytes / (time.perf_counter() - begin))
    bare.append(peer("streams", uopd.client().address, 0.25))
  median = statistics.median
  show("python.upload", "MB/s", median(up), "bare stream", median(m["streams.upload"]["value"] for m in bare))
  show("python.download", "MB/s", median(down), "bare stream", median(m["streams.download"]["value"] for m in bare))


def import_time(rounds):
  """`import uopd` beside `import numpy`, in new processes."""
  def seconds(module):
    code = f"import time; begin = time.perf_counter(); import {module}; print(time.perf_counter() - begin)"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
  ours, numpy = zip(*[(seconds("uopd"), seconds("numpy")) for _ in range(5 * rounds)])
  show("python.import", "ms", 1e3 * statistics.median(ours), "numpy", 1e3 * statistics.median(numpy))


def main():
  benches = {"replay": replay, "build": build, "transfer": transfer, "import": import_time}
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("names", nargs="*", metavar="|".join(benches))
  parser.add_argument("--rounds", type=int, default=5)
  args = parser.parse_args()
  os.environ.setdefault("UOPD_ADDRESS", "")
  for name in args.names or benches: benches[name](args.rounds)


if __name__ == "__main__": main()
