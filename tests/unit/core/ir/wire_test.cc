// SPDX-License-Identifier: MIT
#include "core/ir/wire.h"

#include <gtest/gtest.h>

#include <random>

#include "core/base/bytes.h"
#include "core/ir/build.h"
#include "core/ir/print.h"

namespace uopd::ir {
namespace {

UOp SmallGraph(UOpContext& ctx) {
  const int64_t dims[] = {4, 3};
  const UOp shape = ShapeArg(ctx, dims);
  const UOp sum = Add(ctx, Param(ctx, 0, Dtype::F32, shape), ctx.Float(Dtype::F32, 1.5));
  const UOp store = Store(ctx, Param(ctx, 1, Dtype::F32, shape), sum);
  return Sink(ctx, std::span(&store, 1));
}

TEST(Wire, DigestIsTheSameInEveryContext) {
  UOpContext a, b;
  Variable(b, "shifts_ids", 0, 1);
  EXPECT_EQ(Encode(a, SmallGraph(a)), Encode(b, SmallGraph(b)));
  EXPECT_EQ(HashBytes(Encode(a, SmallGraph(a))).Hex(),
            "18182a98ab56692a380029be86905a932aa998fe56674d0a40d13e9d6e7dd08b");
}

TEST(Wire, RoundTrips) {
  UOpContext ctx, other;
  const std::string bytes = Encode(ctx, SmallGraph(ctx));
  const auto out = Decode(other, bytes, Stage::kTensor);
  ASSERT_TRUE(out.ok()) << StatusText(out.status());
  EXPECT_EQ(Encode(other, *out), bytes);
  EXPECT_EQ(Print(other, *out), Print(ctx, SmallGraph(ctx)));
}

absl::Status Try(std::string_view bytes, WireLimits limits = {}) {
  UOpContext ctx;
  return Decode(ctx, bytes, Stage::kTensor, limits).status();
}

std::string NodeBytes(uint64_t op, uint64_t dtype, std::initializer_list<uint64_t> back) {
  std::string node, src;
  PutVarint(node, 1 << 3), PutVarint(node, op), PutVarint(node, 2 << 3), PutVarint(node, dtype);
  for (uint64_t b : back) PutVarint(src, b);
  if (back.size() > 0) PutVarint(node, 3 << 3 | 2), PutString(node, src);
  std::string out;
  PutVarint(out, 2 << 3 | 2), PutString(out, node);
  return out;
}
const std::string kHeader = "\x08\x01";

TEST(Wire, ErrorsNameTheNode) {
  const std::string stack = NodeBytes(Info(Op::STACK).wire, Info(Dtype::Index).wire, {});
  struct {
    std::string bytes;
    const char* message;
    int64_t node;
  } const cases[] = {
      {kHeader + NodeBytes(9999, 1, {}), "unknown op (9999)", 0},
      {kHeader + NodeBytes(Info(Op::STACK).wire, 77, {}), "unknown dtype (77)", 0},
      {kHeader + stack + NodeBytes(Info(Op::NEG).wire, 7, {0}), "cycle", 1},
      {kHeader + stack + NodeBytes(Info(Op::NEG).wire, 7, {5}), "cycle or a forward", 1},
      {kHeader + stack + NodeBytes(Info(Op::NEG).wire, 7, {1}), "NEG of index gives index, not i32",
       1},
      {kHeader + stack + NodeBytes(Info(Op::ADD).wire, 1, {1}), "1 sources", 1},
      {kHeader + stack + NodeBytes(Info(Op::RANGE).wire, 1, {1}), "not allowed here", 1},
      {kHeader + NodeBytes(Info(Op::CONST).wire, Info(Dtype::Void).wire, {}), "void has no values",
       0},
      {kHeader + stack, "not SINK", 0},
  };
  for (const auto& c : cases) {
    const absl::Status s = Try(c.bytes);
    EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(StatusText(s).find(c.message), std::string::npos) << StatusText(s);
    ASSERT_TRUE(GetNode(s)) << StatusText(s);
    EXPECT_EQ(GetNode(s)->index, c.node) << StatusText(s);
  }
  EXPECT_EQ(Try("").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Try("\x08\x07").code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Wire, LimitsAreResourceExhausted) {
  UOpContext ctx;
  const std::string bytes = Encode(ctx, SmallGraph(ctx));
  const absl::Status s = Try(bytes, {3, 1000});
  EXPECT_EQ(s.code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(GetNode(s));
  EXPECT_EQ(GetNode(s)->index, 3);
  EXPECT_EQ(Try(bytes, {1000, 3}).code(), absl::StatusCode::kResourceExhausted);
}

// Damaged bytes give an error or another valid graph, never a crash.
TEST(Wire, DamagedBytesAreRefusedOrValid) {
  UOpContext ctx;
  const std::string good = Encode(ctx, SmallGraph(ctx));
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good;
    for (uint64_t n = 1 + random() % 3; n-- > 0;)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    UOpContext local;
    const auto out = Decode(local, bytes, Stage::kTensor);
    if (out.ok()) {
      EXPECT_TRUE(Verify(local, *out, Stage::kTensor).ok());
    }
  }
}

}  // namespace
}  // namespace uopd::ir
