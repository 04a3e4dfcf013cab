# SPDX-License-Identifier: MIT
"""Models of the package onnx with random changes, as a hostile or broken file may have them: `python onnx_mutations.py SEED COUNT`.

Each one has to run, or to be refused with an error that is not INTERNAL; the process must neither die nor take much time or memory. Prints the number of
models that ran and that were refused.
"""
import collections
import pathlib
import random
import sys
import tempfile
import time

import numpy as np
import onnx
import onnx_suite
from a_daemon import resident

from uopd.errors import Internal
from uopd.onnx import OnnxRunner

NUMBERS = [0, 1, -1, 2, 3, 7, -2, 100, 2**31, -2**31, 2**48, 2**62, 2**63 - 1, -2**63]
FLOATS = [0.0, -1.0, 1e-30, 1e30, float("inf"), float("-inf"), float("nan"), 0.5]
MOST_SECONDS, MOST_MIB = 60, 2048


def change_attribute(rng, node, nodes):
  if not node.attribute: return
  a = rng.choice(node.attribute)
  if a.type == a.INT: a.i = rng.choice(NUMBERS)
  elif a.type == a.FLOAT: a.f = rng.choice(FLOATS)
  elif a.type == a.INTS and a.ints:
    if rng.random() < 0.3: del a.ints[-1]
    elif rng.random() < 0.3: a.ints.append(rng.choice(NUMBERS))
    else: a.ints[rng.randrange(len(a.ints))] = rng.choice(NUMBERS)
  elif a.type == a.STRING: a.s = rng.choice([b"", b"linear", b"constant", b"SAME_UPPER", b"\xff"])
  elif a.type == a.TENSOR and a.t.data_type == onnx.TensorProto.INT64:
    values = onnx.numpy_helper.to_array(a.t).copy().reshape(-1)
    if values.size: values[rng.randrange(values.size)] = rng.choice(NUMBERS)
    a.t.CopyFrom(onnx.numpy_helper.from_array(values.reshape(tuple(a.t.dims)), a.t.name))
  elif a.type == a.GRAPH and a.g.node: mutate_nodes(rng, a.g.node, nodes)


def change_inputs(rng, node, nodes):
  names = [n for other in nodes for n in [*other.input, *other.output]]
  if not node.input: return
  what = rng.randrange(4)
  if what == 0: del node.input[-1]
  elif what == 1: node.input[rng.randrange(len(node.input))] = rng.choice(names)
  elif what == 2: node.input.append(rng.choice(names))
  else: node.input[rng.randrange(len(node.input))] = ""


def change_op(rng, node, nodes): node.op_type = rng.choice(nodes).op_type if rng.random() < 0.3 else rng.choice(onnx.defs.get_all_schemas()).name
def change_outputs(rng, node, nodes):
  if rng.random() < 0.5: node.output.append(f"more{rng.random()}")
  elif len(node.output): del node.output[-1]


def mutate_nodes(rng, nodes, _=None):
  if nodes: rng.choice([change_attribute, change_attribute, change_attribute, change_inputs, change_op, change_outputs])(rng, rng.choice(nodes), nodes)


def changed_input(rng, value):
  """Another array for an input: other sizes, or other numbers."""
  if not isinstance(value, np.ndarray) or value.dtype.kind not in "iufb": return value
  if value.dtype.kind in "iu" and value.size and rng.random() < 0.5:
    value = value.copy().reshape(-1)
    value[rng.randrange(value.size)] = np.array(rng.choice(NUMBERS)).astype(value.dtype)
    return value
  shape = list(value.shape)
  if rng.random() < 0.3 and shape: shape.pop(rng.randrange(len(shape)))
  elif rng.random() < 0.4: shape.insert(rng.randrange(len(shape) + 1), rng.choice([0, 1, 2]))
  elif shape: shape[rng.randrange(len(shape))] = rng.choice([0, 1, 2, 5])
  return np.ones(shape, value.dtype)


def elements(out): return sum(map(elements, out)) if isinstance(out, list) else int(np.prod(out.shape)) if out is not None else 0


def run(file, model, inputs):
  """Builds the graph, and reads the results if they are small."""
  del model.graph.value_info[:]
  for v in model.graph.input: v.type.tensor_type.ClearField("shape") if v.type.HasField("tensor_type") else None
  onnx.save(model, file)
  out = OnnxRunner(file)(inputs)
  for value in out.values():
    if elements(value) < 1 << 16:
      for t in value if isinstance(value, list) else [value]: _ = t.numpy() if hasattr(t, "numpy") else t


def main(seed, count):
  rng, cases = random.Random(seed), onnx_suite.cases(["node"])
  results = collections.Counter()
  with tempfile.TemporaryDirectory() as folder:
    for i in range(count):
      case = rng.choice(cases)
      model = onnx.load(case.model, load_external_data=False)
      sets = onnx_suite._data_sets(case, model)
      inputs = dict(sets[0][0]) if sets else {}
      for _ in range(rng.choice([1, 1, 2, 4])):
        if inputs and rng.random() < 0.4:
          name = rng.choice(sorted(inputs))
          inputs[name] = changed_input(rng, inputs[name])
        else: mutate_nodes(rng, model.graph.node)
      print(f"{i} {case.name}", file=sys.stderr, flush=True)
      start = time.monotonic()
      try:
        run(pathlib.Path(folder) / "model.onnx", model, inputs)
        results["ran"] += 1
      except Internal: raise
      except (ValueError, NotImplementedError, MemoryError, RuntimeError, TypeError, IndexError, OverflowError): results["refused"] += 1
      if time.monotonic() - start > MOST_SECONDS: raise AssertionError(f"model {i} of seed {seed} ({case.name}) took {time.monotonic() - start:.0f} s")
      if resident() > MOST_MIB: raise AssertionError(f"model {i} of seed {seed} ({case.name}): {resident():.0f} MiB")
  print(dict(results))


if __name__ == "__main__": main(int(sys.argv[1]), int(sys.argv[2]))
