// SPDX-License-Identifier: MIT
#include "server/engine/compile/schedule/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ir/build.h"
#include "server/engine/base/not_found.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

class GraphsTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Graph>> Get(const GraphRef& ref) {
    return graphs_.Get(request_, ref);
  }

  const std::string bytes_ = ScaleGraph(4, 2);
  const Digest digest_ = HashBytes(bytes_);
  cache::Store store_{1 << 20};
  Graphs graphs_{store_, {}};
  RequestContext request_;
};

TEST_F(GraphsTest, BytesAreVerifiedAndHashed) {
  for (const GraphRef& ref : {GraphRef{"", bytes_}, GraphRef{digest_.view(), bytes_}}) {
    const auto graph = Get(ref);
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ((*graph)->bytes(), bytes_);
    EXPECT_EQ((*graph)->digest(), digest_);
    EXPECT_FALSE((*graph)->stored());
    EXPECT_TRUE((*graph)->sink());
  }
  EXPECT_GT(request_.timings[Phase::kVerify], 0);
}

// A digest that is known is taken, not computed: here it is a wrong one, so that this can be seen.
TEST_F(GraphsTest, CanonicalBytesAreNotHashedAgain) {
  const Digest known = HashBytes("known");
  const auto graph = graphs_.Get(request_, {"", bytes_}, known);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ((*graph)->digest(), known);
  // Bytes in another form, as here with the IR version twice, have another digest than their graph.
  const std::string other = bytes_ + bytes_.substr(0, 2);
  const auto same = graphs_.Get(request_, {"", other}, HashBytes(other));
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ((*same)->digest(), digest_);
}

