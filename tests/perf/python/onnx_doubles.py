# SPDX-License-Identifier: MIT
"""Models of ONNX files in double precision: which of two results in f32 is nearer to the exact one."""
import pathlib
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from uopd.onnx import OnnxRunner


def _doubles(tensor):
  if tensor.data_type == TensorProto.FLOAT: tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))


def _graph_in_doubles(graph):
  for tensor in graph.initializer: _doubles(tensor)
  for value in (*graph.input, *graph.output, *graph.value_info):
    if value.type.tensor_type.elem_type == TensorProto.FLOAT: value.type.tensor_type.elem_type = TensorProto.DOUBLE
  for node in graph.node:
    for a in node.attribute:
      if a.type == onnx.AttributeProto.TENSOR: _doubles(a.t)
      elif a.type == onnx.AttributeProto.GRAPH: _graph_in_doubles(a.g)
      elif a.name == "to" and a.i == TensorProto.FLOAT: a.i = TensorProto.DOUBLE


def results_in_doubles(path, inputs):
  """The outputs of the model where all floats of 32 bits, also those of its inputs, are floats of 64 bits."""
  model = onnx.load(path)
  _graph_in_doubles(model.graph)
  with tempfile.TemporaryDirectory() as folder:
    file = pathlib.Path(folder) / "model.onnx"
    onnx.save(model, file)
    out = OnnxRunner(file)({name: x.astype(np.float64) if x.dtype == np.float32 else x for name, x in inputs.items()})
    return [t.numpy() for t in out.values()]
