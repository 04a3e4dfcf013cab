# SPDX-License-Identifier: MIT
"""Runs models in ONNX Runtime and OpenVINO, for `uopd-perf models`.

Reads commands from standard input, one a line, and answers each with one line of JSON:
    MODEL RUNS     for every library the milliseconds of each run
    MODEL results  for every library the numbers that the model gives
A model is built when it is first named; its weights and inputs are those of tests/perf/models/networks.cc. A name that ends
with `.bf16` allows OpenVINO to round to bf16, and leaves ONNX Runtime out. Threads: as many as processors.
"""

import json
import sys
import time

import numpy as np
import onnx
import onnxruntime
import openvino
from onnx import TensorProto, helper, numpy_helper
from weights import Weights, numbers


class Graph(Weights):
    """A graph of ONNX nodes; methods add nodes and return the names of their results. Weights are made in the order of
    tests/perf/models/networks.cc."""

    def __init__(self):
        super().__init__()
        self.nodes, self.stored, self.names = [], [], 0

    def name(self):
        self.names += 1
        return f"v{self.names}"

    def store(self, value):
        name = self.name()
        self.stored.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def make(self, shape, low, high):
        return self.store(super().make(shape, low, high))

    def add(self, op, *inputs, **attributes):
        out = self.name()
        self.nodes.append(helper.make_node(op, list(inputs), [out], **attributes))
        return out

    def convolution(self, inputs, outputs, kernel, stride=1, groups=1):
        """A convolution with the normalisation behind it, as a function of the name of its input."""
        weight = self.matrix((outputs, inputs // groups, kernel, kernel), inputs // groups * kernel * kernel)
        norm = [self.scale(outputs), self.shift(outputs), self.shift(outputs), self.scale(outputs)]

        def apply(x):
            y = self.add("Conv", x, weight, strides=[stride] * 2, pads=[kernel // 2] * 4, group=groups)
            return self.add("BatchNormalization", y, *norm)

        return apply

    def dense(self, inputs, outputs):
        weight, bias = self.matrix((inputs, outputs), inputs), self.shift(outputs)
        return lambda x: self.add("Add", self.add("MatMul", x, weight), bias)

    def norm(self, n):
        scale, shift = self.scale(n), self.shift(n)
        return lambda x: self.add("LayerNormalization", x, scale, shift, axis=-1, epsilon=1e-5)

    def model(self, result, inputs, outputs, dtype=TensorProto.FLOAT):
        graph = helper.make_graph(
            self.nodes, "model", [helper.make_tensor_value_info("x", dtype, inputs)],
            [helper.make_tensor_value_info(result, TensorProto.FLOAT, outputs)], self.stored)
        out = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
        out.ir_version = 9
        onnx.checker.check_model(out)
        return out.SerializeToString()


def image(batch):
    return numbers((batch, 3, 224, 224), 0, -1, 1)


def resnet50(batch):
    """ResNet-50 v1.5: the stride is in the 3x3 convolution."""
    g = Graph()
    x = g.add("Relu", g.convolution(3, 64, 7, 2)("x"))
    x = g.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    inputs = 64
    for stage, blocks in enumerate([3, 4, 6, 3]):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            path = [g.convolution(inputs, width, 1), g.convolution(width, width, 3, stride),
                    g.convolution(width, 4 * width, 1)]
            rest = x if inputs == 4 * width else g.convolution(inputs, 4 * width, 1, stride)(x)
            y = path[2](g.add("Relu", path[1](g.add("Relu", path[0](x)))))
            x = g.add("Relu", g.add("Add", y, rest))
            inputs = 4 * width
    x = g.add("Flatten", g.add("GlobalAveragePool", x))
    return g.model(g.dense(inputs, 1000)(x), [batch, 3, 224, 224], [batch, 1000]), image(batch)


def mobilenetv2():
    """MobileNetV2, width 1."""
    g = Graph()
    bounds = g.store(np.float32(0)), g.store(np.float32(6))

    def clip(x):
        return g.add("Clip", x, *bounds)

    x, inputs = clip(g.convolution(3, 32, 3, 2)("x")), 32
    for expansion, channels, count, stride in [
            (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]:
        for i in range(count):
            step, wide, y = stride if i == 0 else 1, inputs * expansion, x
            if expansion > 1:
                y = clip(g.convolution(inputs, wide, 1)(y))
            y = clip(g.convolution(wide, wide, 3, step, wide)(y))
            y = g.convolution(wide, channels, 1)(y)
            x = g.add("Add", x, y) if step == 1 and inputs == channels else y
            inputs = channels
    x = clip(g.convolution(inputs, 1280, 1)(x))
    x = g.add("Flatten", g.add("GlobalAveragePool", x))
    return g.model(g.dense(1280, 1000)(x), [1, 3, 224, 224], [1, 1000]), image(1)


DIM, HEADS, LAYERS, LENGTH = 768, 12, 12, 128


class Layer:
    """A layer of a transformer: attention and a perceptron, each with its norm."""

    def __init__(self, g, mask=None):
        self.g, self.mask = g, mask
        self.q, self.k, self.v, self.o = (g.dense(DIM, DIM) for _ in range(4))
        self.first, self.up, self.down, self.second = (
            g.norm(DIM), g.dense(DIM, 4 * DIM), g.dense(4 * DIM, DIM), g.norm(DIM))
        self.split = g.store(np.array([1, LENGTH, HEADS, DIM // HEADS]))
        self.joined = g.store(np.array([1, LENGTH, DIM]))
        self.factor = g.store(np.float32((DIM // HEADS) ** -0.5))

    def attention(self, x):
        add = self.g.add

        def heads(y, *order):
            return add("Transpose", add("Reshape", y, self.split), perm=order)

        q, k, v = heads(self.q(x), 0, 2, 1, 3), heads(self.k(x), 0, 2, 3, 1), heads(self.v(x), 0, 2, 1, 3)
        scores = add("Mul", add("MatMul", q, k), self.factor)
        if self.mask is not None:
            scores = add("Add", scores, self.mask)
        y = add("MatMul", add("Softmax", scores, axis=-1), v)
        return self.o(add("Reshape", add("Transpose", y, perm=[0, 2, 1, 3]), self.joined))

    def perceptron(self, x):
        return self.down(self.g.add("Gelu", self.up(x), approximate="tanh"))


def bert():
    """The encoder of BERT base, from embeddings to hidden states; GELU in its tanh form."""
    g, x = Graph(), "x"
    for layer in [Layer(g) for _ in range(LAYERS)]:
        x = layer.first(g.add("Add", x, layer.attention(x)))
        x = layer.second(g.add("Add", x, layer.perceptron(x)))
    return g.model(x, [1, LENGTH, DIM], [1, LENGTH, DIM]), numbers((1, LENGTH, DIM), 0, -1, 1)


def gpt2():
    """GPT-2 small over a prompt: the scores of the token behind it."""
    g, vocabulary = Graph(), 50257
    tokens, positions = g.make((vocabulary, DIM), -0.5, 0.5), g.make((LENGTH, DIM), -0.5, 0.5)
    mask = g.store(np.triu(np.full((LENGTH, LENGTH), -np.inf, np.float32), 1))
    layers, last = [Layer(g, mask) for _ in range(LAYERS)], g.norm(DIM)
    x = g.add("Add", g.add("Gather", tokens, "x", axis=0), positions)
    for layer in layers:
        x = g.add("Add", x, layer.attention(layer.first(x)))
        x = g.add("Add", x, layer.perceptron(layer.second(x)))
    x = g.add("Gather", last(x), g.store(np.array([LENGTH - 1])), axis=1)
    x = g.add("MatMul", x, g.add("Transpose", tokens, perm=[1, 0]))
    prompt = (np.arange(LENGTH, dtype=np.int32) * 7919 % vocabulary).reshape(1, LENGTH)
    return g.model(x, [1, LENGTH], [1, 1, vocabulary], TensorProto.INT32), prompt


MODELS = {
    "resnet50.b1": lambda: resnet50(1),
    "resnet50.b8": lambda: resnet50(8),
    "mobilenetv2.b1": mobilenetv2,
    "bert.128": bert,
    "gpt2.128": gpt2,
}


def load(name):
    """For every library a function that runs the model and gives its result."""
    rounded = name.endswith(".bf16")
    data, x = MODELS[name.removesuffix(".bf16")]()
    core = openvino.Core()
    options = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "bf16" if rounded else "f32"}
    compiled = core.compile_model(core.read_model(data, b""), "CPU", options)
    out = {"OpenVINO": lambda: compiled([x])[0]}
    if not rounded:
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        out["ONNX Runtime"] = lambda: session.run(None, {"x": x})[0]
    return out


def milliseconds(run, runs):
    run()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - start))
    return times


def main():
    loaded = {}
    for line in sys.stdin:
        name, what = line.split()
        if name not in loaded:
            loaded[name] = load(name)
        if what == "results":
            answer = {library: run().astype(float).ravel().tolist() for library, run in loaded[name].items()}
        else:
            answer = {library: milliseconds(run, int(what)) for library, run in loaded[name].items()}
        print(json.dumps(answer), flush=True)


main()
