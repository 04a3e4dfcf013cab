# SPDX-License-Identifier: MIT
"""OnnxRunner beyond the suite of test_onnx_backend.py: inputs, refusals, what is folded and what is read back, limits."""
import concurrent.futures
import gc
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

import uopd
from a_daemon import ADaemon
from uopd import Tensor, TinyJit, dtypes
from uopd.errors import Error
from uopd.onnx import OnnxRunner, OnnxValue, supported_ops

onnx = pytest.importorskip("onnx")
from onnx import TensorProto as T  # noqa: E402
from onnx import helper  # noqa: E402


def save(path, nodes, inputs, outputs, initializers=(), opset=21, functions=(), domains=()):
  """A model in a file. Inputs and outputs: (name, element type, shape)."""
  graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(*i) for i in inputs], [helper.make_tensor_value_info(*o) for o in outputs], list(initializers))
  opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
  model = helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=10)
  file = path / "model.onnx"
  onnx.save(model, file)
  return file


def ints(name, values): return helper.make_tensor(name, T.INT64, [len(values)], values)


def test_names_types_and_shapes(tmp_path):
  file = save(tmp_path, [helper.make_node("Add", ["x", "w"], ["y"])], [("x", T.FLOAT, ["batch", 3])], [("y", T.FLOAT, ["batch", 3])],
              [helper.make_tensor("w", T.FLOAT, [3], [1, 2, 3])])
  runner = OnnxRunner(file)
  assert runner.graph_inputs == {"x": OnnxValue(("batch", 3), dtypes.float32, "FLOAT")}
  assert runner.graph_outputs == {"y": OnnxValue(("batch", 3), dtypes.float32, "FLOAT")}
  assert runner.opset_version == 21 and "x" in repr(runner)
  for batch in (1, 4):
    x = np.arange(3.0 * batch, dtype=np.float32).reshape(batch, 3)
    for given in (x, Tensor(x), x.tolist()): np.testing.assert_array_equal(runner({"x": given})["y"].numpy(), x + [1, 2, 3])


def test_outputs_come_in_the_order_of_the_model(tmp_path):
  nodes = [helper.make_node(op, ["x"], [y]) for op, y in (("Neg", "z"), ("Abs", "a"), ("Relu", "m"))]
  runner = OnnxRunner(save(tmp_path, nodes, [("x", T.FLOAT, [2])], [(y, T.FLOAT, [2]) for y in ("z", "a", "m")]))
  out = runner({"x": np.array([-1, 2], np.float32)})
  assert list(out) == list(runner.graph_outputs) == ["z", "a", "m"]
  assert [t.tolist() for t in out.values()] == [[1, -2], [1, 2], [0, 2]]


def test_scalars_of_numpy_have_their_dtype(tmp_path):
  """np.float64 is a float of Python too, which would become float32."""
  for t, kind in ((T.DOUBLE, np.float64), (T.FLOAT, np.float32), (T.INT64, np.int64), (T.UINT64, np.uint64), (T.BOOL, np.bool_)):
    runner = OnnxRunner(save(tmp_path, [helper.make_node("Identity", ["x"], ["y"])], [("x", t, [])], [("y", t, [])]))
    found = runner({"x": kind(0.1)})["y"].numpy()
    assert found.dtype == kind and found == kind(0.1)


def test_wrong_inputs_name_what_is_wrong(tmp_path):
  file = save(tmp_path, [helper.make_node("Add", ["a", "b"], ["y"])], [("a", T.FLOAT, ["n", 2]), ("b", T.FLOAT, ["n", 2])], [("y", T.FLOAT, None)])
  runner, two = OnnxRunner(file), np.zeros((2, 2), np.float32)
  for inputs, message in [({"a": two}, "input `b` is missing"),
                          ({"a": two, "b": two, "c": two}, "no input `c`"),
                          ({"a": two, "b": two.astype(np.float64)}, "dtype is f64; the model declares FLOAT, which is f32"),
                          ({"a": two, "b": np.zeros((2, 3), np.float32)}, r"shape is \(2, 3\); the model declares \(`n`, 2\)"),
                          ({"a": two, "b": np.zeros((3, 2), np.float32)}, "equal names are equal sizes"),
                          ({"a": two, "b": [two]}, "dtype|list|shape")]:
    with pytest.raises((ValueError, TypeError), match=message): runner(inputs)


