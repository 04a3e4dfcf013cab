// SPDX-License-Identifier: MIT
// What becomes of values in pieces: how many kernels and copies, and what is refused.
#include "core/schedule/multi/multi_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "core/ir/build.h"
#include "core/ir/verify/spec.h"
#include "core/schedule/schedule.h"
#include "tests/support/schedule_interpreter.h"

namespace uopd {
namespace {

using ::testing::HasSubstr;

using ir::Dims;
using ir::Dtype;
using ir::Op;
using ir::UOp;
using test::HostArray;

class MultiDevice : public ::testing::Test {
 protected:
  UOp Param(const Dims& dims, std::string_view device) {
    return ir::Param(ctx_, slots_++, Dtype::F32, ir::ShapeArg(ctx_, dims), device);
  }
  UOp Multi(std::vector<UOp> pieces, const Dims& axis) {
    return ctx_.Make(Op::MULTI, pieces[0].dtype(), pieces, ctx_.Data(axis, ""));
  }
  // A slot on each of n devices: pieces of the sizes along axis 0 of (.., columns), or copies.
  UOp Sharded(const Dims& sizes, int64_t columns) {
    std::vector<UOp> pieces;
    for (size_t i = 0; i < sizes.size(); ++i)
      pieces.push_back(Param({sizes[i], columns}, "CPU:" + std::to_string(i)));
    return Multi(pieces, {0});
  }
  UOp Replicated(const Dims& dims, int n) {
    std::vector<UOp> pieces;
    for (int i = 0; i < n; ++i) pieces.push_back(Param(dims, "CPU:" + std::to_string(i)));
    return Multi(pieces, {});
  }
  UOp Sum(UOp x, int64_t axis) { return ir::ReduceAxes(ctx_, Op::ADD, x, std::span(&axis, 1)); }

  // {kernels, copies} of a store.
  std::pair<int, int> Items(UOp target, UOp value) {
    const UOp store = ir::Store(ctx_, target, value);
    const UOp sink = ir::Sink(ctx_, std::span(&store, 1));
    const absl::Status valid = ir::Verify(ctx_, sink, ir::Level::kTensor);
    EXPECT_TRUE(valid.ok()) << StatusText(valid);
    const auto s = schedule::MakeSchedule(ctx_, sink, options_);
    EXPECT_TRUE(s.ok()) << StatusText(s.status());
    if (!s.ok()) return {-1, -1};
    std::pair<int, int> out;
    bytes_copied_ = 0;
    for (const schedule::Item& item : s->items) {
      ++(item.kind == schedule::Item::kCopy ? out.second : out.first);
      if (item.kind != schedule::Item::kCopy) continue;
      const auto i = static_cast<size_t>(item.buffers[0].index);
      bytes_copied_ += item.buffers[0].kind == schedule::BufferRef::kArgument
                           ? s->slots[i].bytes
                           : s->temporaries[i].bytes;
    }
    return out;
  }
  std::string Error(UOp target, UOp value) {
    const UOp store = ir::Store(ctx_, target, value);
    const UOp sink = ir::Sink(ctx_, std::span(&store, 1));
    absl::Status s = ir::Verify(ctx_, sink, ir::Level::kTensor);
    if (s.ok()) s = schedule::MakeSchedule(ctx_, sink, options_).status();
    EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
    return StatusText(s);
  }