TEST_F(GraphsTest, BytesThatAreNoGraphAreTheClientsFault) {
  EXPECT_TRUE(absl::IsInvalidArgument(Get({"", "noise"}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Get({"", bytes_.substr(0, 10)}).status()));
}

TEST_F(GraphsTest, ADigestOfAnotherGraphIsRefusedAndTheRightOneNamed) {
  const absl::Status status = Get({HashBytes("another").view(), bytes_}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(StatusText(status), HasSubstr(digest_.Hex()));
}

TEST_F(GraphsTest, TheLimitOfNodesHolds) {
  Graphs small(store_, {{.max_nodes = 3}});
  EXPECT_TRUE(absl::IsResourceExhausted(small.Get(request_, {"", bytes_}).status()));
}

TEST_F(GraphsTest, NodesOfLargeGraphsAreChargedWhileTheyExist) {
  std::string large;
  {
    ir::UOpContext ctx;
    const ir::UOp sink = *ir::Decode(ctx, bytes_, ir::Level::kTensor);
    const ir::UOp store = sink.src(0);
    ir::UOp value = store.src(1);
    for (int i = 0; i < 10'000; ++i) value = ir::Add(ctx, value, store.src(1));
    const ir::UOp longer = ir::Store(ctx, store.src(0), value);
    large = ir::Encode(ctx, ir::Sink(ctx, std::span(&longer, 1)));
  }
  int64_t left = int64_t{1} << 30, charged = 0;
  GraphLimits limits;
  limits.charge = [&](int64_t bytes) -> absl::StatusOr<std::shared_ptr<const void>> {
    if (bytes > left) return absl::ResourceExhaustedError("too much");
    charged += bytes;
    return std::shared_ptr<const void>(&charged, [bytes](int64_t* sum) { *sum -= bytes; });
  };
  Graphs graphs(store_, limits);
  {
    const auto small = graphs.Get(request_, {"", bytes_});
    ASSERT_TRUE(small.ok()) << small.status();
    EXPECT_EQ(charged, 0);
    const auto graph = graphs.Get(request_, {"", large});
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ(charged, static_cast<int64_t>(large.size()) * GraphLimits::kMemoryOfByte);
    (*graph)->DropNodes();
    EXPECT_EQ(charged, 0);
    EXPECT_TRUE((*graph)->NeedNodes(request_).ok());
    EXPECT_GT(charged, 0);
    graphs.Keep(**graph);
  }
  EXPECT_EQ(charged, 0);
  left = 1000;
  EXPECT_TRUE(absl::IsResourceExhausted(graphs.Get(request_, {"", large}).status()));
  const auto stored = graphs.Get(request_, {HashBytes(large).view(), ""});
  ASSERT_TRUE(stored.ok()) << stored.status() << ": it may need no nodes";
  EXPECT_TRUE(absl::IsResourceExhausted((*stored)->NeedNodes(request_)));
}

TEST_F(GraphsTest, ACallerThatIsGoneGetsNoGraph) {
  request_.cancelled = [] { return true; };
  EXPECT_TRUE(absl::IsCancelled(Get({"", bytes_}).status()));
  request_.cancelled = nullptr;
  request_.deadline = RequestContext::Clock::now();
  EXPECT_TRUE(absl::IsDeadlineExceeded(Get({"", bytes_}).status()));
}

TEST_F(GraphsTest, ADigestAloneNeedsTheStore) {
  const absl::Status unknown = Get({digest_.view(), ""}).status();
  EXPECT_EQ(MissingKind(unknown), kProgram);
  EXPECT_THAT(StatusText(unknown), HasSubstr(digest_.Hex()));
  EXPECT_TRUE(absl::IsInvalidArgument(Get({"short", ""}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Get({"", ""}).status()));
}

TEST_F(GraphsTest, WhatWasKeptIsFoundByItsDigest) {
  graphs_.Keep(**Get({"", bytes_}));
  const auto graph = Get({digest_.view(), ""});
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ((*graph)->bytes(), bytes_);
  EXPECT_EQ((*graph)->digest(), digest_);
  EXPECT_TRUE((*graph)->stored());
  // A graph from the store is not written again.
  ASSERT_TRUE(store_.Clear("graph").ok());
  graphs_.Keep(**graph);
  EXPECT_THAT(store_.List("graph", 10), SizeIs(0));
}

TEST_F(GraphsTest, AStoredGraphOfAnotherDigestIsUnknown) {
  ASSERT_TRUE(store_.Put(GraphKey(digest_.view()), ScaleGraph(4, 3), 1).ok());
  EXPECT_EQ(MissingKind(Get({digest_.view(), ""}).status()), kProgram);
}

TEST_F(GraphsTest, AStoredGraphIsDecodedWhenItsNodesAreNeeded) {
  graphs_.Keep(**Get({"", bytes_}));
  const auto graph = *Get({digest_.view(), ""});
  EXPECT_FALSE(graph->sink());
  ASSERT_TRUE(graph->NeedNodes(request_).ok());
  ASSERT_TRUE(graph->sink());
  EXPECT_EQ(ir::Encode(graph->ctx(), graph->sink()), bytes_);
  // Once is enough.
  const ir::UOp sink = graph->sink();
  const int64_t spent = request_.timings[Phase::kVerify];
  ASSERT_TRUE(graph->NeedNodes(request_).ok());
  EXPECT_EQ(graph->sink(), sink);
  EXPECT_EQ(request_.timings[Phase::kVerify], spent);
}

// Two schedules of one graph are equal only when both start from a fresh context.
TEST_F(GraphsTest, DroppedNodesAreDecodedIntoAFreshContext) {
  const auto graph = *Get({"", bytes_});
  const size_t decoded = [&] {
    graph->DropNodes();
    EXPECT_FALSE(graph->sink());
    EXPECT_TRUE(graph->NeedNodes(request_).ok());
    return graph->ctx().size();
  }();
  ir::Mul(graph->ctx(), graph->ctx().Idx(12345), graph->ctx().Idx(54321));
  EXPECT_GT(graph->ctx().size(), decoded);
  graph->DropNodes();
  ASSERT_TRUE(graph->NeedNodes(request_).ok());
  EXPECT_EQ(graph->ctx().size(), decoded);
  EXPECT_EQ(ir::Encode(graph->ctx(), graph->sink()), bytes_);
}

TEST_F(GraphsTest, AStoredGraphThatDoesNotVerifyIsAnErrorWhenNodesAreNeeded) {
  const auto graph = Graph::Stored("noise", HashBytes("noise"), {});
  EXPECT_FALSE(graph->NeedNodes(request_).ok());
  EXPECT_FALSE(graph->sink());
}

TEST(InterruptScopeTest, TheContextForgetsTheInterruptAtTheEnd) {
  ir::UOpContext ctx;
  Interrupt interrupt({});
  {
    const InterruptScope scope(ctx, interrupt);
    EXPECT_EQ(ctx.maybe_interrupt(), &interrupt);
  }
  EXPECT_EQ(ctx.maybe_interrupt(), nullptr);
}

}  // namespace
}  // namespace uopd::engine
