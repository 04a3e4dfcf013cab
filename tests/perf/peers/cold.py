# SPDX-License-Identifier: MIT
"""Compiles models with the reference pipeline, tinygrad, for `uopd-perf cold`.

Reads the names of models from standard input, one a line. Answers each with one line of JSON: the milliseconds from a
graph of tensors to kernels that are loaded and ready to launch, in parts, and the number of kernels. No cache is read.
What a process does once is done before the first answer: imports, the compilation of patterns, the start of the pool of
compiling processes. A model is compiled once in a process: start another one to compile it again.

Arguments: DEVICE PARALLEL, for instance `CPU:LLVM 2`.
"""

import json
import os
import shutil
import sys
import time

DEVICE, PARALLEL = sys.argv[1], sys.argv[2]
os.environ.update(DEV=DEVICE, PARALLEL=PARALLEL, CACHELEVEL="0", CC=shutil.which("clang-19") or "clang")

from tinygrad import Context, Tensor, Variable, dtypes, function, nn  # noqa: E402
from tinygrad.engine.realize import compile_linear, get_runtime  # noqa: E402
from tinygrad.uop.ops import Ops  # noqa: E402


def unmaterialise(tensors):
    """Gives tensors memory without contents, so that weights are buffers and not random numbers to compute."""
    for t in tensors:
        t.replace(Tensor.empty(*t.shape, dtype=t.dtype))


class Layer:
    def __init__(self, inputs, outputs, kernel, stride):
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)
        self.norm = nn.BatchNorm(outputs)

    def __call__(self, x):
        return self.norm(self.conv(x))


class Block:
    def __init__(self, inputs, width, outputs, stride, bottleneck):
        if bottleneck:
            self.layers = [Layer(inputs, width, 1, 1), Layer(width, width, 3, stride), Layer(width, outputs, 1, 1)]
        else:
            self.layers = [Layer(inputs, width, 3, stride), Layer(width, outputs, 3, 1)]
        self.shortcut = [Layer(inputs, outputs, 1, stride)] if stride != 1 or inputs != outputs else []

    def __call__(self, x):
        y = x
        for layer in self.layers[:-1]:
            y = layer(y).relu()
        return (self.layers[-1](y) + (self.shortcut[0](x) if self.shortcut else x)).relu()


class ResNet:
    """ResNet v1.5: the stride is in the 3x3 convolution."""

    def __init__(self, blocks, bottleneck):
        self.stem, self.blocks, inputs = Layer(3, 64, 7, 2), [], 64
        for stage, count in enumerate(blocks):
            width = 64 << stage
            for i in range(count):
                outputs = width * 4 if bottleneck else width
                self.blocks.append(Block(inputs, width, outputs, 2 if stage > 0 and i == 0 else 1, bottleneck))
                inputs = outputs
        self.head = nn.Linear(inputs, 1000)

    def __call__(self, x):
        x = self.stem(x).relu().max_pool2d((3, 3), stride=2, padding=1)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


def resnet50():
    model = ResNet([3, 4, 6, 3], True)
    unmaterialise(nn.state.get_state_dict(model).values())
    return [model(Tensor.empty(1, 3, 224, 224))]