  ir::UOpContext ctx_;
  schedule::Options options_;
  int64_t slots_ = 0;
  int64_t bytes_copied_ = 0;
};

using Counts = std::pair<int, int>;

TEST_F(MultiDevice, EqualPiecesMoveNothing) {
  const UOp x = Sharded({3, 5}, 4), y = Sharded({3, 5}, 4), out = Sharded({3, 5}, 4);
  const UOp row = Replicated({1, 4}, 2);
  EXPECT_EQ(Items(out, ir::Mul(ctx_, ir::Add(ctx_, x, y), row)), Counts(2, 0));
}
TEST_F(MultiDevice, RowsAreReducedWhereTheyAre) {
  EXPECT_EQ(Items(Sharded({3, 5}, 1), Sum(Sharded({3, 5}, 4), 1)), Counts(2, 0));
}
TEST_F(MultiDevice, ShapesAndOrdersKeepPieces) {
  const UOp x = Sharded({2, 4}, 6);
  // Two of the 6 rows become one of 3: the border of the pieces is one of the result's.
  const UOp split = ir::Reshape(ctx_, x, Dims{3, 2, 3, 2});
  const UOp turned = ir::Permute(ctx_, split, Dims{2, 0, 1, 3});
  const UOp out = Multi({Param({3, 1, 2, 2}, "CPU:0"), Param({3, 2, 2, 2}, "CPU:1")}, {1});
  EXPECT_EQ(Items(out, turned), Counts(2, 0));
}
TEST_F(MultiDevice, ReshapesThatCutRowsMoveThem) {
  // 3 rows of 2 as 2 of 3: the border after the first row is none of the result's.
  const UOp x = Sharded({1, 2}, 2);
  EXPECT_GT(Items(Sharded({1, 1}, 3), ir::Reshape(ctx_, x, Dims{2, 3})).second, 0);
}
TEST_F(MultiDevice, PaddingAndCuttingChangeSizesOnly) {
  const UOp x = Sharded({3, 5}, 4);
  const UOp padded =
      ir::Pad(ctx_, x, ir::ShapeArg(ctx_, Dims{2, 0}), ir::ShapeArg(ctx_, Dims{11, 4}));
  EXPECT_EQ(Items(Sharded({5, 6}, 4), padded), Counts(2, 0));
  const UOp cut =
      ir::Shrink(ctx_, x, ir::ShapeArg(ctx_, Dims{1, 0}), ir::ShapeArg(ctx_, Dims{4, 4}));
  EXPECT_EQ(Items(Sharded({2, 2}, 4), cut), Counts(2, 0));
}
TEST_F(MultiDevice, OnlyWhatIsMissingMoves) {
  const UOp x = Sharded({3, 5}, 4), y = Sharded({5, 3}, 4);
  // Rows 3 and 4 of y are on CPU:0 and wanted on CPU:1.
  // They are a run of its memory: no kernel picks them out.
  EXPECT_EQ(Items(Sharded({3, 5}, 4), ir::Add(ctx_, x, y)), Counts(2, 1));
  EXPECT_EQ(bytes_copied_, 2 * 4 * 4);
}
TEST_F(MultiDevice, CopiesAreTakenFromWhereTheyAre) {
  const UOp x = Replicated({6, 4}, 2);
  EXPECT_EQ(Items(Sharded({2, 4}, 4), x), Counts(2, 0));
  const UOp there = ctx_.Make(Op::COPY, Dtype::F32, {x}, ctx_.Data({}, "CPU:1"));
  EXPECT_EQ(Items(Param({6, 4}, "CPU:1"), there), Counts(1, 0));
}
// What lies in one run needs no kernel that picks it out, from whatever memory it is copied.
TEST_F(MultiDevice, RunsAreCopiedFromTheMiddle) {
  struct Case {
    Dims starts, dims;
    bool run;
  };
  const Case cases[] = {
      {{1, 0, 0}, {2, 4, 5}, true},  {{2, 0, 0}, {1, 4, 5}, true},  {{2, 1, 0}, {1, 2, 5}, true},
      {{2, 3, 2}, {1, 1, 3}, true},  {{2, 3, 4}, {1, 1, 1}, true},  {{1, 1, 0}, {2, 2, 5}, false},
      {{0, 0, 1}, {3, 4, 2}, false}, {{0, 0, 0}, {3, 1, 5}, false}, {{1, 0, 3}, {1, 4, 2}, false},
      {{0, 2, 4}, {1, 2, 1}, false},
  };
  std::vector<double> values;
  for (int i = 0; i < 60; ++i) values.push_back(i);
  for (const Case& c : cases) {
    SCOPED_TRACE(&c - cases);
    // The source is a slot, a shape of one, what a kernel writes, and what has been copied.
    for (int kind = 0; kind < 4; ++kind) {
      SCOPED_TRACE(kind);
      const Dims shape = {3, 4, 5};
      ir::UOpContext ctx;
      const Dims dims = kind == 1 ? Dims{60} : shape;
      UOp x = ir::Param(ctx, 1, Dtype::F32, ir::ShapeArg(ctx, dims), "CPU:0");
      if (kind == 1) x = ir::Reshape(ctx, x, shape);
      if (kind == 2)
        x = ctx.Make(Op::CONTIGUOUS, Dtype::F32, {ir::Mul(ctx, x, ctx.Float(Dtype::F32, 2))});
      if (kind == 3) x = ctx.Make(Op::COPY, Dtype::F32, {x}, ctx.Data({}, "CPU:2"));
      const UOp part = ir::Shrink(ctx, x, ir::ShapeArg(ctx, c.starts), ir::ShapeArg(ctx, c.dims));
      const UOp there = ctx.Make(Op::COPY, Dtype::F32, {part}, ctx.Data({}, "CPU:1"));
      const UOp target = ir::Param(ctx, 0, Dtype::F32, ir::ShapeArg(ctx, c.dims), "CPU:1");
      const UOp store = ir::Store(ctx, target, there);
      const UOp sink = ir::Sink(ctx, std::span(&store, 1));
      const std::vector<HostArray> slots = {HostArray::Zeros(Dtype::F32, c.dims),
                                            HostArray::Of(Dtype::F32, dims, values)};
      const auto made = schedule::MakeSchedule(ctx, sink, {});
      ASSERT_TRUE(made.ok()) << StatusText(made.status());
      const auto s = schedule::Schedule::Decode(made->Encode());
      ASSERT_TRUE(s.ok());
      EXPECT_EQ(s->items.size(), size_t{kind < 2 ? 1u : 2u} + (c.run ? 0 : 1));
      const auto want = test::TensorInterpreter(ctx).Run(sink, slots);
      const auto got = test::RunSchedule(*s, slots);
      ASSERT_TRUE(want.ok() && got.ok());
      EXPECT_EQ((*got)[0].ToDoubles(), (*want)[0].ToDoubles());
    }
  }
}

// A root STORE into one piece follows STOREs into others, which are computed as well.
TEST_F(MultiDevice, EveryPartThatIsWrittenIsARoot) {
  const auto part = [&](UOp whole, int64_t begin, int64_t size) {
    return ir::Shrink(ctx_, whole, ir::ShapeArg(ctx_, Dims{begin, 0}),
                      ir::ShapeArg(ctx_, Dims{size, 1}));
  };
  const UOp one = ir::Expand(ctx_, ctx_.Float(Dtype::F32, 1), ir::ShapeArg(ctx_, Dims{1, 1}));
  std::vector<HostArray> slots(3, HostArray::Zeros(Dtype::F32, {2, 1}));
  const UOp x = Sharded({2, 2, 2}, 1);
  // Rows in the order in which they are written.
  for (const std::vector<int64_t>& rows :
       {std::vector<int64_t>{5, 0}, {0, 5}, {0, 3, 4}, {4, 3, 0}, {1, 3, 1, 0}, {2, 0, 3, 1}}) {
    UOp written = x, store;
    std::vector<double> want(6), got;
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto value = static_cast<double>(i + 1);
      store = ir::Store(ctx_, part(written, rows[i], 1),
                        ir::Mul(ctx_, one, ctx_.Float(Dtype::F32, value)));
      written = ir::After(ctx_, written, {store});
      want[static_cast<size_t>(rows[i])] = value;
    }
    const UOp sink = ir::Sink(ctx_, std::span(&store, 1));
    const auto s = schedule::MakeSchedule(ctx_, sink, options_);
    ASSERT_TRUE(s.ok()) << StatusText(s.status());
    const auto ran = test::RunSchedule(*s, slots);
    ASSERT_TRUE(ran.ok()) << StatusText(ran.status());
    for (const HostArray& piece : *ran) {
      const std::vector<double> values =
          piece.values.empty() ? std::vector<double>(2) : piece.ToDoubles();
      got.insert(got.end(), values.begin(), values.end());
    }
    EXPECT_EQ(got, want);
  }
}

// A copy takes all bytes of a value, also the gaps that a run of a smaller size leaves.
TEST_F(MultiDevice, ATemporaryOfVariableSizeIsClearedBeforeItIsCopied) {
  const UOp n = ir::Variable(ctx_, "n", 0, 3),
            size = ir::ShapeArg(ctx_, ir::SymbolicDims{ctx_.Idx(2), n});
  const UOp x = ir::Param(ctx_, 1, Dtype::F32, size, "CPU:1");
  const UOp twice = ir::Add(ctx_, x, x);
  const UOp there = ctx_.Make(Op::COPY, Dtype::F32, {twice}, ctx_.Data({}, "CPU:0"));
  const UOp store = ir::Store(ctx_, ir::Param(ctx_, 0, Dtype::F32, size, "CPU:0"), there);
  const auto s = schedule::MakeSchedule(ctx_, ir::Sink(ctx_, std::span(&store, 1)), options_);
  ASSERT_TRUE(s.ok()) << StatusText(s.status());
  ASSERT_EQ(s->items.size(), 3u);
  EXPECT_EQ(s->items[0].kind, schedule::Item::kClear);
  EXPECT_EQ(s->items[0].device, "CPU:1");
  EXPECT_EQ(s->items[0].buffers[0], s->items[1].buffers[0]);
  EXPECT_EQ(s->items[2].kind, schedule::Item::kCopy);
  const std::vector<test::HostArray> slots(2, test::HostArray::Zeros(Dtype::F32, {2, 3}));
  for (const int64_t value : {0, 1, 3}) EXPECT_EQ(test::FindLeak(*s, slots, {{"n", value}}), "");
  const auto back = schedule::Schedule::Decode(s->Encode());
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->Encode(), s->Encode());
}

