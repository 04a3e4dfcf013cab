// SPDX-License-Identifier: MIT
// Copies to shared memory that run on their own, and matrices that a warp loads: what the
// interpreter computes and reports.
#include <numeric>

#include "core/base/text.h"
#include "core/interp/interpreter.h"
#include "core/ir/verify/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/kernel_lines.h"

namespace uopd::interp {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;
using testing::HasSubstr;

using Buffers = std::vector<std::vector<int32_t>>;

absl::Status RunLines(tests::KernelLines& k, Buffers& buffers, int64_t threads) {
  const UOp linear = k.Linear();
  UOPD_TRY(ir::Verify(k.ctx, linear, ir::Level::kLinear));
  UOPD_ASSIGN(const Program program, Program::Make(k.ctx, linear, {}));
  std::vector<std::span<std::byte>> spans;
  for (auto& b : buffers) spans.push_back(std::as_writable_bytes(std::span(b)));
  LaunchArguments arguments;
  arguments.block[0] = threads;
  arguments.buffers = spans;
  return interp::Run(program, arguments);
}

struct Waits {
  int64_t latest = 0;  // groups that are not waited for; -1: no wait
  bool barrier = true;
};

// Two threads copy four numbers each, thread 1 only zeros, and load those of each other.
absl::Status Exchange(const Waits& waits, Buffers& buffers) {
  tests::KernelLines k(2);
  const UOp out = k.Param(0, 2), in = k.Param(1, 8), shared = k.Shared(8);
  const UOp at = k.Alu(Op::MUL, k.thread, k.Int(4)), first = k.Alu(Op::CMPLT, k.thread, k.Int(1));
  const UOp to = k.Add(ir::Index(k.ctx, shared, at, UOp(), 4)),
            from = k.Add(ir::Index(k.ctx, in, at, first, 4));
  k.Add(k.ctx.Make(Op::ASYNC_COPY, Dtype::Void, {to, from}));
  k.Add(k.ctx.Make(Op::ASYNC_COMMIT, Dtype::Void, {k.lines.back()}));
  if (waits.latest >= 0)
    k.Add(k.ctx.Make(Op::ASYNC_WAIT, Dtype::Void, {k.lines.back()}, ir::Arg::Int(waits.latest)));
  if (waits.barrier) k.Barrier();
  const UOp other = k.Alu(Op::SUB, k.Int(6), at);
  k.Store(out, k.thread, k.Load(shared, other));
  return RunLines(k, buffers, 2);
}

Buffers Numbers() { return {std::vector<int32_t>(2, -1), {10, 11, 12, 13, 14, 15, 16, 17}}; }

TEST(AsyncCopyTest, ElementsAreThereAfterTheWaitAndABarrier) {
  Buffers buffers = Numbers();
  EXPECT_EQ(StatusText(Exchange({}, buffers)), StatusText(absl::OkStatus()));
  EXPECT_THAT(buffers[0], testing::ElementsAre(0, 12));  // the gate of thread 1 gives zeros
}

TEST(AsyncCopyTest, ALoadBeforeTheWaitIsReported) {
  Buffers buffers = Numbers();
  EXPECT_THAT(StatusText(Exchange({.latest = -1}, buffers)), HasSubstr("on its way"));
  EXPECT_THAT(StatusText(Exchange({.latest = 1}, buffers)), HasSubstr("on its way"));
}

TEST(AsyncCopyTest, AWaitIsNoBarrier) {
  Buffers buffers = Numbers();
  EXPECT_THAT(StatusText(Exchange({.barrier = false}, buffers)), HasSubstr("a race"));
}

// A warp loads two matrices whose element (row, column) of matrix m is 64 m + 8 row + column.
std::vector<int32_t> LoadedMatrices(bool transposed, int64_t shift) {
  tests::KernelLines k(32);
  const UOp out = k.Param(0, 64);
  const UOp words = k.Add(
      ir::Buffer(k.ctx, 7, Dtype::U32, ir::ShapeArg(k.ctx, ir::Dims{68}), ir::AddrSpace::LOCAL));
  for (const int64_t m : {0, 1}) {
    const UOp at = k.Alu(Op::ADD, k.thread, k.Int(32 * m));
    const UOp low = k.Alu(Op::MUL, at, k.Int(2)), high = k.Alu(Op::ADD, low, k.Int(1));
    const UOp word = k.Alu(Op::ADD, low, k.Alu(Op::MUL, high, k.Int(1 << 16)));
    k.Store(words, at, k.Add(ir::Bitcast(k.ctx, word, Dtype::U32)));
  }
  k.Barrier();
  const UOp row =
      k.Alu(Op::ADD, k.Alu(Op::MUL, k.Alu(Op::CMOD, k.thread, k.Int(16)), k.Int(4)), k.Int(shift));
  const UOp index = k.Add(ir::Index(k.ctx, words, row, UOp(), 4));
  const UOp loaded =
      k.Add(k.ctx.Make(Op::MATRIX_LOAD, Dtype::U32, {index}, k.ctx.Data({2, transposed ? 1 : 0})));
  for (const int64_t m : {0, 1}) {
    const UOp mine = k.Add(k.ctx.Make(Op::GEP, Dtype::U32, {loaded}, ir::Arg::Int(m)));
    k.Store(out, k.Alu(Op::ADD, k.thread, k.Int(32 * m)),
            k.Add(ir::Bitcast(k.ctx, mine, Dtype::I32)));
  }
  Buffers buffers = {std::vector<int32_t>(64, -1)};
  const absl::Status status = RunLines(k, buffers, 32);
  if (!status.ok()) {
    EXPECT_THAT(StatusText(status), HasSubstr("not aligned"));
    return {};
  }
  return buffers[0];
}

TEST(MatrixLoadTest, SpreadsMatricesOverAWarp) {
  const std::vector<int32_t> rows = LoadedMatrices(false, 0), columns = LoadedMatrices(true, 0);
  ASSERT_EQ(rows.size(), 64u);
  ASSERT_EQ(columns.size(), 64u);
  for (int m = 0; m < 2; ++m) {
    for (int lane = 0; lane < 32; ++lane) {
      const int a = lane / 4, b = lane % 4 * 2;
      const auto element = [&](int row, int column) { return 64 * m + 8 * row + column; };
      EXPECT_EQ(rows[32 * m + lane], element(a, b) | element(a, b + 1) << 16);
      EXPECT_EQ(columns[32 * m + lane], element(b, a) | element(b + 1, a) << 16);
    }
  }
}

TEST(MatrixLoadTest, RowsAreAligned) { EXPECT_TRUE(LoadedMatrices(false, 2).empty()); }

}  // namespace
}  // namespace uopd::interp
