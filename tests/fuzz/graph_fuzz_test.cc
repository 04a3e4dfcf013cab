// SPDX-License-Identifier: MIT
// Hostile graphs with a fixed answer, and every small change of a good graph: refused or accepted,
// never a crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/bytes.h"
#include "core/ir/build.h"
#include "core/ir/io/wire.h"
#include "core/schedule/schedule.h"

namespace uopd::ir {
namespace {

std::string Node(std::initializer_list<std::pair<int, uint64_t>> varints) {
  std::string body;
  for (const auto& [field, value] : varints) {
    PutVarint(body, static_cast<uint64_t>(field) << 3);
    PutVarint(body, value);
  }
  std::string out = "\x12";
  PutString(out, body);
  return out;
}

std::string Graph(const std::string& nodes) { return "\x08\x01" + nodes; }

std::string Good() {
  UOpContext ctx;
  const UOp shape = ShapeArg(ctx, std::initializer_list<int64_t>{4, 3});
  const int64_t axis[] = {1}, dims[] = {4, 1};
  const UOp sum = ReduceAxes(ctx, Op::ADD, Param(ctx, 1, Dtype::F32, shape), axis);
  const UOp store =
      Store(ctx, Param(ctx, 0, Dtype::F32, ShapeArg(ctx, std::span<const int64_t>(dims))), sum);
  return Encode(ctx, Sink(ctx, std::span(&store, 1)));
}

absl::Status Check(std::string_view bytes, size_t max_nodes = 1000) {
  UOpContext ctx;
  auto root = Decode(ctx, bytes, Level::kTensor, {.max_nodes = max_nodes});
  if (!root.ok()) return root.status();
  return schedule::MakeSchedule(ctx, *root, {}).status();
}

uint64_t Wire(Op op) { return Info(op).wire; }

TEST(GraphFuzzTest, TheGoodGraphPasses) { EXPECT_TRUE(Check(Good()).ok()) << Check(Good()); }

TEST(GraphFuzzTest, UnknownOpsAndDtypesAreNamed) {
  const absl::Status op = Check(Graph(Node({{1, 4000}})));
  EXPECT_EQ(op.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetNode(op)->index, 0);
  EXPECT_EQ(Check(Graph(Node({{1, Wire(Op::CONST)}, {2, 4000}}))).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(GraphFuzzTest, CyclesAndForwardReferencesAreRefused) {
  const std::string leaf = Node({{1, Wire(Op::CONST)}, {2, Info(Dtype::Index).wire}, {4, 8}});
  for (uint64_t distance : {uint64_t{0}, uint64_t{2}, uint64_t{1} << 31, ~uint64_t{0}}) {
    const absl::Status status = Check(Graph(leaf + Node({{1, Wire(Op::SINK)}, {3, distance}})));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << distance;
    EXPECT_EQ(GetNode(status)->index, 1) << distance;
  }
}

TEST(GraphFuzzTest, TooManyNodesAreTooMuch) {
  std::string nodes;
  for (uint64_t i = 0; i < 2000; ++i) {
    nodes += Node({{1, Wire(Op::CONST)}, {2, Info(Dtype::Index).wire}, {4, 2 * i}});
  }
  EXPECT_EQ(Check(Graph(nodes)).code(), absl::StatusCode::kResourceExhausted);
}

TEST(GraphFuzzTest, EveryTruncationIsRefused) {
  const std::string good = Good();
  EXPECT_EQ(Check("").code(), absl::StatusCode::kFailedPrecondition);  // no version
  for (size_t size = 1; size < good.size(); ++size) {
    EXPECT_EQ(Check(good.substr(0, size)).code(), absl::StatusCode::kInvalidArgument) << size;
  }
}

TEST(GraphFuzzTest, EveryChangeOfOneByteIsAnswered) {
  const std::string good = Good();
  int refused = 0;
  for (size_t at = 0; at < good.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = good;
      changed[at] = static_cast<char>(changed[at] ^ 1 << bit);
      const absl::Status status = Check(changed);
      EXPECT_NE(status.code(), absl::StatusCode::kInternal) << at << " " << bit << " " << status;
      refused += status.ok() ? 0 : 1;
    }
  }
  EXPECT_GT(refused, static_cast<int>(good.size()));
}

}  // namespace
}  // namespace uopd::ir