@pytest.mark.parametrize(("node", "opset", "message"), [
  (helper.make_node("Nonsense", ["x"], ["y"], name="here"), 21, "the op is not supported .*`here` of the op `Nonsense`, operator set 21"),
  (helper.make_node("Gelu", ["x"], ["y"]), 13, "not supported in this operator set"),
  (helper.make_node("Relu", ["x"], ["y"]), 99, "operator sets 1 to 27 are supported"),
  (helper.make_node("Relu", ["x"], ["y"], slope=2), 21, "the attribute `slope` is not supported"),
  (helper.make_node("Relu", ["x"], ["y", "z"]), 21, "output 1 is not supported"),
])
def test_refusals_name_the_node(tmp_path, node, opset, message):
  file = save(tmp_path, [node], [("x", T.FLOAT, [2])], [("y", T.FLOAT, [2])], opset=opset)
  with pytest.raises(NotImplementedError, match=message): OnnxRunner(file)({"x": np.zeros(2, np.float32)})


@pytest.mark.parametrize(("node", "message"), [
  (helper.make_node("Relu", ["q"], ["y"]), "no node before it makes its input `q`"),
  (helper.make_node("Add", ["x"], ["y"]), "it has 1 inputs"),
  (helper.make_node("Softmax", ["x"], ["y"], axis=5), "axis 5 is out of range"),
  (helper.make_node("Softmax", ["x"], ["y"], axis="one"), "attribute `axis` is not an integer"),
  (helper.make_node("Concat", ["x", "x"], ["y"], axis=-9), "axis -9 is out of range"),
])
def test_wrong_models_name_the_node(tmp_path, node, message):
  file = save(tmp_path, [node], [("x", T.FLOAT, [2])], [("y", T.FLOAT, [2])])
  with pytest.raises(ValueError, match=message): OnnxRunner(file)({"x": np.zeros(2, np.float32)})



def test_shapes_are_computed_without_the_daemon(tmp_path):
  """x.reshape(x.shape[0] * 2, -1), as exporters write it."""
  nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Gather", ["s", "zero"], ["n"]), helper.make_node("Mul", ["n", "two"], ["n2"]),
           helper.make_node("Concat", ["n2", "rest"], ["to"], axis=0), helper.make_node("Reshape", ["x", "to"], ["r"]), helper.make_node("Relu", ["r"], ["y"])]
  file = save(tmp_path, nodes, [("x", T.FLOAT, ["n", 6])], [("y", T.FLOAT, None)], [ints("zero", [0]), ints("two", [2]), ints("rest", [-1])])
  runner = OnnxRunner(file)
  for n in (1, 3):
    x = Tensor(np.arange(6.0 * n, dtype=np.float32).reshape(n, 6)).realize()
    before = uopd.stats()["executes"]
    y = runner({"x": x})["y"]
    assert uopd.stats()["executes"] == before, "the shape was read back"
    np.testing.assert_array_equal(y.numpy(), x.numpy().reshape(2 * n, 3))


def test_a_shape_that_is_an_input_is_read_back(tmp_path):
  file = save(tmp_path, [helper.make_node("Add", ["a", "b"], ["s"]), helper.make_node("Reshape", ["x", "s"], ["y"])],
              [("x", T.FLOAT, [6]), ("a", T.INT64, [2]), ("b", T.INT64, [2])], [("y", T.FLOAT, None)])
  x = np.arange(6, dtype=np.float32)
  runner = OnnxRunner(file)
  for a, shape in [([1, 1], (2, 3)), ([2, 0], (3, 2))]:
    y = runner({"x": x, "a": np.array(a), "b": np.array(shape) - a})["y"]
    np.testing.assert_array_equal(y.numpy(), x.reshape(shape))