// Bytes from a file may say anything.
TEST_F(MultiDevice, ClearsOfAnythingButOneTemporaryDoNotDecode) {
  schedule::Schedule s;
  s.slots.resize(1);
  s.temporaries = {{"CPU:0", 8, 0}};
  s.arenas = {{"CPU:0", 8}};
  const schedule::BufferRef temporary = {schedule::BufferRef::kTemporary, 0}, slot = {};
  s.items = {{schedule::Item::kClear, "CPU:0", "", {temporary}}};
  EXPECT_TRUE(schedule::Schedule::Decode(s.Encode()).ok());
  for (const auto& buffers : {std::vector{slot}, std::vector{temporary, temporary}, {}}) {
    s.items[0].buffers = buffers;
    EXPECT_FALSE(schedule::Schedule::Decode(s.Encode()).ok());
  }
}
TEST_F(MultiDevice, CopiesFromOutsideOfTheirSourceDoNotDecode) {
  schedule::Schedule s;
  s.slots.resize(2);
  s.slots[0].bytes = 8, s.slots[1].bytes = 24;
  s.items.push_back({schedule::Item::kCopy, "CPU:0", "", {{}, {}}, 16});
  s.items[0].buffers[1].index = 1;
  EXPECT_TRUE(schedule::Schedule::Decode(s.Encode()).ok());
  s.items[0].from = 17;
  EXPECT_FALSE(schedule::Schedule::Decode(s.Encode()).ok());
}

