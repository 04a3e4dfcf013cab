# SPDX-License-Identifier: MIT
"""Graphs made by the code that protoc generates, as any client would make them: every op that may come in, with every
form of its arg that such code can express, goes through the daemon's reader and comes back as the same graph.

usage: wire_conformance.py SOURCE_FOLDER BUILD_FOLDER WIRE_CHECK
"""

import os
import re
import struct
import subprocess
import sys

source, build, checker = sys.argv[1:]
os.makedirs(build, exist_ok=True)
subprocess.run(["protoc", f"--proto_path={source}/proto", f"--python_out={build}", "uopd/v1/graph.proto"], check=True)
sys.path.insert(0, build)
from uopd.v1 import graph_pb2  # noqa: E402


def rows(file, macro):
    """The arguments of every line of a .def file of core/ that uses the macro."""
    text = open(os.path.join(source, "core", file), encoding="utf-8").read()
    for line in re.findall(rf"^{macro}\((.*)\)\s*$", text, re.MULTILINE):
        yield [part.strip() for part in line.split(",")]


OPS = {r[0]: int(r[1]) for r in rows("ir/ops.def", "UOPD_OP")}
ARITY = {r[0]: int(r[3]) for r in rows("ir/ops.def", "UOPD_OP")}
GROUPS = {r[0]: r[2] for r in rows("ir/ops.def", "UOPD_OP")}
DTYPES = {r[0]: int(r[2]) for r in rows("base/target/dtype.def", "UOPD_DTYPE")}
ADMITTED = {r[0] for r in rows("ir/verify/admit.def", "UOPD_ADMIT")}


class Graph:
    """Nodes in order; sources are positions. What is not given is not set, as users of generated code do it."""

    def __init__(self):
        self.message = graph_pb2.Graph(ir_version=1)

    def add(self, op, dtype=None, src=(), **arg):
        node = self.message.nodes.add(op=OPS[op], src=[len(self.message.nodes) - s for s in src], **arg)
        if dtype is not None:
            node.dtype = DTYPES[dtype]
        return len(self.message.nodes) - 1

    def shape(self, *dims):
        return self.add("STACK", "Index", [self.add("CONST", "Index", int_value=d) for d in dims])

    def param(self, slot, dtype="F32", dims=(4,), **arg):
        return self.add("PARAM", dtype, [self.shape(*dims)], ints=[slot, 0], **arg)

    def store(self, value, dtype="F32", dims=(4,), slot=0, **arg):
        """Ends the graph."""
        root = self.add("STORE", src=[self.param(slot, dtype, dims, **arg), value])
        self.add("SINK", src=[root])
        return self


cases = []  # (name, op, graph)


def case(name, op, graph):
    cases.append((name, op, graph.message))


def elementwise(op):
    g = Graph()
    dtype = "U64" if op == "THREEFRY" else "I32" if "kIntOnly" in GROUPS[op] else "F32"
    x = g.param(1, dtype)
    src = [x] * ARITY[op]
    if op == "WHERE":
        src[0] = g.add("CMPLT", "Bool", [x, x])
    result = "Bool" if "kComparison" in GROUPS[op] else dtype
    case(op, op, g.store(g.add(op, result, src), result))


for op in ADMITTED:
    if "kElementwise" in GROUPS[op]:
        elementwise(op)

# Lists without elements take no bytes on the wire.
for given in ({}, {"ints": []}):
    g = Graph()
    case(f"MULTI {given}", "MULTI", g.store(g.add("MULTI", "F32", [g.param(1), g.param(2)], **given)))
    for op in ("PERMUTE", "FLIP"):
        g = Graph()
        case(f"{op} {given}", op, g.store(g.add(op, "F32", [g.param(1, dims=())], **given), dims=()))
    g = Graph()
    case(f"FLIP of no axis {given}", "FLIP", g.store(g.add("FLIP", "F32", [g.param(1)], **given)))
g = Graph()
case("MULTI {0}", "MULTI", g.store(g.add("MULTI", "F32", [g.param(1), g.param(2)], ints=[0]), dims=(8,)))
g = Graph()
case("PERMUTE {1, 0}", "PERMUTE", g.store(g.add("PERMUTE", "F32", [g.param(1, dims=(2, 3))], ints=[1, 0]), dims=(3, 2)))
g = Graph()
case("FLIP {0}", "FLIP", g.store(g.add("FLIP", "F32", [g.param(1)], ints=[0])))

# Zeros: not set, and set (int_value and float_value are optional fields).
for given in ({}, {"int_value": 0}):
    g = Graph()
    case(f"IOTA {given}", "IOTA", g.store(g.add("IOTA", "I32", [g.shape(4)], **given), "I32"))
    for dtype in ("Bool", "I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64"):
        g = Graph()
        case(f"CONST<{dtype}> {given}", "CONST", g.store(g.add("CONST", dtype, **given), dtype, dims=()))
    g = Graph()
    g.param(1, dims=(0,))
    zero = g.add("STACK", "Index", [g.add("CONST", "Index", **given)])
    case(f"a dimension {given}", "CONST", g.store(g.add("PARAM", "F32", [zero], ints=[1, 0]), dims=(0,)))
