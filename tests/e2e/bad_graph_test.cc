// SPDX-License-Identifier: MIT
// Graphs that no honest client sends. Each is refused with the right code and node, and the daemon
// continues to serve.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

#include "core/base/text.h"
#include "core/ir/analysis/sizes.h"
#include "core/ir/build.h"
#include "core/ir/dtype.h"
#include "core/ir/io/wire.h"
#include "core/ir/op.h"
#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"
#include "tests/support/environment.h"
#include "tests/support/eventually.h"
#include "uopd/v1/graph.pb.h"

namespace uopd::e2e {
namespace {

using grpc::StatusCode;

class BadGraphTest : public ::testing::Test {
 protected:
  // AddGraph(4) as a message that a test then makes invalid.
  static v1::Graph Good() {
    v1::Graph out;
    EXPECT_TRUE(out.ParseFromString(AddGraph(4)));
    return out;
  }
  grpc::Status Refused(const std::string& graph) {
    grpc::Status status;
    client_.Prepare(graph, &status);
    return status;
  }
  grpc::Status Refused(const v1::Graph& graph) { return Refused(graph.SerializeAsString()); }
  // Position of the first node with an op.
  static int Position(const v1::Graph& graph, ir::Op op) {
    for (int i = 0; i < graph.nodes_size(); ++i) {
      if (ir::OpByWire(graph.nodes(i).op()) == op) return i;
    }
    return -1;
  }
  void TearDown() override { ExpectServes(daemon_); }