TEST_F(MultiDevice, AllReduceSendsEveryPartialEverywhere) {
  const UOp x = Sharded({2, 3, 1}, 10);
  EXPECT_EQ(Items(Replicated({1, 10}, 3), Sum(x, 0)), Counts(6, 6));
  EXPECT_EQ(bytes_copied_, 6 * 40);
}
TEST_F(MultiDevice, RingSendsEveryElementTwiceAround) {
  options_.ring_threshold = 9;
  const UOp x = Sharded({2, 3, 1}, 10);
  EXPECT_EQ(Items(Replicated({1, 10}, 3), Sum(x, 0)).second, 2 * 2 * 3);
  EXPECT_EQ(bytes_copied_, 2 * 2 * 40);
  // Not on two devices, nor for fewer elements.
  EXPECT_EQ(Items(Replicated({1, 10}, 2), Sum(Sharded({2, 3}, 10), 0)).second, 2);
  EXPECT_EQ(Items(Replicated({1, 9}, 3), Sum(Sharded({2, 3, 1}, 9), 0)).second, 6);
}

// The same bits on every device, and the right ones, by either way, of numbers whose sums round.
TEST_F(MultiDevice, ReplicasOfASumAreBitIdentical) {
  for (const Dims& sizes : {Dims{2, 3, 1}, Dims{1, 4, 2, 5}}) {
    for (int64_t threshold : {0, 256'000}) {
      for (Op op : {Op::ADD, Op::MUL, Op::MAX}) {
        ir::UOpContext ctx;
        const auto n = static_cast<int64_t>(sizes.size());
        std::vector<UOp> in, out, stores;
        std::vector<HostArray> slots;
        std::mt19937 random(7);
        std::vector<double> want(13, op == Op::ADD ? 0 : op == Op::MUL ? 1 : -1e30);
        for (int64_t i = 0; i < n; ++i) {
          const std::string device = "CPU:" + std::to_string(i);
          const Dims dims = {sizes[static_cast<size_t>(i)], 13};
          std::vector<double> values;
          for (int64_t k = 0; k < ir::Product(dims); ++k) {
            const auto v = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 700.0f;
            values.push_back(v);
            double& w = want[static_cast<size_t>(k % 13)];
            w = op == Op::ADD ? w + v : op == Op::MUL ? w * v : std::max<double>(w, v);
          }
          in.push_back(ir::Param(ctx, 2 * i, Dtype::F32, ir::ShapeArg(ctx, dims), device));
          out.push_back(
              ir::Param(ctx, 2 * i + 1, Dtype::F32, ir::ShapeArg(ctx, Dims{1, 13}), device));
          slots.push_back(HostArray::Of(Dtype::F32, dims, values));
          slots.push_back(HostArray::Zeros(Dtype::F32, {1, 13}));
        }
        const UOp x = ctx.Make(Op::MULTI, Dtype::F32, in, ctx.Data(Dims{0}, ""));
        const UOp target = ctx.Make(Op::MULTI, Dtype::F32, out, ctx.Data(Dims{}, ""));
        const UOp store = ir::Store(ctx, target, ir::ReduceAxes(ctx, op, x, Dims{0}));
        schedule::Options options;
        options.ring_threshold = threshold;
        const auto s = schedule::MakeSchedule(ctx, ir::Sink(ctx, std::span(&store, 1)), options);
        ASSERT_TRUE(s.ok()) << StatusText(s.status());
        const auto got = test::RunSchedule(*s, slots);
        ASSERT_TRUE(got.ok()) << StatusText(got.status());
        for (size_t i = 0; i < sizes.size(); ++i)
          EXPECT_EQ((*got)[2 * i + 1].ToBytes(), (*got)[1].ToBytes()) << i;
        for (size_t k = 0; k < want.size(); ++k)
          EXPECT_NEAR((*got)[1].ToDoubles()[k], want[k], 1e-5 * std::max(1.0, std::abs(want[k])));
      }
    }
  }
}

TEST_F(MultiDevice, RefusesWhatDoesNotFit) {
  const UOp a = Param({2, 3}, "CPU:0"), b = Param({4, 3}, "CPU:1"), c = Param({2, 4}, "CPU:1");
  const UOp out = Param({6, 3}, "CPU:0");
  EXPECT_THAT(Error(out, Multi({a, c}, {0})),
              HasSubstr("they may differ in numbers along axis 0 only (node"));
  EXPECT_THAT(Error(out, Multi({a, b}, {2})),
              HasSubstr("MULTI along axis 2 of pieces of shape (2, 3) (node"));
  EXPECT_THAT(Error(out, Multi({a, b}, {})), HasSubstr("copies of one value are equal (node"));
  EXPECT_THAT(Error(out, Multi({a, b}, {0, 1})), HasSubstr("arg of MULTI is wrong"));
  EXPECT_THAT(Error(out, Multi(std::vector<UOp>(65, out), {})),
              HasSubstr("MULTI of 65 pieces; it takes up to 64 (node"));
  const UOp nested = Multi({Multi({a, b}, {0})}, {0});
  EXPECT_THAT(Error(out, nested),
              HasSubstr("source 0 of MULTI is in pieces itself; a COPY gathers it (node"));
  const UOp mixed = ir::Add(ctx_, a, Param({2, 3}, "CPU:1"));
  EXPECT_THAT(
      Error(out, Multi({mixed, b}, {0})),
      HasSubstr("ADD mixes values on CPU:0 and CPU:1; a COPY moves them to one device (node"));
  // 6 rows of 3 as 3 of 6: a row would lie in two pieces.
  const UOp target = ir::Reshape(ctx_, Sharded({1, 5}, 3), Dims{3, 6});
  EXPECT_THAT(Error(target, Param({3, 6}, "CPU:0")),
              HasSubstr("moves elements between its pieces (node"));
}

// Only one of the copies is read: the others are gone from the program, not from its signature.
TEST_F(MultiDevice, SlotsAndVariablesThatPassesDropStayInTheSignature) {
  const UOp target = Param({4}, "CPU:0"), replicated = Replicated({4}, 3);
  const UOp gathered = ctx_.Make(Op::COPY, Dtype::F32, {replicated}, ctx_.Data({}, "CPU:0"));
  const UOp store = ir::Store(ctx_, target, gathered);
  const auto s = schedule::MakeSchedule(ctx_, ir::Sink(ctx_, std::span(&store, 1)), options_);
  ASSERT_TRUE(s.ok()) << StatusText(s.status());
  ASSERT_EQ(s->slots.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(s->slots[i].used) << i;
    EXPECT_EQ(s->slots[i].read, i == 1) << i;
    EXPECT_EQ(s->slots[i].written, i == 0) << i;
    EXPECT_EQ(s->slots[i].bytes, 16) << i;
  }
  EXPECT_EQ(s->slots[3].device, "CPU:2");

  // n * 0 is 0, whatever n is.
  const UOp n = ir::Variable(ctx_, "n", 0, 3);
  const UOp zero = ir::Mul(ctx_, ir::Cast(ctx_, n, Dtype::I32), ctx_.Int(Dtype::I32, 0));
  const UOp out = ir::Param(ctx_, 0, Dtype::I32, ir::ShapeArg(ctx_, Dims{}));
  const UOp kept = ir::Store(ctx_, out, zero);
  const auto t = schedule::MakeSchedule(ctx_, ir::Sink(ctx_, std::span(&kept, 1)), options_);
  ASSERT_TRUE(t.ok()) << StatusText(t.status());
  EXPECT_EQ(t->variables.size(), 1u);
}

}  // namespace
}  // namespace uopd