for given in ({}, {"float_value": 0.0}, {"float_value": -0.0}, {"float_value": 1.5}, {"float_value": float("inf")}):
    for dtype in ("F8E5M2", "F16", "BF16", "F32", "F64"):
        g = Graph()
        case(f"CONST<{dtype}> {given}", "CONST", g.store(g.add("CONST", dtype, **given), dtype, dims=()))
for dtype, value in (("I8", -128), ("I64", -(2**63)), ("U64", -1), ("Bool", 1), ("I32", 2**31 - 1)):
    g = Graph()
    case(f"CONST<{dtype}> {value}", "CONST", g.store(g.add("CONST", dtype, int_value=value), dtype, dims=()))
g = Graph()
case("CONST<F32> nan", "CONST", g.store(g.add("CONST", "F32", float_value=float("nan")), dims=()))

# Texts, and the default device, which has none.
g = Graph()
case("PARAM without a device", "PARAM", g.store(g.param(1)))
g = Graph()
case("PARAM with a device", "PARAM", g.store(g.param(1, text="CPU:0"), text="CPU:0"))
g = Graph()
case("COPY", "COPY", g.store(g.add("COPY", "F32", [g.param(1)], text="CPU:0")))
for value in (False, True):
    g = Graph()
    n = g.add("DEFINE_VAR", "Index", ints=[0, 7], text="n")
    bound = g.add("BIND", "Index", [n] + ([g.add("CONST", "Index")] if value else []))
    case(f"BIND {value}", "BIND", g.store(g.add("CAST", "I32", [bound]), "I32", dims=()))
    cases.append((f"DEFINE_VAR {value}", "DEFINE_VAR", g.message))
    # Of a float: a name and no bounds.
    for dtype in ("BF16", "F32", "F64"):
        g = Graph()
        rate = g.add("DEFINE_VAR", dtype, text="rate")
        bound = g.add("BIND", dtype, [rate] + ([g.add("CONST", dtype, float_value=0.5)] if value else []))
        case(f"BIND<{dtype}> {value}", "BIND", g.store(bound, dtype, dims=()))

# The rest, once each.
g = Graph()
x = g.param(1)
st = g.add("STORE", src=[x, g.add("CONTIGUOUS", "F32", [x])])
after = g.add("AFTER", "F32", [x, st])
case("AFTER, CONTIGUOUS", "AFTER", g.store(after))
for op in ("CONTIGUOUS", "CONTIGUOUS_BACKWARD", "DETACH"):
    g = Graph()
    case(op, op, g.store(g.add(op, "F32", [g.param(1)])))
g = Graph()
case("STORE, SINK", "STORE", g.store(g.param(1)))
cases.append(("STORE, SINK", "SINK", g.message))
g = Graph()
case("STACK", "STACK", g.store(g.add("STACK", "F32", [g.param(1), g.param(2)]), dims=(2, 4)))
g = Graph()
case("RESHAPE", "RESHAPE", g.store(g.add("RESHAPE", "F32", [g.param(1), g.shape(2, 2)]), dims=(2, 2)))
g = Graph()
case("EXPAND", "EXPAND", g.store(g.add("EXPAND", "F32", [g.param(1, dims=(1,)), g.shape(4)])))
g = Graph()
case("PAD", "PAD", g.store(g.add("PAD", "F32", [g.param(1, dims=(2,)), g.shape(0), g.shape(4)])))
g = Graph()
case("SHRINK", "SHRINK", g.store(g.add("SHRINK", "F32", [g.param(1, dims=(6,)), g.shape(0), g.shape(4)])))
for axes, dims in (([], (4,)), ([0], (1,))):
    g = Graph()
    case(f"REDUCE {axes}", "REDUCE", g.store(g.add("REDUCE", "F32", [g.param(1)], ints=[OPS["ADD"], *axes]), dims=dims))
for op in ("ADD", "MUL", "MAX"):
    g = Graph()
    case(f"SCAN {op}", "SCAN", g.store(g.add("SCAN", "F32", [g.param(1)], ints=[OPS[op], 0])))

missing = ADMITTED - {op for _, op, _ in cases}
assert not missing, f"no graph has {sorted(missing)}"

messages = [graph.SerializeToString() for _, _, graph in cases]
# A reader of protobuf also takes fields in another order, so that parsing and writing anew is no change.
answers = subprocess.run([checker], input=b"".join(struct.pack("<I", len(m)) + m for m in messages),
                         stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
assert len(answers) == len(cases), f"{len(answers)} answers to {len(cases)} graphs"

failed = 0
for (name, _, graph), answer in zip(cases, answers):
    if not answer.startswith("ok "):
        failed += 1
        print(f"{name}: {answer}")
        continue
    # The canonical form reads as a message, too, and says the same: as many ops of each kind.
    canonical = graph_pb2.Graph()
    canonical.ParseFromString(bytes.fromhex(answer[3:]))
    used = {}
    for node in canonical.nodes:
        used[node.op] = used.get(node.op, 0) + 1
    assert canonical.ir_version == 1 and canonical.nodes[-1].op == OPS["SINK"], name
    assert all(node.op in {n.op for n in graph.nodes} for node in canonical.nodes), name
print(f"{len(cases)} graphs, {failed} refused")
sys.exit(1 if failed else 0)