  TemporaryFolder folder_;
  DaemonProcess daemon_{folder_.path(), {"--limits-max-graph-nodes=100"}};
  Client client_{daemon_};
};

TEST_F(BadGraphTest, UnknownOpNamesTheNode) {
  v1::Graph graph = Good();
  const int at = Position(graph, ir::Op::ADD);
  graph.mutable_nodes(at)->set_op(9999);
  const grpc::Status status = Refused(graph);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(NodeOf(status));
  EXPECT_EQ(NodeOf(status)->node(), at);
}

// 108 bytes that stopped the daemon: a graph that reads and writes memory which only later stages
// make.
TEST_F(BadGraphTest, BuffersAreOfLowerLevels) {
  for (int slot : {0, 1, 2}) {
    v1::Graph graph = Good();
    for (v1::Node& node : *graph.mutable_nodes()) {
      if (node.op() == ir::Info(ir::Op::PARAM).wire && node.ints(0) == slot)
        node.set_op(ir::Info(ir::Op::BUFFER).wire);
    }
    const grpc::Status status = Refused(graph);
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << status.error_message();
    ASSERT_TRUE(NodeOf(status));
    EXPECT_EQ(NodeOf(status)->node(), Position(graph, ir::Op::BUFFER));
    ExpectServes(daemon_);
  }
}

// slot 0 [n, n + 2) = slot 1, of 8 and 2 elements. With `bound` the graph says a value that n has:
// of clients it counts for what they may build, of a graph that was sent it is no proof.
std::string StoreAtVariable(int64_t max, bool bound) {
  ir::UOpContext ctx;
  const auto vector = [&](int64_t slot, int64_t n) {
    return ir::Param(ctx, slot, ir::Dtype::F32, ir::ShapeArg(ctx, ir::Dims{n}));
  };
  ir::UOp n = ir::Variable(ctx, "n", 0, max);
  if (bound) n = ctx.Make(ir::Op::BIND, ir::Dtype::Index, {n, ctx.Idx(3)}, {}, ir::kBound);
  const ir::UOp starts = ctx.Make(ir::Op::STACK, ir::Dtype::Index, {n});
  const ir::UOp part = ir::Shrink(ctx, vector(0, 8), starts, ir::ShapeArg(ctx, ir::Dims{2}));
  const ir::UOp store = ir::Store(ctx, part, vector(1, 2));
  return ir::Encode(ctx, ir::Sink(ctx, std::span(&store, 1)));
}

TEST_F(BadGraphTest, StoresAtVariablesStayWithinTheirBuffer) {
  for (const bool bound : {false, true}) {
    const grpc::Status status = Refused(StoreAtVariable(7, bound));
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << bound;
    EXPECT_THAT(status.error_message(), ::testing::HasSubstr("the box can leave the source"));
  }
  const std::string graph = StoreAtVariable(6, false);
  ASSERT_TRUE(client_.OpenSession().ok());
  ASSERT_TRUE(client_.Upload(1, Bytes(std::vector<float>(8, 1))).ok());
  const auto run = [&](std::initializer_list<int64_t> values) {
    v1::ExecuteRequest request;
    request.set_session_id(client_.session());
    request.set_graph(graph);
    *request.add_arguments() = Buffer(1);
    *request.add_arguments() = Data(Bytes({5, 6}));
    for (int64_t v : values) request.add_variables(v);
    grpc::ClientContext context;
    v1::ExecuteResponse response;
    return client_.stub().Execute(&context, request, &response);
  };
  std::string now;
  for (int64_t n : {int64_t{7}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
    const grpc::Status status = run({n});
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << n;
    EXPECT_THAT(status.error_message(), ::testing::HasSubstr("variable n ("));
  }
  EXPECT_EQ(run({}).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(run({1, 2}).error_code(), StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(client_.Download(1, &now).ok());
  EXPECT_EQ(Floats(now), std::vector<float>(8, 1)) << "nothing was written";
  ASSERT_TRUE(run({6}).ok());
  ASSERT_TRUE(client_.Download(1, &now).ok());
  EXPECT_EQ(Floats(now), (std::vector<float>{1, 1, 1, 1, 1, 1, 5, 6}));
}

TEST_F(BadGraphTest, ACycleCannotBeWritten) {
  v1::Graph graph = Good();
  const int at = Position(graph, ir::Op::ADD);
  graph.mutable_nodes(at)->set_src(0, 0);  // itself
  const grpc::Status itself = Refused(graph);
  EXPECT_EQ(itself.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(NodeOf(itself)->node(), at);
  graph.mutable_nodes(at)->set_src(0, static_cast<uint32_t>(at) + 1);  // before the first
  EXPECT_EQ(Refused(graph).error_code(), StatusCode::INVALID_ARGUMENT);
  graph.mutable_nodes(at)->set_src(0, UINT32_MAX);
  EXPECT_EQ(Refused(graph).error_code(), StatusCode::INVALID_ARGUMENT);
}

TEST_F(BadGraphTest, WrongDtypesAndShapesNameTheNode) {
  v1::Graph graph = Good();
  const int at = Position(graph, ir::Op::ADD);
  graph.mutable_nodes(at)->set_dtype(ir::Info(ir::Dtype::I32).wire);
  const grpc::Status dtype = Refused(graph);
  EXPECT_EQ(dtype.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(NodeOf(dtype)->node(), at);

  graph = Good();
  graph.mutable_nodes(at)->add_src(1);
  const grpc::Status arity = Refused(graph);
  EXPECT_EQ(arity.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(NodeOf(arity)->node(), at);
}

TEST_F(BadGraphTest, TruncatedBytesAreRefusedAtEveryLength) {
  const std::string graph = AddGraph(4);
  for (size_t size = 1; size < graph.size(); ++size) {
    EXPECT_EQ(Refused(graph.substr(0, size)).error_code(), StatusCode::INVALID_ARGUMENT) << size;
  }
}

TEST_F(BadGraphTest, NoiseIsRefused) {
  EXPECT_EQ(Refused(std::string("\xff\xff\xff\xff", 4)).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Refused(std::string(1 << 16, '\x12')).error_code(), StatusCode::INVALID_ARGUMENT);
}

TEST_F(BadGraphTest, TooManyNodesAreTooMuch) {
  v1::Graph graph = Good();
  const v1::Node leaf = graph.nodes(0);
  v1::Graph large;
  large.set_ir_version(1);
  for (int i = 0; i < 101; ++i) *large.add_nodes() = leaf;
  EXPECT_EQ(Refused(large).error_code(), StatusCode::RESOURCE_EXHAUSTED);
}

// More nodes than any limit allows, in a message that is small enough to be accepted.
// UOPD_HUGE_GRAPH_NODES=100000000 is the manual variant of the test; it needs 4 GB.
TEST(HugeGraphTest, IsRefusedAtTheLimitAndNamed) {
  const auto nodes = static_cast<size_t>(test::FromEnvironment("UOPD_HUGE_GRAPH_NODES", 2'000'000));
  TemporaryFolder folder;
  DaemonProcess daemon(folder.path(), {"--limits-max-message-bytes=1GiB"});
  ASSERT_TRUE(daemon.running());
  Client client(daemon);
  v1::Graph one;
  one.set_ir_version(1);
  std::string graph = one.SerializeAsString();
  one.clear_ir_version();
  v1::Node& node = *one.add_nodes();
  node.set_op(ir::Info(ir::Op::CONST).wire);
  node.set_dtype(ir::Info(ir::Dtype::Index).wire);
  node.set_int_value(1);
  const std::string bytes = one.SerializeAsString();
  graph.reserve(graph.size() + nodes * bytes.size());
  for (size_t i = 0; i < nodes; ++i) graph += bytes;
  grpc::Status status;
  client.Prepare(graph, &status);
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("more than 1000000 nodes"));
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("one too many"));
  ASSERT_TRUE(NodeOf(status)) << status.error_message();
  EXPECT_EQ(NodeOf(status)->node(), 1'000'000);
  ExpectServes(daemon);
}

// What a graph takes while it is compiled is memory for clients.
TEST(LargeGraphTest, IsRefusedWhereItsCompilationDoesNotFit) {
  ir::UOpContext ctx;
  const std::array<int64_t, 1> sizes{16};
  const ir::UOp shape = ir::ShapeArg(ctx, sizes);
  ir::UOp value = ir::Param(ctx, 1, ir::Dtype::F32, shape);
  const ir::UOp other = ir::Param(ctx, 2, ir::Dtype::F32, shape);
  for (int i = 0; i < 30'000; ++i) value = ir::Add(ctx, value, other);
  const ir::UOp store = ir::Store(ctx, ir::Param(ctx, 0, ir::Dtype::F32, shape), value);
  const std::string graph = ir::Encode(ctx, ir::Sink(ctx, std::span(&store, 1)));
  for (const bool fits : {false, true}) {
    TemporaryFolder folder;
    DaemonProcess daemon(folder.path(), {Cat("--limits-total-bytes=", fits ? "256MiB" : "16MiB")});
    ASSERT_TRUE(daemon.running());
    Client client(daemon);
    grpc::Status status;
    client.Prepare(graph, &status);
    EXPECT_EQ(status.error_code(), fits ? StatusCode::OK : StatusCode::RESOURCE_EXHAUSTED)
        << status.error_message();
    EXPECT_EQ(status.error_message().find("limits.total_bytes") != std::string::npos, !fits)
        << status.error_message();
    ExpectServes(daemon);
    EXPECT_TRUE(test::Eventually(
        [&] { return daemon.Metric("uopd_client_bytes{class=\"graphs\"}") == 0; }));
  }
}

TEST_F(BadGraphTest, AnotherIrVersionIsRefused) {
  v1::Graph graph = Good();
  graph.set_ir_version(2);
  EXPECT_EQ(Refused(graph).error_code(), StatusCode::FAILED_PRECONDITION);
}

TEST_F(BadGraphTest, AnUnknownDeviceIsRefused) {
  EXPECT_EQ(Refused(AddGraph(4, "TPU:3")).error_code(), StatusCode::INVALID_ARGUMENT);
}

TEST_F(BadGraphTest, AnotherOrderOfFieldsIsTheSameProgram) {
  // A graph with an unknown field or another order is not in canonical form. The digest is the hash
  // of the canonical form.
  const v1::PrepareResponse first = client_.Prepare(AddGraph(4));
  v1::Graph graph = Good();
  std::string reordered;
  for (const v1::Node& node : graph.nodes()) {
    v1::Graph one;
    *one.add_nodes() = node;
    reordered += one.SerializeAsString();
  }
  reordered += std::string("\x08\x01", 2);  // the version last
  const v1::PrepareResponse second = client_.Prepare(reordered);
  EXPECT_EQ(first.digest(), second.digest());
  EXPECT_EQ(second.cache().schedule(), v1::CACHE_RESULT_MEMORY);
}

}  // namespace
}  // namespace uopd::e2e
