// SPDX-License-Identifier: MIT
#include "core/ir/io/wire.h"

#include <gtest/gtest.h>
#include <time.h>

#include <random>

#include "core/base/bytes.h"
#include "core/ir/build.h"
#include "core/ir/io/print.h"

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
  const auto out = Decode(other, bytes, Level::kTensor);
  ASSERT_TRUE(out.ok()) << StatusText(out.status());
  EXPECT_EQ(Encode(other, *out), bytes);
  EXPECT_EQ(Print(other, *out), Print(ctx, SmallGraph(ctx)));
}

absl::Status Try(std::string_view bytes, WireLimits limits = {}) {
  UOpContext ctx;
  return Decode(ctx, bytes, Level::kTensor, limits).status();
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
    const auto out = Decode(local, bytes, Level::kTensor);
    if (out.ok()) {
      EXPECT_TRUE(Verify(local, *out, Level::kTensor).ok());
    }
  }
}

// The bytes that an ordinary protobuf library writes: zeros and empty lists take none.
std::string Field(int number, int type, uint64_t v) {
  std::string out;
  PutVarint(out, static_cast<uint64_t>(number) << 3 | static_cast<uint64_t>(type));
  if (type == 0) PutVarint(out, v);
  if (type == 1) out.append(reinterpret_cast<const char*>(&v), 8);
  return out;
}
std::string ListField(int number, std::initializer_list<uint64_t> values, bool packed = true) {
  std::string out, list;
  for (uint64_t v : values) {
    if (!packed) out += Field(number, 0, v);
    PutVarint(list, v);
  }
  if (packed && !list.empty())
    PutVarint(out, static_cast<uint64_t>(number) << 3 | 2), PutString(out, list);
  return out;
}
std::string Message(Op op, Dtype dtype, const std::string& rest) {
  std::string node = Field(1, 0, Info(op).wire), out;
  if (dtype != Dtype::Void) node += Field(2, 0, Info(dtype).wire);
  node += rest;
  PutVarint(out, 2 << 3 | 2), PutString(out, node);
  return out;
}

TEST(Wire, WhatProtobufLibrariesLeaveOutIsTheDefault) {
  const std::string shape = Message(Op::STACK, Dtype::Index, "");
  const std::string param =
      Message(Op::PARAM, Dtype::F32, ListField(3, {1}) + ListField(6, {0, 0}));
  for (const bool packed : {true, false}) {
    for (Op op : {Op::PERMUTE, Op::FLIP, Op::MULTI}) {
      std::string bytes = kHeader + shape + param;
      bytes += Message(op, Dtype::F32, ListField(3, {1}, packed));  // {} of a scalar
      bytes += Message(Op::STORE, Dtype::Void, ListField(3, {2, 1}, packed));
      bytes += Message(Op::SINK, Dtype::Void, ListField(3, {1}, packed));
      UOpContext ctx;
      const auto out = Decode(ctx, bytes, Level::kTensor);
      ASSERT_TRUE(out.ok()) << Name(op) << ": " << StatusText(out.status());
      // The same node as with a list that is there and empty.
      EXPECT_EQ(Print(ctx, *out).find("{}") != std::string::npos, true) << Print(ctx, *out);
      UOpContext again;
      EXPECT_TRUE(Decode(again, Encode(ctx, *out), Level::kTensor).ok());
    }
  }
}

TEST(Wire, ConstantsAreInTheFieldOfTheirDtype) {
  auto graph = [](const std::string& constant) {
    return kHeader + Message(Op::STACK, Dtype::Index, "") + constant +
           Message(Op::PARAM, Dtype::I64, ListField(3, {2}) + ListField(6, {0, 0})) +
           Message(Op::STORE, Dtype::Void, ListField(3, {1, 2})) +
           Message(Op::SINK, Dtype::Void, ListField(3, {1}));
  };
  EXPECT_TRUE(Try(graph(Message(Op::CONST, Dtype::I64, Field(4, 0, 6)))).ok());
  EXPECT_TRUE(Try(graph(Message(Op::CONST, Dtype::I64, ""))).ok());  // 0
  // The bits of 1.0 are an i64, too, which nobody meant.
  const absl::Status s =
      Try(graph(Message(Op::CONST, Dtype::I64, Field(5, 1, 0x3ff0000000000000))));
  EXPECT_NE(StatusText(s).find("wrong kind"), std::string::npos) << StatusText(s);
  EXPECT_FALSE(Try(graph(Message(Op::CONST, Dtype::F32, Field(4, 0, 2)))).ok());
}

TEST(Wire, SlotsFarApartAreRefusedAndNamed) {
  UOpContext ctx;
  auto graph = [&](int64_t slot) {
    const UOp shape = ShapeArg(ctx, std::initializer_list<int64_t>{4});
    const UOp store =
        Store(ctx, Param(ctx, slot, Dtype::F32, shape), Param(ctx, 0, Dtype::F32, shape));
    return Encode(ctx, Sink(ctx, std::span(&store, 1)));
  };
  EXPECT_TRUE(Try(graph(kFreeSlots + 3)).ok());
  const absl::Status s = Try(graph(kFreeSlots + 4));
  EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(StatusText(s).find("slot (68) of a graph with 2 PARAMs"), std::string::npos)
      << StatusText(s);
  EXPECT_EQ(GetNode(s)->index, 2) << StatusText(s);
}

// A bad node with a million sources in a graph of a million nodes.
TEST(Wire, NamingANodeIsCheapHoweverLargeTheGraph) {
  UOpContext ctx;
  std::string bytes = kHeader, sources;
  constexpr int kNodes = 200'000;
  for (int i = 0; i < kNodes; ++i)
    bytes += Message(Op::CONST, Dtype::I64, Field(4, 0, static_cast<uint64_t>(i)));
  for (int i = 0; i < kNodes; ++i) PutVarint(sources, static_cast<uint64_t>(1 + i));
  std::string node = Field(1, 0, Info(Op::STACK).wire) + Field(2, 0, Info(Dtype::F32).wire);
  PutVarint(node, 3 << 3 | 2), PutString(node, sources);
  PutVarint(bytes, 2 << 3 | 2), PutString(bytes, node);
  timespec begin, end;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  const absl::Status s = Try(bytes);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  EXPECT_EQ(GetNode(s)->index, kNodes) << StatusText(s);
  EXPECT_LT(StatusText(s).size(), 1000u);
  EXPECT_LT(end.tv_sec - begin.tv_sec, 5);  // 0.1 s; it was a minute
}

}  // namespace
}  // namespace uopd::ir
