# SPDX-License-Identifier: MIT
"""The tests of backends in the package onnx (onnx/backend/test/data): models with inputs and expected outputs, which NumPy or PyTorch have computed.

`cases(kinds)` lists them, and `run(case)` runs one on the daemon of this process. Tolerances are those of the suite.
"""
import json
import pathlib
import re
from typing import NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

from uopd import Tensor
from uopd.onnx import OnnxRunner

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "light")
DATA = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data"
# Types of the format in which elements travel as others do (client/include/uopd/onnx_model.h).
TRAVELS = {"bfloat16": "bfloat16", "float8_e4m3fn": "fp8e4m3", "float8_e5m2": "fp8e5m2", "float8_e4m3fnuz": "float16", "float8_e5m2fnuz": "float16",
           "float4_e2m1fn": "float32", "float8_e8m0fnu": "float32", "int4": "int8", "int2": "int8", "uint4": "uint8", "uint2": "uint8"}


# What the suite expects here has rounding errors above its own tolerance where the exact values are 0. These are compared with the transform in float64, with that tolerance.
def _inverse_dft(x, y): return np.stack([(z := np.fft.ifft(x[..., 0].astype(np.float64) + 1j * x[..., 1], axis=1)).real, z.imag], -1).astype(y.dtype)
EXACT = {"test_dft_inverse": _inverse_dft, "test_dft_inverse_opset19": _inverse_dft}


class Case(NamedTuple):
  kind: str
  name: str
  model: pathlib.Path
  rtol: float
  atol: float


class Result(NamedTuple):
  verdict: str  # passed, refused, wrong (another result), error (anything else)
  why: str      # short, equal for equal reasons
  text: str     # all that is known


def cases(kinds=KINDS):
  """All cases of these kinds."""
  out = []
  for kind in kinds:
    if kind == "light":
      for p in sorted((DATA / "light").glob("*.onnx")):
        given = json.loads((DATA / "real" / p.stem.replace("light", "test") / "data.json").read_text())
        out.append(Case(kind, p.stem, p, given["rtol"], given["atol"]))
      continue
    for folder in sorted((DATA / kind).iterdir()):
      given = json.loads((folder / "data.json").read_text()) if (folder / "data.json").exists() else {}
      if (folder / "model.onnx").exists(): out.append(Case(kind, folder.name, folder / "model.onnx", given.get("rtol", 1e-3), given.get("atol", 1e-7)))
  return out


def _load(path, kind):
  """The contents of a file with one input or output."""
  data = path.read_bytes()
  if kind.HasField("sequence_type"): return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
  if kind.HasField("optional_type"): return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
  return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def _data_sets(case, model):
  """(inputs, expected outputs) of each set; None where the suite has none."""
  names = {t.name for t in model.graph.initializer}
  free = [i for i in model.graph.input if i.name not in names]
  if case.kind == "light":
    shapes = [[d.dim_value or 1 for d in i.type.tensor_type.shape.dim] for i in free]
    inputs = {i.name: (np.arange(np.prod(s)).reshape(s) / np.prod(s)).astype(np.float32) for i, s in zip(free, shapes)}
    files = [case.model.with_name(f"{case.name}_output_{i}.pb") for i in range(len(model.graph.output))]
    return [(inputs, [_load(f, o.type) for f, o in zip(files, model.graph.output)])]
  sets = []
  for folder in sorted(case.model.parent.glob("test_data_set_*")):
    given = [_load(folder / f"input_{i}.pb", v.type) for i, v in enumerate(model.graph.input) if (folder / f"input_{i}.pb").exists()]
    want = [_load(folder / f"output_{i}.pb", v.type) for i, v in enumerate(model.graph.output) if (folder / f"output_{i}.pb").exists()]
    sets.append(({v.name: x for v, x in zip(model.graph.input, given)}, want))
  return sets


def _compare(got, want, case):
  """Raises AssertionError if they differ."""
  if isinstance(want, list):
    assert isinstance(got, list) and len(got) == len(want), f"a sequence of {len(want)} tensors is expected"
    for g, w in zip(got, want): _compare(g, w, case)
  elif want is None:
    assert got is None, "nothing is expected"
  else:
    if np.asarray(want).dtype.kind in "OUS":
      assert isinstance(got, np.ndarray) and got.shape == want.shape and got.tolist() == want.tolist(), f"expected are the strings {want!r}, not {got!r}"
      return
    assert isinstance(got, Tensor), f"a tensor is expected, not {type(got).__name__}"
    want = np.asarray(want)
    assert got.shape == want.shape, f"shape {got.shape}; expected {want.shape}"
    dtype = TRAVELS.get(want.dtype.name, want.dtype.name)
    assert got.dtype.name == dtype, f"dtype {got.dtype.name}; expected {dtype}"
    values = got.numpy()
    if want.dtype.name in TRAVELS: want = want.astype(values.dtype)
    np.testing.assert_allclose(values, want, rtol=case.rtol, atol=case.atol)


def run(case):
  """The verdict on one case."""
  model = onnx.load(case.model, load_external_data=False)
  try:
    runner = OnnxRunner(case.model)
    sets = _data_sets(case, model)
    if not sets: return Result("error", "the suite has no data", "")
    for inputs, want in sets:
      out = runner(inputs)
      if case.name in EXACT: want = [EXACT[case.name](inputs["x"], want[0])]
      for name, w in zip([o.name for o in model.graph.output], want): _compare(out[name], w, case)
  except NotImplementedError as e: return Result("refused", _reason(e), str(e))
  except AssertionError as e:
    # Refusals of the client library are AssertionErrors, too, which have a code.
    return Result("error" if hasattr(e, "code") else "wrong", _reason(e) if hasattr(e, "code") else "another result", str(e))
  except Exception as e: return Result("error", _reason(e), str(e))
  return Result("passed", "", "")


def _reason(error):
  text = str(error)
  op = re.search(r"of the op `(\w+)`(?: of the domain `([\w.]+)`)?", text)
  name = "" if op is None else f"{op[2] + '.' if op[2] else ''}{op[1]}: "
  return f"{name}{type(error).__name__}: " + re.sub(r"\d+", "N", re.sub(r"[(]while .*", "", text.split(chr(10))[0]))[:140]
