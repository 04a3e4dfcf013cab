// SPDX-License-Identifier: MIT
// Kernels whose sums have the same form give the same bits, whatever opts made them; and the forms
// tell apart what gives other bits. UOPD_FUZZ_SUM_FORMS sets how many kernels, UOPD_FUZZ_SEED the
// first one.
#include "core/codegen/passes/sum_forms.h"

#include <cstring>
#include <map>
#include <random>

#include "core/base/text.h"
#include "core/codegen/opts/opt.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/ir/build.h"
#include "gtest/gtest.h"
#include "tests/support/environment.h"
#include "tests/support/kernel_check.h"
#include "tests/support/lowered_run.h"

namespace uopd {
namespace {

using codegen::Opt;
using codegen::OptKind;
using ir::UOp;
using ir::UOpContext;

// What a kernel with one sum does under some opts: the form of the sum, and the bytes that it
// stores.
struct SumResult {
  std::string form;
  std::vector<uint8_t> bytes;
};

// `axes`: those of the only sum. Nullopt: the opts do not apply.
std::optional<SumResult> ResultOf(UOpContext& ctx, UOp sink, const tests::Memory& memory,
                                  std::span<const int64_t> axes, const std::vector<Opt>& opts) {
  const Target target = tests::WideTarget();
  const auto applied = codegen::ApplyOpts(ctx, sink, target, opts);
  if (!applied.ok()) return std::nullopt;
  const codegen::SumForms forms(ctx, *applied, target);
  if (forms.sums().size() != 1) return std::nullopt;
  codegen::Options options;
  options.opts = &opts;
  const auto lowered = codegen::Lower(ctx, sink, target, options);
  EXPECT_TRUE(lowered.ok()) << lowered.status();
  tests::Memory after = memory;
  const absl::Status ran = tests::RunLowered(ctx, *lowered, target, after, {});
  EXPECT_TRUE(ran.ok()) << ran;
  return SumResult{forms.Of(forms.sums()[0], axes), after[0]};
}

std::vector<uint8_t> All(float x, int64_t n) {
  std::vector<uint8_t> out(static_cast<size_t>(n) * 4);
  for (size_t at = 0; at < out.size(); at += 4) std::memcpy(&out[at], &x, 4);
  return out;
}

std::vector<uint8_t> Normal(int64_t n, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::vector<uint8_t> out(static_cast<size_t>(n) * 4);
  for (size_t at = 0; at < out.size(); at += 4) {
    const float x = normal(random);
    std::memcpy(&out[at], &x, 4);
  }
  return out;
}

// A product of rows of `terms` elements, in one reduced axis or two.
UOp Products(UOpContext& ctx, int64_t rows, int64_t columns, const std::vector<int64_t>& axes) {
  tests::KernelBuilder b(ctx);
  const UOp i = b.Loop(rows), j = b.Loop(columns);
  std::vector<UOp> reduced;
  int64_t terms = 1;
  UOp at;
  for (const int64_t size : axes) {
    const UOp r = b.Reduced(size);
    at = reduced.empty() ? r : b.At(at, size, r);
    reduced.push_back(r);
    terms *= size;
  }
  const UOp x = b.Load(b.Buffer(1, ir::Dtype::F32, rows * terms), b.At(i, terms, at)),
            y = b.Load(b.Buffer(2, ir::Dtype::F32, terms * columns), b.At(at, columns, j));
  const UOp sum = ir::ReduceRanges(ctx, ir::Op::ADD, ir::Mul(ctx, x, y), reduced);
  return b.Kernel({b.StoreLoops(b.Buffer(0, ir::Dtype::F32, rows * columns), b.At(i, columns, j),
                                sum, {i, j})});
}

TEST(SumFormsTest, EqualFormsGiveEqualBits) {
  const auto kernels = static_cast<int>(test::CasesFromEnvironment("UOPD_FUZZ_SUM_FORMS", 20)),
             start = static_cast<int>(test::FromEnvironment("UOPD_FUZZ_SEED", 0));
  int same = 0, different = 0;
  for (int seed = start; seed < start + kernels; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    const auto pick = [&](std::initializer_list<int64_t> of) {
      return of.begin()[random() % of.size()];
    };
    // One kernel with one reduced axis and one with two, of the same terms. A fourth of them have
    // sums in chunks.
    const bool is_long = seed % 4 == 3;
    const int64_t rows = is_long ? pick({1, 4}) : pick({1, 4, 8, 16}),
                  columns = is_long ? 4 : pick({4, 8, 16, 32}),
                  outer = is_long ? pick({48, 90, 101, 128}) : pick({4, 8, 12}),
                  inner = is_long ? pick({12, 16, 25}) : pick({2, 8, 16, 32});
    std::map<std::string, std::pair<std::vector<uint8_t>, std::string>> found;
    std::mt19937_64 of_data(7);
    const tests::Memory memory = {std::vector<uint8_t>(static_cast<size_t>(rows * columns) * 4),
                                  Normal(rows * outer * inner, of_data),
                                  Normal(columns * outer * inner, of_data)};
    // A sum that begins with its first term is -0 for these numbers, and one that begins with 0 is
    // 0.
    const tests::Memory zeros = {memory[0], All(-0.0F, rows * outer * inner),
                                 All(1.0F, columns * outer * inner)};
    for (const std::vector<int64_t>& axes :
         {std::vector<int64_t>{outer * inner}, std::vector<int64_t>{outer, inner}}) {
      UOpContext ctx;
      const UOp sink = Products(ctx, rows, columns, axes);
      std::vector<int64_t> sizes = {rows, columns};
      sizes.insert(sizes.end(), axes.begin(), axes.end());
      for (int trial = 0; trial < 12; ++trial) {
        std::vector<Opt> opts;
        for (int n = static_cast<int>(random() % 4); n > 0; --n) {
          const auto axis = random() % sizes.size();
          const bool reduced = axis >= 2;
          const OptKind kind = random() % 3 == 0 ? OptKind::kVector
                               : reduced         ? OptKind::kUnroll
                                                 : OptKind::kUpcast;
          // Amounts that divide the axis: in padding, products are rounded before they are added.
          int64_t amount = is_long ? pick({2, 3, 4}) : pick({0, 2, 4, 8});
          if (kind == OptKind::kVector) amount = std::max<int64_t>(amount, 2);
          if (amount != 0 && sizes[axis] % amount != 0) continue;
          opts.push_back({kind, static_cast<int>(axis), amount});
        }
        auto result = ResultOf(ctx, sink, memory, axes, opts);
        if (!result) continue;
        const auto of_zeros = ResultOf(ctx, sink, zeros, axes, opts);
        result->bytes.insert(result->bytes.end(), of_zeros->bytes.begin(), of_zeros->bytes.end());
        std::string text;
        for (const Opt& opt : opts) Append(text, " ", codegen::Text(opt));
        const auto [known, fresh] = found.try_emplace(result->form, std::pair(result->bytes, text));
        if (fresh) continue;
        ++same;
        ASSERT_EQ(known->second.first, result->bytes)
            << rows << " x " << columns << " of " << outer << " x " << inner << ", " << result->form
            << ":" << known->second.second << " and" << text << " with " << axes.size() << " axes";
      }
    }
    for (const auto& [form, first] : found) {
      for (const auto& [other, second] : found)
        different += first.first != second.first && form < other ? 1 : 0;
    }
  }
  EXPECT_GT(same, kernels);
  EXPECT_GT(different, kernels) << "the data does not show in which order sums add up";
}

}  // namespace
}  // namespace uopd