@pytest.mark.parametrize("op,fold", [("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", lambda a, b: np.trunc(a / b).astype(a.dtype)), ("Mod", np.mod),
                                     ("Max", np.maximum), ("Min", np.minimum), ("Equal", np.equal), ("Less", np.less), ("Greater", np.greater),
                                     ("LessOrEqual", np.less_equal), ("GreaterOrEqual", np.greater_equal)])
@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_folded_ops_are_those_of_the_daemon(tmp_path, op, fold, kind):
  """Both ways: of initialisers, which the client computes, and of inputs, which the daemon computes."""
  a = np.array([[7], [-7 if kind != np.uint8 else 200], [2]], kind)
  b = np.array([3, -2 if kind != np.uint8 else 255, 1, 7], kind)
  number = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
  result = T.BOOL if fold(a, b).dtype == bool else number
  node = helper.make_node(op, ["a", "b"], ["y"])
  known = save(tmp_path, [node], [], [("y", result, None)], [onnx.numpy_helper.from_array(a, "a"), onnx.numpy_helper.from_array(b, "b")])
  folded = OnnxRunner(known)({})["y"].numpy()
  given = save(tmp_path, [node], [("a", number, None), ("b", number, None)], [("y", result, None)])
  computed = OnnxRunner(given)({"a": a, "b": b})["y"].numpy()
  np.testing.assert_array_equal(folded, fold(a, b))
  np.testing.assert_array_equal(computed, fold(a, b))
  assert folded.dtype == computed.dtype == fold(a, b).dtype


def test_a_question_mark_is_the_name_of_no_size(tmp_path):
  """PaddlePaddle's exporter writes ? and -1 for all sizes that it does not know."""
  file = save(tmp_path, [helper.make_node("MatMul", ["a", "b"], ["y"])], [("a", T.FLOAT, [-1, "?"]), ("b", T.FLOAT, ["?", "?"])], [("y", T.FLOAT, None)])
  runner, rng = OnnxRunner(file), np.random.default_rng(1)
  assert runner.graph_inputs["a"].shape == runner.graph_inputs["b"].shape == ("", "")
  a, b = rng.integers(-4, 5, (2, 3)).astype(np.float32), rng.integers(-4, 5, (3, 5)).astype(np.float32)
  np.testing.assert_array_equal(runner({"a": a, "b": b})["y"].numpy(), a @ b)
  with pytest.raises(ValueError, match=r"shape is \(2\); the model declares \(\?, \?\)"): runner({"a": np.zeros(2, np.float32), "b": b})


def both_ways(path, node, a, rest=()):
  """The result of a node whose first input is an initialiser, which the client computes, and of one whose input the daemon has."""
  number = helper.np_dtype_to_tensor_dtype(a.dtype)
  known = OnnxRunner(save(path, [node], [], [("y", number, None)], [onnx.numpy_helper.from_array(a, "a"), *rest]))
  before = uopd.stats()["executes"]
  folded = known({})["y"].numpy()
  assert uopd.stats()["executes"] == before, "the daemon computed it"
  given = OnnxRunner(save(path, [node], [("a", number, None)], [("y", number, None)], rest))
  computed = given({"a": Tensor(a).realize()})["y"].numpy()
  assert uopd.stats()["executes"] > before or computed.size == 0
  return folded, computed


@pytest.mark.parametrize("starts,ends,axes,steps,place", [([-1], [-2**63 + 1], [0], [-1], np.s_[::-1]),
                                                          ([1, 3], [99, -9], [1, 2], [1, -2], np.s_[:, 1:99, 3::-2]),
                                                          ([-3, 2], [-1, 1], [-1, 0], [1, -1], np.s_[2:1:-1, :, -3:-1]),
                                                          ([9], [1], [2], [-3], np.s_[:, :, 9:1:-3]),
                                                          ([0], [2**63 - 1], [1], [2**63 - 1], np.s_[:, ::2**62]),
                                                          ([2], [1], [0], [1], np.s_[2:1]),
                                                          ([1], [2], None, None, np.s_[1:2])])
