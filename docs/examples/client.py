#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A whole client of uopd in one file, with generated messages and stubs and nothing of ours: what docs/protocol.md says.

    client.py ADDRESS [PROTO_FOLDER]

Doubles vectors of f32: with the data in the call, with buffers on the daemon, and in a pipeline. UOPD_TOKEN: a token, if the
daemon wants one. Needs grpc, protobuf and protoc:
    apt install python3-grpcio python3-protobuf protobuf-compiler protobuf-compiler-grpc
"""
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import grpc

PROTO = sys.argv[2] if len(sys.argv) > 2 else str(pathlib.Path(__file__).resolve().parents[2] / "proto")
GENERATED = tempfile.mkdtemp()
subprocess.run(["protoc", "--plugin=protoc-gen-grpc=/usr/bin/grpc_python_plugin", f"--proto_path={PROTO}", f"--python_out={GENERATED}",
                f"--grpc_out={GENERATED}", "uopd/v1/uopd.proto", "uopd/v1/graph.proto", "google/rpc/status.proto"], check=True)
sys.path.insert(0, GENERATED)
from google.rpc import status_pb2  # noqa: E402
from uopd.v1 import graph_pb2, uopd_pb2 as pb, uopd_pb2_grpc  # noqa: E402

# Numbers of ops and dtypes, docs/ir.md.
CONST, STACK, PARAM, MUL, STORE, SINK = 110, 13, 2, 71, 22, 10
INDEX, F32 = 1, 15


def double_graph(count):
  """slot 0 = 2 * slot 1, both f32 of shape (count,), as bytes."""
  nodes = []

  def add(op, *sources, **fields):
    nodes.append(graph_pb2.Node(op=op, src=[len(nodes) - s for s in sources], **fields))  # the distance back to each source
    return len(nodes) - 1

  shape = add(STACK, add(CONST, dtype=INDEX, int_value=count), dtype=INDEX)
  x = add(PARAM, shape, dtype=F32, ints=[1, 0])
  y = add(PARAM, shape, dtype=F32, ints=[0, 0])
  two = add(CONST, dtype=F32, float_value=2.0)
  add(SINK, add(STORE, y, add(MUL, x, two, dtype=F32)))
  return graph_pb2.Graph(ir_version=1, nodes=nodes).SerializeToString()


class Client:
  def __init__(self, address, token):
    self.stub = uopd_pb2_grpc.UopdServiceStub(grpc.insecure_channel(address))
    self.metadata = [("authorization", f"Bearer {token}")] if token else []
    self.hello = self.call("Hello", pb.HelloRequest(api_version_min=1, api_version_max=1, ir_version=1, client="example"))
    self.session = self.call("OpenSession", pb.OpenSessionRequest()).session_id
    self.request_id = self.sequence = 0

  def call(self, method, request): return getattr(self.stub, method)(request, timeout=60, metadata=self.metadata)

  def prepare(self, graph): return self.call("Prepare", pb.PrepareRequest(session_id=self.session, graph=graph))

  def execute_request(self, digest, arguments):
    self.request_id += 1  # an id that the session has not had: the call may be repeated
    return pb.ExecuteRequest(session_id=self.session, request_id=self.request_id, digest=digest, arguments=arguments)

  def execute(self, digest, graph, *arguments):
    request = self.execute_request(digest, arguments)
    try: return self.call("Execute", request).data
    except grpc.RpcError as error:
      if missing(error) != "program": raise
    request.graph = graph  # the daemon was restarted, or needed the memory
    return self.call("Execute", request).data

  def upload(self, handle, data):
    step = self.hello.limits.max_chunk_bytes
    chunks = [pb.UploadRequest(data=data[i:i + step]) for i in range(0, len(data), step)]
    chunks[0].session_id, chunks[0].buffer.handle, chunks[0].buffer.bytes = self.session, handle, len(data)
    self.call("Upload", iter(chunks))
    return len(chunks)

  def download(self, handle):
    return b"".join(answer.data for answer in self.call("Download", pb.DownloadRequest(session_id=self.session, handle=handle)))

  def pipeline(self, epoch, **calls):
    """Sends all calls before it reads the first answer; they run in order."""
    requests = []
    for kind, call in [(kind, call) for kind, several in calls.items() for call in several]:
      self.sequence += 1
      requests.append(pb.PipelineRequest(sequence=self.sequence, epoch=epoch, **{kind: call}))
    answers = list(self.call("Pipeline", iter(requests)))
    assert [a.sequence for a in answers] == [r.sequence for r in requests]
    return answers


def missing(error):
  """What a NOT_FOUND says is missing, else None."""
  for key, value in error.trailing_metadata():
    if error.code() == grpc.StatusCode.NOT_FOUND and key == "grpc-status-details-bin":
      for detail in status_pb2.Status.FromString(value).details:
        found = pb.MissingError()
        if detail.Unpack(found): return found.kind
  return None


def names(answers): return ", ".join(next(c.name for c in grpc.StatusCode if c.value[0] == a.code) for a in answers)


def main():
  client = Client(sys.argv[1], os.environ.get("UOPD_TOKEN", ""))
  print(client.hello.server, "with", ", ".join(device.name for device in client.hello.devices))

  # Small inputs and outputs travel in the call. Slot 0 is memory for this call only.
  graph = double_graph(4)
  prepared = client.prepare(graph)
  print(f"sent a graph of {len(graph)} bytes, {prepared.signature.kernels} kernel")
  for values in (1, 2, 3, 4), (0.5, -1, 1e20, float("inf")):
    [data] = client.execute(prepared.digest, graph, pb.Argument(return_data=True), pb.Argument(data=struct.pack("<4f", *values)))
    print(values, "->", struct.unpack("<4f", data))

  # Large ones are buffers. The client chooses their handles.
  count, large = 1 << 20, double_graph(1 << 20)
  chunks = client.upload(7, struct.pack(f"<{count}f", *range(count)))
  client.execute(client.prepare(large).digest, large, pb.Argument(buffer=8), pb.Argument(buffer=7))
  result = struct.unpack(f"<{count}f", client.download(8))
  print(f"uploaded {chunks} chunks; the last of {count} elements is now {result[-1]:.0f}")

  # A pipeline: 9 = 2 * 8 and 10 = 2 * 9, and the client waits for neither. The graph of another size is unknown to the daemon,
  # so the call before them fails. They answer ABORTED and are sent again in another epoch, with the graph.
  small = double_graph(5)
  unknown = bytes(32)
  first = client.execute_request(unknown, [pb.Argument(buffer=9), pb.Argument(data=struct.pack("<5f", 1, 2, 3, 4, 5))])
  second = client.execute_request(unknown, [pb.Argument(buffer=10, return_data=True), pb.Argument(buffer=9)])
  answers = client.pipeline(1, execute=[first, second])
  print("pipeline:", names(answers), f"({answers[0].missing_error.kind})")
  first.digest = second.digest = b""
  first.graph = second.graph = small
  answers = client.pipeline(2, execute=[first, second], free_buffers=[pb.FreeBuffersRequest(session_id=client.session, handles=[9])])
  print("pipeline:", names(answers), "->", struct.unpack("<5f", answers[1].execute.data[0]))
  client.call("CloseSession", pb.CloseSessionRequest(session_id=client.session))


main()