class Decoder:
    """Llama-3.2-1B's shape, one token: 16 layers, 32 heads that share 8 heads of keys, weights in bf16."""

    DIM, HEADS, SHARED, HEAD, HIDDEN, CONTEXT = 2048, 32, 8, 64, 8192, 1024

    def __init__(self):
        self.layers = [
            {
                **{name: self.matrix(self.DIM, n) for name, n in
                   [("q", self.DIM), ("k", self.SHARED * self.HEAD), ("v", self.SHARED * self.HEAD), ("o", self.DIM),
                    ("gate", self.HIDDEN), ("up", self.HIDDEN)]},
                "down": self.matrix(self.HIDDEN, self.DIM),
                "norms": [nn.RMSNorm(self.DIM, 1e-5) for _ in range(2)],
                "cache": Tensor.empty(2, self.CONTEXT, self.SHARED, self.HEAD),
            }
            for _ in range(16)
        ]
        self.tokens, self.norm = Tensor.empty(128256, self.DIM, dtype=dtypes.bfloat16), nn.RMSNorm(self.DIM, 1e-5)
        self.angles = [Tensor.empty(self.CONTEXT, self.HEAD // 2) for _ in range(2)]
        unmaterialise([n.weight for layer in self.layers for n in layer["norms"]] + [self.norm.weight])

    def matrix(self, inputs, outputs):
        return Tensor.empty(outputs, inputs, dtype=dtypes.bfloat16)

    def rotate(self, x, position):
        cos, sin = (t[position:position + 1].reshape(1, 1, -1) for t in self.angles)
        low, high = x.chunk(2, dim=-1)
        return (low * cos - high * sin).cat(low * sin + high * cos, dim=-1)

    # One function for all layers: the reference compiles its body once.
    def layer(self, weights, x, position):
        @function(precompile=True, allow_implicit=True)
        def run(x, position):
            h = weights["norms"][0](x)
            q = self.rotate((h @ weights["q"].float().T).reshape(1, self.HEADS, self.HEAD), position)
            k = self.rotate((h @ weights["k"].float().T).reshape(1, self.SHARED, self.HEAD), position)
            v = (h @ weights["v"].float().T).reshape(1, self.SHARED, self.HEAD)
            written = weights["cache"][:, position:position + 1].uop.store(Tensor.stack(k, v).uop)
            seen = Tensor(weights["cache"].uop.after(written))[:, :position + 1].transpose(1, 2)
            groups = self.HEADS // self.SHARED
            y = q.reshape(self.SHARED, groups, self.HEAD).scaled_dot_product_attention(seen[0], seen[1])
            x = x + y.reshape(1, self.DIM) @ weights["o"].float().T
            h = weights["norms"][1](x)
            wide = (h @ weights["gate"].float().T).silu() * (h @ weights["up"].float().T)
            return (x + wide @ weights["down"].float().T).contiguous()

        return run(x, position)

    def __call__(self, token, position):
        x = self.tokens[token].float()
        for layer in self.layers:
            x = self.layer(layer, x, position)
        return (self.norm(x) @ self.tokens.float().T).argmax(-1)


def decode():
    position = Variable("position", 0, Decoder.CONTEXT - 1).bind(17)
    return [Decoder()(Tensor.empty(1, dtype=dtypes.int32), position)]


def train():
    """A step of Adam on ResNet-18: 8 images of 224 x 224."""
    model = ResNet([2, 2, 2, 2], False)
    state = nn.state.get_state_dict(model)
    unmaterialise(state.values())
    adam = nn.optim.Adam(nn.state.get_parameters(model))
    unmaterialise(adam.m + adam.v)
    Tensor.realize(*adam.buffers, adam.lr)
    with Context(TRAINING=1):
        loss = model(Tensor.empty(8, 3, 224, 224)).sparse_categorical_crossentropy(Tensor.empty(8, dtype=dtypes.int32))
        adam.zero_grad()
        loss.backward()
        return [loss, *adam.schedule_step()]


def compile_and_load(tensors):
    start = time.perf_counter()
    tensors = [t for t in tensors if not t.uop.is_virtual and not t.uop.has_buffer_identity()]
    linear, _ = Tensor.linear_with_vars(*tensors)
    scheduled = time.perf_counter()
    linear = compile_linear(linear)
    compiled = time.perf_counter()
    kernels = 0
    for call in linear.src:
        if call.src[0].op is Ops.PROGRAM:
            get_runtime(call.src[1].device, call.src[0])
            kernels += 1
    loaded = time.perf_counter()
    return {"schedule": 1e3 * (scheduled - start), "compile": 1e3 * (compiled - scheduled),
            "load": 1e3 * (loaded - compiled), "total": 1e3 * (loaded - start), "kernels": kernels}


def main():
    x = Tensor.empty(32, 48)
    compile_and_load([(x @ Tensor.empty(48, 16)).softmax()])
    for line in sys.stdin:
        name = line.strip()
        start, start_cpu = time.perf_counter(), time.process_time()
        tensors = {"resnet50": resnet50, "decode": decode, "train": train}[name]()
        built = {"build": 1e3 * (time.perf_counter() - start), "build_cpu": 1e3 * (time.process_time() - start_cpu)}
        print(json.dumps({**built, **compile_and_load(tensors)}), flush=True)


if __name__ == "__main__":
    main()
