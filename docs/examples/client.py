#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A whole client of uopd in one file, with generated messages and nothing of ours.

    client.py ADDRESS [PROTO_FOLDER]

Computes y = 2 * x for two x of four numbers. The graph travels once; from then on its digest does.
Needs grpc, protobuf and protoc: apt install python3-grpcio python3-protobuf protobuf-compiler
"""
import pathlib
import struct
import subprocess
import sys
import tempfile

import grpc

ADDRESS = sys.argv[1]
PROTO = sys.argv[2] if len(sys.argv) > 2 else str(pathlib.Path(__file__).resolve().parents[2] / "proto")
GENERATED = tempfile.mkdtemp()
subprocess.run(["protoc", f"--proto_path={PROTO}", f"--python_out={GENERATED}", "uopd/v1/uopd.proto",
                "uopd/v1/graph.proto"], check=True)
sys.path.insert(0, GENERATED)
from uopd.v1 import graph_pb2, uopd_pb2  # noqa: E402

CHANNEL = grpc.insecure_channel(ADDRESS)
# Numbers of docs/ir.md.
CONST, STACK, PARAM, MUL, STORE, SINK = 110, 13, 2, 71, 22, 10
INDEX, F32 = 1, 15


def call(method, request):
    """One call that takes one message and answers with one."""
    answer = getattr(uopd_pb2, method + "Response")
    stub = CHANNEL.unary_unary(f"/uopd.v1.UopdService/{method}", request_serializer=type(request).SerializeToString,
                               response_deserializer=answer.FromString)
    return stub(request, timeout=60)


def double_graph():
    """slot 0 = 2 * slot 1, f32 of shape (4,), as bytes."""
    nodes = []

    def add(op, *sources, **fields):
        """Sources are written as the distance back to them."""
        nodes.append(graph_pb2.Node(op=op, src=[len(nodes) - s for s in sources], **fields))
        return len(nodes) - 1

    shape = add(STACK, add(CONST, dtype=INDEX, int_value=4), dtype=INDEX)
    x = add(PARAM, shape, dtype=F32, ints=[1, 0])  # slot 1; 0: global memory
    y = add(PARAM, shape, dtype=F32, ints=[0, 0])
    two = add(CONST, dtype=F32, float_value=2.0)
    add(SINK, add(STORE, y, add(MUL, x, two, dtype=F32)))
    return graph_pb2.Graph(ir_version=1, nodes=nodes).SerializeToString()


class Program:
    """A graph that the daemon knows by its digest, which is the daemon's to make: it is that of a canonical form."""

    def __init__(self, session, graph):
        self.session, self.graph = session, graph
        self.prepare()

    def prepare(self):
        answer = call("Prepare", uopd_pb2.PrepareRequest(session_id=self.session, graph=self.graph))
        self.digest = answer.digest
        print(f"sent a graph of {len(self.graph)} bytes, {answer.signature.kernels} kernel")

    def run(self, request_id, values):
        request = uopd_pb2.ExecuteRequest(session_id=self.session, request_id=request_id, digest=self.digest)
        request.arguments.add(return_data=True)  # slot 0: memory for this call only
        request.arguments.add(data=struct.pack("<4f", *values))  # slot 1
        try:
            answer = call("Execute", request)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.NOT_FOUND:
                raise
            self.prepare()  # the daemon was restarted, or needed the memory
            answer = call("Execute", request)
        return struct.unpack("<4f", answer.data[0])


def main():
    hello = call("Hello", uopd_pb2.HelloRequest(api_version_min=1, api_version_max=1, ir_version=1, client="example"))
    print(hello.server, "with", ", ".join(device.name for device in hello.devices))
    session = call("OpenSession", uopd_pb2.OpenSessionRequest()).session_id
    program = Program(session, double_graph())
    for request_id, values in enumerate([(1, 2, 3, 4), (0.5, -1, 1e20, float("inf"))], start=1):
        print(values, "->", program.run(request_id, values))
    call("CloseSession", uopd_pb2.CloseSessionRequest(session_id=session))


main()
