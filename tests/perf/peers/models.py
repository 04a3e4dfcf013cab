# SPDX-License-Identifier: MIT
"""Runs models in ONNX Runtime and OpenVINO, for `uopd-perf models`.

Reads commands from standard input, one a line: `MODEL RUNS`. Answers each with one line of JSON: for every library the
milliseconds of each run. A model is built, with random weights, when it is first named. Threads: as many as processors.
"""

import json
import sys
import time

import numpy as np
import onnx
import onnxruntime
import openvino
from onnx import TensorProto, helper, numpy_helper


class Graph:
    """A graph of ONNX nodes; every method adds nodes and returns the name of their result."""

    def __init__(self):
        self.nodes, self.weights, self.count = [], [], 0
        self.random = np.random.default_rng(1)

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def weight(self, *shape, scale=None, low=None):
        name = self.name()
        if low is not None:
            value = self.random.uniform(low, 1.5, shape)
        else:
            value = self.random.standard_normal(shape) * (scale or np.prod(shape[1:]) ** -0.5)
        self.weights.append(numpy_helper.from_array(value.astype(np.float32), name))
        return name

    def add(self, op, *inputs, **attributes):
        out = self.name()
        self.nodes.append(helper.make_node(op, list(inputs), [out], **attributes))
        return out

    def conv(self, x, inputs, outputs, kernel, stride=1):
        pad = kernel // 2
        y = self.add("Conv", x, self.weight(outputs, inputs, kernel, kernel), strides=[stride] * 2, pads=[pad] * 4)
        norm = [self.weight(outputs, low=0.5), self.weight(outputs, scale=0.1), self.weight(outputs, scale=0.1),
                self.weight(outputs, low=0.5)]
        return self.add("BatchNormalization", y, *norm)

    def model(self, result, inputs, outputs):
        graph = helper.make_graph(
            self.nodes, "model", [helper.make_tensor_value_info("x", TensorProto.FLOAT, inputs)],
            [helper.make_tensor_value_info(result, TensorProto.FLOAT, outputs)], self.weights)
        out = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        out.ir_version = 8
        onnx.checker.check_model(out)
        return out.SerializeToString()


def resnet50(batch):
    """ResNet-50 v1.5: the stride is in the 3x3 convolution."""
    g = Graph()
    x = g.add("Relu", g.conv("x", 3, 64, 7, 2))
    x = g.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    inputs = 64
    for stage, blocks in enumerate([3, 4, 6, 3]):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            y = g.add("Relu", g.conv(x, inputs, width, 1))
            y = g.add("Relu", g.conv(y, width, width, 3, stride))
            y = g.conv(y, width, 4 * width, 1)
            rest = x if stride == 1 and inputs == 4 * width else g.conv(x, inputs, 4 * width, 1, stride)
            x = g.add("Relu", g.add("Add", y, rest))
            inputs = 4 * width
    x = g.add("Flatten", g.add("GlobalAveragePool", x))
    x = g.add("Gemm", x, g.weight(1000, inputs), g.weight(1000, scale=0.1), transB=1)
    return g.model(x, [batch, 3, 224, 224], [batch, 1000])


MODELS = {
    "resnet50.b1": (lambda: resnet50(1), (1, 3, 224, 224)),
    "resnet50.b8": (lambda: resnet50(8), (8, 3, 224, 224)),
}


def load(name):
    build, shape = MODELS[name]
    data, x = build(), np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    core = openvino.Core()
    exact = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(data, b""), "CPU", exact)
    return {
        "ONNX Runtime": lambda: session.run(None, {"x": x}),
        "OpenVINO": lambda: compiled([x]),
    }


def main():
    loaded = {}
    for line in sys.stdin:
        name, runs = line.split()
        if name not in loaded:
            loaded[name] = load(name)
        answer = {}
        for library, run in loaded[name].items():
            run()
            times = []
            for _ in range(int(runs)):
                start = time.perf_counter()
                run()
                times.append(1e3 * (time.perf_counter() - start))
            answer[library] = times
        print(json.dumps(answer), flush=True)


main()