def test_slices_are_those_of_numpy_both_ways(tmp_path, starts, ends, axes, steps, place):
  a = np.arange(60, dtype=np.int64).reshape(3, 4, 5)
  names = ["a", "starts", "ends", *(["axes"] if axes else []), *(["steps"] if steps else [])]
  rest = [ints(name, values) for name, values in (("starts", starts), ("ends", ends), ("axes", axes), ("steps", steps)) if values]
  for result in both_ways(tmp_path, helper.make_node("Slice", names, ["y"]), a, rest):
    np.testing.assert_array_equal(result, a[place])
    assert result.dtype == a.dtype


@pytest.mark.parametrize("order", [None, [1, 0, 2], [2, 0, 1]])
def test_transposes_are_those_of_numpy_both_ways(tmp_path, order):
  a = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
  node = helper.make_node("Transpose", ["a"], ["y"], **({} if order is None else {"perm": order}))
  for result in both_ways(tmp_path, node, a): np.testing.assert_array_equal(result, np.transpose(a, order))
  bad = save(tmp_path, [helper.make_node("Transpose", ["a"], ["y"], perm=[0, 0, 1])], [], [("y", T.INT32, None)], [onnx.numpy_helper.from_array(a, "a")])
  with pytest.raises(ValueError, match="of the op `Transpose`"): OnnxRunner(bad)({})["y"].numpy()


def test_the_paddings_that_pytorch_writes_are_not_read_back(tmp_path):
  """PyTorch's exporter gives the last axis first, and turns this around in the graph."""
  nodes = [helper.make_node("ConstantOfShape", ["two"], ["zeros"], value=ints("v", [0])), helper.make_node("Concat", ["pads", "zeros"], ["all"], axis=0),
           helper.make_node("Reshape", ["all", "pairs"], ["p"]), helper.make_node("Slice", ["p", "last", "first", "axis", "last"], ["r"]),
           helper.make_node("Transpose", ["r"], ["t"], perm=[1, 0]), helper.make_node("Reshape", ["t", "last"], ["flat"]),
           helper.make_node("Cast", ["flat"], ["c"], to=T.INT64), helper.make_node("Pad", ["x", "c"], ["y"], mode="reflect")]
  file = save(tmp_path, nodes, [("x", T.FLOAT, ["n", 5])], [("y", T.FLOAT, None)],
              [ints("two", [2]), ints("pads", [1, 2]), ints("pairs", [-1, 2]), ints("last", [-1]), ints("first", [-2**63 + 1]), ints("axis", [0])])
  runner, x = OnnxRunner(file), np.arange(10, dtype=np.float32).reshape(2, 5)
  t = Tensor(x).realize()
  before = uopd.stats()["executes"]
  y = runner({"x": t})["y"]
  assert uopd.stats()["executes"] == before, "the paddings were read back"
  np.testing.assert_array_equal(y.numpy(), np.pad(x, ((0, 0), (1, 2)), mode="reflect"))


def branching(path, kind=T.INT64):
  """y is 2 x if `rate` is 16, else x + 1."""
  out = [helper.make_tensor_value_info("z", T.FLOAT, None)]
  branches = {"then_branch": helper.make_graph([helper.make_node("Add", ["x", "x"], ["z"])], "then", [], out),
              "else_branch": helper.make_graph([helper.make_node("Add", ["x", "one"], ["z"])], "else", [], out)}
  nodes = [helper.make_node("Equal", ["rate", "wanted"], ["is"]), helper.make_node("If", ["is"], ["y"], **branches)]
  return OnnxRunner(save(path, nodes, [("x", T.FLOAT, ["n"]), ("rate", kind, [])], [("y", T.FLOAT, None)],
                         [helper.make_tensor("wanted", kind, [], [16]), helper.make_tensor("one", T.FLOAT, [], [1])]))


def test_numbers_decide_branches_without_the_daemon(tmp_path):
  runner, x = branching(tmp_path), np.array([1, 5], np.float32)
  t = Tensor(x).realize()
  for n, wanted in ((16, 2 * x), (8, x + 1)):
    for given in (n, np.array(n), np.int64(n)):
      before = uopd.stats()["executes"]
      y = runner({"x": t, "rate": given})["y"]
      assert uopd.stats()["executes"] == before, "the number was read back"
      np.testing.assert_array_equal(y.numpy(), wanted)
    np.testing.assert_array_equal(runner({"x": t, "rate": Tensor(n, dtype=dtypes.int64)})["y"].numpy(), wanted)


