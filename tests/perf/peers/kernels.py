# SPDX-License-Identifier: MIT
"""Single operations of libraries, for `uopd-perf kernels`.

Reads commands from standard input, one a line, does each once and answers with the seconds that this took:
    attention FORM HEADS QUERIES KEYS DEPTH CAUSAL    ONNX Runtime; FORM: graph, Attention or MultiHeadAttention;
                                                      XLA; FORM: XLA
    sort N                                            NumPy
Threads: as many as processors.
"""

import sys
import time

import numpy as np
from weights import numbers


def attention_model(form, heads, queries, keys, depth, causal):
    """softmax(q k^T / sqrt(depth)) v as a graph of products, as ONNX's Attention, or as ONNX Runtime's own operation, which
    has heads side by side."""
    from onnx import TensorProto, helper, numpy_helper
    own = form == "MultiHeadAttention"

    def value(name, length):
        shape = [1, length, heads * depth] if own else [1, heads, length, depth]
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    stored = []
    if form == "graph":
        masked = "scaled"
        stored.append(numpy_helper.from_array(np.float32(depth**-0.5), "scale"))
        nodes = [helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
                 helper.make_node("MatMul", ["q", "kt"], ["scores"]),
                 helper.make_node("Mul", ["scores", "scale"], ["scaled"])]
        if causal:
            mask = np.triu(np.full((queries, keys), -np.inf, np.float32), 1 + keys - queries)
            stored.append(numpy_helper.from_array(mask, "mask"))
            nodes.append(helper.make_node("Add", ["scaled", "mask"], ["masked"]))
            masked = "masked"
        nodes += [helper.make_node("Softmax", [masked], ["p"], axis=-1), helper.make_node("MatMul", ["p", "v"], ["y"])]
    elif own:
        nodes = [helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["y"], domain="com.microsoft", num_heads=heads,
                                  unidirectional=int(causal))]
    else:
        nodes = [helper.make_node("Attention", ["q", "k", "v"], ["y"], is_causal=int(causal))]
    inputs = [value("q", queries), value("k", keys), value("v", keys)]
    graph = helper.make_graph(nodes, "attention", inputs, [value("y", queries)], stored)
    opsets = [helper.make_opsetid("", 23)] + ([helper.make_opsetid("com.microsoft", 1)] if own else [])
    out = helper.make_model(graph, opset_imports=opsets)
    out.ir_version = 11
    return out.SerializeToString()


def attention(form, *sizes):
    """Runs one form of attention once; ONNX Runtime writes into memory that exists."""
    heads, queries, keys, depth, causal = map(int, sizes)
    if form == "XLA":
        return xla_attention(heads, queries, keys, depth, causal)
    import onnxruntime
    data = attention_model(form, heads, queries, keys, depth, causal)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    binding, arrays = session.io_binding(), []
    for i, argument in enumerate(session.get_inputs() + session.get_outputs()):
        arrays.append(onnxruntime.OrtValue.ortvalue_from_numpy(numbers(argument.shape, i, -1, 1)))
        (binding.bind_ortvalue_output if argument.name == "y" else binding.bind_ortvalue_input)(argument.name, arrays[-1])
    return lambda: session.run_with_iobinding(binding)


def xla_attention(heads, queries, keys, depth, causal):
    """The same function, compiled by XLA."""
    import jax
    import jax.numpy as jnp
    q, k, v = (jnp.asarray(numbers((heads, n, depth), i, -1, 1)) for i, n in enumerate((queries, keys, keys)))

    @jax.jit
    def run(q, k, v):
        scores = jnp.einsum("hqd,hkd->hqk", q, k) * np.float32(depth**-0.5)
        if causal:
            scores = jnp.where(jnp.tri(queries, keys, keys - queries, dtype=bool), scores, -jnp.inf)
        return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores, axis=-1), v)

    run(q, k, v).block_until_ready()  # compiles
    return lambda: run(q, k, v).block_until_ready()


def sort(n):
    x = numbers((int(n),), 0, -1, 1)
    return lambda: np.sort(x)


def main():
    made = {}
    for line in sys.stdin:
        kind, *arguments = line.split()
        if line not in made:
            made[line] = {"attention": attention, "sort": sort}[kind](*arguments)
        run = made[line]
        start = time.perf_counter()
        run()
        print(time.perf_counter() - start, flush=True)


main()