def test_a_jit_records_the_branch_of_a_number(tmp_path):
  runner = branching(tmp_path)
  for n, f in ((16, lambda x: 2 * x), (8, lambda x: x + 1)):
    step = TinyJit(lambda x, n=n: runner({"x": x, "rate": np.array(n)})["y"].realize())
    for k in range(4):
      x = np.array([k, 7], np.float32)
      np.testing.assert_array_equal(step(Tensor(x)).numpy(), f(x))


def test_wrong_numbers_are_refused_as_wrong_arrays_are(tmp_path):
  runner, x = branching(tmp_path, T.INT8), np.zeros(2, np.float32)
  for given, message in ((np.array(16), "dtype is i64; the model declares INT8"), (np.array(1.5, np.float32), "dtype is f32"), (np.zeros(2, np.int8), "shape")):
    with pytest.raises((ValueError, TypeError), match=message): runner({"x": x, "rate": given})
  with pytest.raises((ValueError, TypeError, OverflowError)): runner({"x": x, "rate": 300})
  np.testing.assert_array_equal(runner({"x": x, "rate": np.int8(16)})["y"].numpy(), x)


def test_a_convolution_below_a_maximum_has_a_kernel_of_its_own(tmp_path):
  """In the kernel of the maximum its sums had no tile."""
  rng = np.random.default_rng(3)
  x, w = (rng.integers(-3, 4, s).astype(np.float32) for s in ((1, 40, 32, 1), (48, 32, 5, 1)))
  nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1, 3]), helper.make_node("Conv", ["t", "w"], ["c"], kernel_shape=[5, 1]),
           helper.make_node("Relu", ["c"], ["r"]), helper.make_node("GlobalMaxPool", ["r"], ["y"])]
  runner = OnnxRunner(save(tmp_path, nodes, [("x", T.FLOAT, x.shape)], [("y", T.FLOAT, None)], [onnx.numpy_helper.from_array(w, "w")]))
  windows = np.lib.stride_tricks.sliding_window_view(x[0, :, :, 0], 5, axis=0)
  wanted = np.maximum(np.einsum("pck,ock->op", windows, w[:, :, :, 0]), 0).max(1)
  before = uopd.stats()
  np.testing.assert_array_equal(runner({"x": x})["y"].numpy().reshape(-1), wanted)
  kernels = sum(uopd.stats()[k] - before[k] for k in before if k.startswith("kernels_") and k != "kernels_run")
  assert kernels >= 2


def test_rows_are_found_by_indices_of_64_bits(tmp_path):
  """Largest ones, too: a difference of such an index and a position does not fit 64 bits."""
  rows = np.arange(1, 31, dtype=np.float32).reshape(10, 3)
  runner = OnnxRunner(save(tmp_path, [helper.make_node("Gather", ["w", "i"], ["y"])], [("i", T.INT64, ["n"])], [("y", T.FLOAT, None)],
                           [onnx.numpy_helper.from_array(rows, "w")]))
  index = np.array([0, 9, -1, -10, 3, 10, -11, 2**32, 2**32 + 3, 2**63 - 1, -2**63, -2**63 + 4, -2**32 - 1], np.int64)
  wanted = np.stack([rows[i] if -10 <= i < 10 else np.zeros(3, np.float32) for i in index.tolist()])
  np.testing.assert_array_equal(runner({"i": index})["y"].numpy(), wanted)


def counting_loop(path, body_nodes=()):
  body = helper.make_graph([helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Add", ["v", "one"], ["w"]), *body_nodes], "body",
                           [helper.make_tensor_value_info("i", T.INT64, []), helper.make_tensor_value_info("go", T.BOOL, []), helper.make_tensor_value_info("v", T.FLOAT, [])],
                           [helper.make_tensor_value_info("on", T.BOOL, []), helper.make_tensor_value_info("w", T.FLOAT, [])])
  return save(path, [helper.make_node("Loop", ["n", "", "v0"], ["y"], body=body)], [("n", T.INT64, []), ("v0", T.FLOAT, [])], [("y", T.FLOAT, [])],
              [helper.make_tensor("one", T.FLOAT, [], [1])])


def test_loops_are_unrolled_up_to_a_limit(tmp_path):
  runner = OnnxRunner(counting_loop(tmp_path))
  for n in (0, 1, 5): assert runner({"n": np.array(n), "v0": np.float32(2)})["y"].item() == 2 + n
  with pytest.raises(MemoryError, match="more than [0-9]+ nodes"): runner({"n": np.array(2**62), "v0": np.float32(2)})
  assert runner({"n": np.array(3), "v0": np.float32(2)})["y"].item() == 5


def test_functions_call_each_other_up_to_a_limit(tmp_path):
  nodes = [helper.make_node("F", ["x"], ["y"], domain="own")]
  function = helper.make_function("own", "F", ["x"], ["y"], nodes, [helper.make_opsetid("own", 1)])
  file = save(tmp_path, nodes, [("x", T.FLOAT, [2])], [("y", T.FLOAT, [2])], functions=[function], domains=["own"])
  with pytest.raises(MemoryError, match="functions call each other"): OnnxRunner(file)({"x": np.zeros(2, np.float32)})


def test_functions_with_attributes(tmp_path):
  inner = helper.make_node("LeakyRelu", ["x"], ["y"])
  inner.attribute.append(onnx.AttributeProto(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope"))
  function = helper.make_function("own", "F", ["x"], ["y"], [inner], [helper.make_opsetid("", 21)], attributes=["slope"])
  file = save(tmp_path, [helper.make_node("F", ["x"], ["y"], domain="own", slope=0.5)], [("x", T.FLOAT, [2])], [("y", T.FLOAT, [2])], functions=[function], domains=["own"])
  np.testing.assert_array_equal(OnnxRunner(file)({"x": np.float32([-2, 3])})["y"].numpy(), [-1, 3])


def test_weights_are_sent_once(tmp_path):
  w = np.ones((512, 512), np.float32)
  file = save(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", T.FLOAT, [1, 512])], [("y", T.FLOAT, None)], [onnx.numpy_helper.from_array(w, "w")])
  runner, x = OnnxRunner(file), np.ones((1, 512), np.float32)
  runner({"x": x})["y"].numpy()
  before = uopd.stats()["traffic_bytes"]
  runner({"x": 2 * x})["y"].numpy()
  assert uopd.stats()["traffic_bytes"] - before < 64 << 10


def test_a_model_outlives_and_is_outlived(tmp_path):
  y = OnnxRunner(counting_loop(tmp_path))({"n": np.array(2), "v0": np.float32(1)})["y"]
  gc.collect()
  assert y.item() == 3


def test_a_jit_records_a_model(tmp_path):
  file = save(tmp_path, [helper.make_node("Gemm", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])], [("x", T.FLOAT, [2, 3])], [("y", T.FLOAT, None)],
              [helper.make_tensor("w", T.FLOAT, [3, 2], [1, -1, 2, -2, 3, -3])])
  runner = OnnxRunner(file)
  jit = uopd.TinyJit(lambda x: runner({"x": x})["y"].realize())
  w = np.float32([[1, -1], [2, -2], [3, -3]])
  for i in range(4):
    x = np.full((2, 3), i - 1, np.float32)
    np.testing.assert_array_equal(jit(Tensor(x).realize()).numpy(), np.maximum(x @ w, 0))


def test_gradients_flow_through_a_model(tmp_path):
  file = save(tmp_path, [helper.make_node("Mul", ["x", "x"], ["y"])], [("x", T.FLOAT, [2])], [("y", T.FLOAT, [2])])
  x = Tensor([3.0, -4.0], requires_grad=True)
  OnnxRunner(file)({"x": x})["y"].sum().backward()
  assert x.grad.tolist() == [6, -8]


@pytest.mark.parametrize(("shape", "axis", "rows"), [((3,), -1, (1, 3)), ((3,), 1, (3, 1)), ((2, 3, 2), -2, (2, 6)), ((2, 3, 2), 0, (1, 12)), ((2, 3, 2), 2, (6, 2))])
def test_softmax_before_operator_set_13_is_over_all_axes_from_one_on(tmp_path, shape, axis, rows):
  file = save(tmp_path, [helper.make_node("Softmax", ["x"], ["y"], axis=axis)], [("x", T.FLOAT, shape)], [("y", T.FLOAT, shape)], opset=11)
  x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
  e = np.exp(x.reshape(rows).astype(np.float64))
  np.testing.assert_allclose(OnnxRunner(file)({"x": x})["y"].numpy(), (e / e.sum(1, keepdims=True)).reshape(shape), rtol=1e-5)


@pytest.mark.parametrize("op", ["Max", "Sum", "Mean", "Concat", "Einsum", "Scan", "SequenceConstruct"])
def test_inputs_that_are_missing_between_others(tmp_path, op):
  attributes = {"Concat": {"axis": 0}, "Einsum": {"equation": "i,i,i"}, "Scan": {"num_scan_inputs": 1, "body": onnx.GraphProto(name="b")}}.get(op, {})
  file = save(tmp_path, [helper.make_node(op, ["x", "", "x"], ["y"], **attributes)], [("x", T.FLOAT, [2])], [("y", T.FLOAT, None)])
  with pytest.raises(ValueError, match="input 1 is missing"): OnnxRunner(file)({"x": np.zeros(2, np.float32)})


def test_zeros_are_quantised_to_zeros(tmp_path):
  names = [("y", T.UINT8, None), ("scale", T.FLOAT, None), ("zero", T.UINT8, None)]
  file = save(tmp_path, [helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"])], [("x", T.FLOAT, [3])], names)
  out = OnnxRunner(file)({"x": np.zeros(3, np.float32)})
  assert [out[n].tolist() for n, *_ in names] == [[0, 0, 0], 0, 0]


def test_pad_by_several_values(tmp_path):
  file = save(tmp_path, [helper.make_node("Pad", ["x", "p", "v"], ["y"])], [("x", T.FLOAT, [2]), ("v", T.FLOAT, [2])], [("y", T.FLOAT, None)], [ints("p", [1, 1])])
  with pytest.raises(ValueError, match="not one element"): OnnxRunner(file)({"x": np.zeros(2, np.float32), "v": np.ones(2, np.float32)})


@pytest.mark.parametrize("op", ["Identity", "Flatten"])
def test_assigning_to_a_result_changes_nothing_else(tmp_path, op):
  """The op has nothing to compute: its result is its input, or a view of it."""
  names = ["x", "w"]
  file = save(tmp_path, [helper.make_node(op, [n], [n + "y"]) for n in names], [("x", T.FLOAT, [2, 3])], [(n + "y", T.FLOAT, [2, 3]) for n in names],
              [helper.make_tensor("w", T.FLOAT, [2, 3], [1] * 6)])
  runner, x = OnnxRunner(file), Tensor.full((2, 3), 2.0).contiguous().realize()
  out = runner({"x": x})
  for n in names: out[n + "y"].assign(Tensor.full((2, 3), 7.0)).realize()
  assert x.tolist() == [[2.0] * 3] * 2
  again = runner({"x": x})
  assert again["xy"].tolist() == [[2.0] * 3] * 2 and again["wy"].tolist() == [[1.0] * 3] * 2


def test_a_child_process_does_not_use_the_model_of_its_parent(tmp_path):
  runner = OnnxRunner(counting_loop(tmp_path))
  assert runner({"n": np.array(1), "v0": np.float32(1)})["y"].item() == 2
  child = os.fork()
  if child == 0:
    try:
      runner._model.run({})
    except Error as e:
      del runner
      gc.collect()
      os._exit(0 if "parent process" in str(e) else 2)
    os._exit(3)
  assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
  assert runner({"n": np.array(1), "v0": np.float32(1)})["y"].item() == 2


def test_two_threads_use_one_model(tmp_path):
  runner = OnnxRunner(counting_loop(tmp_path))
  with concurrent.futures.ThreadPoolExecutor(2) as pool:
    results = list(pool.map(lambda i: runner({"n": np.array(i % 5), "v0": np.float32(i)})["y"].item(), range(40)))
  assert results == [i + i % 5 for i in range(40)]


def test_strings(tmp_path):
  file = save(tmp_path, [helper.make_node("StringConcat", ["a", "b"], ["c"]), helper.make_node("StringSplit", ["c"], ["y", "n"], delimiter="-")],
              [("a", T.STRING, [2]), ("b", T.STRING, [1])], [("y", T.STRING, None), ("n", T.INT64, None)])
  out = OnnxRunner(file)({"a": ["x-", "\u00e4"], "b": np.array(["y"], dtype=object)})
  assert out["y"].tolist() == [["x", "y"], ["\u00e4y", ""]] and out["n"].tolist() == [2, 1]


UOPCTL = pathlib.Path(os.environ.get("UOPD_DAEMON") or shutil.which("uopd") or ".").with_name("uopctl")


@pytest.mark.skipif(not UOPCTL.exists(), reason="there is no uopctl beside the daemon")
def test_uopctl_runs_a_model(tmp_path):
  file = save(tmp_path, [helper.make_node("Add", ["x", "x"], ["y"]), helper.make_node("SequenceConstruct", ["x", "y"], ["s"]), helper.make_node("SequenceAt", ["s", "one"], ["z"])],
              [("x", T.FLOAT, ["n"])], [("y", T.FLOAT, None), ("z", T.FLOAT, None)], [helper.make_tensor("one", T.INT64, [], [1])])
  np.save(tmp_path / "x.npy", np.float32([1, 2.5]))
  def uopctl(*arguments): return subprocess.run([UOPCTL, f"--address={d.address}", "run", file, f"--input=x={tmp_path}/x.npy", *arguments], capture_output=True, text=True)
  with ADaemon() as d:
    run = uopctl(f"--output=y={tmp_path}/y.npy")
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [f"y f32 (2) -> {tmp_path}/y.npy", "z f32 (2) [2.0,5.0]"]
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), [2, 5])
    assert "no output `q`" in uopctl("--output=q=q.npy").stderr
    assert "the input `x` is missing" in subprocess.run([UOPCTL, f"--address={d.address}", "run", file], capture_output=True, text=True).stderr


@pytest.mark.parametrize("seed", [1, 2])
def test_changed_models_run_or_are_refused(seed):
  run = subprocess.run([sys.executable, pathlib.Path(__file__).with_name("onnx_mutations.py"), str(seed), "150"], capture_output=True, text=True)
  assert run.returncode == 0, run.stderr[-3000:]
  assert "ran" in run.stdout and "refused" in run.stdout


def test_missing_and_broken_files(tmp_path):
  with pytest.raises(Error): OnnxRunner(tmp_path / "none.onnx")
  (tmp_path / "broken.onnx").write_bytes(b"\xff" * 100)
  with pytest.raises(ValueError): OnnxRunner(tmp_path / "broken.onnx")


PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "onnx_ops.md"
HEAD = """# Ops of ONNX

The ops that a model may use ([models](models.md#onnx)), with the first operator set whose rules are known, and the ops of the package onnx that are not there. What else of
an op is refused, its message says. This page is generated: `UOPD_ACCEPT=1` with the test `tests/python/test_onnx.py` writes it anew.
"""


def page():
  ops = supported_ops()
  there = {o[:2] for o in ops}
  absent = sorted({(s.domain, s.name) for s in onnx.defs.get_all_schemas() if not s.deprecated} - there)
  out = [HEAD]
  for domain in sorted({d for d, _ in [*there, *absent]}):
    out.append(f"## {domain or 'ai.onnx'}\n")
    known = [f"{n} ({since})" for d, n, since in ops if d == domain]
    missing = [n for d, n in absent if d == domain]
    if known: out.append("There: " + ", ".join(known) + ".\n")
    if missing: out.append("Not there: " + ", ".join(missing) + ".\n")
  return "\n".join(out)


def test_the_list_of_ops_is_up_to_date():
  if os.environ.get("UOPD_ACCEPT"): PAGE.write_text(page())
  assert PAGE.read_text() == page(), "UOPD_ACCEPT=1 writes the page anew"
  ops = supported_ops()
  assert ("", "Conv", 1) in ops and len({o[:2] for o in ops}) == len(ops) > 150
