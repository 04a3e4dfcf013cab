// SPDX-License-Identifier: MIT
// EXP2, EXP, LOG2, LOG, SIN, COS and POW of f64 beside the C library's functions of 80-bit numbers:
// random bit patterns of every magnitude, ranges where results are ordinary, numbers that are near
// multiples of pi/2, and special values against each other.
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "core/render/formats.h"
#include "gtest/gtest.h"
#include "tests/support/kernel_check.h"

namespace uopd {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;
using tests::CompiledText;
using tests::KernelBuilder;

static_assert(std::numeric_limits<long double>::digits >= 64);

using Values = std::vector<double>;
constexpr int64_t kValues = 1 << 17;
constexpr double kSpecial[] = {0.0,
                               -0.0,
                               INFINITY,
                               -INFINITY,
                               NAN,
                               1.0,
                               -1.0,
                               2.0,
                               -2.0,
                               0.5,
                               -0.5,
                               3.0,
                               -3.0,
                               1e300,
                               -1e300,
                               1e-300,
                               -1e-300,
                               5e-324,
                               -5e-324,
                               0x1p53,
                               -0x1p53,
                               0x1p53 + 2,
                               0x1p66,
                               -0x1p70,
                               1023.5,
                               1024.0,
                               -1074.0,
                               -1074.5,
                               -1075.0,
                               -1022.5,
                               0x1.fffffffffffffp1023,
                               0x1p-1022,
                               1.5,
                               -2.5};

// op(a[i][, b[i]]) in the given number of lanes.
Values ComputeF64(Op op, const Values& a, const Values& b, int64_t lanes) {
  ir::UOpContext ctx;
  KernelBuilder k(ctx);
  const auto n = static_cast<int64_t>(a.size());
  const UOp i = k.Loop(n);
  std::vector<UOp> x = {k.Load(k.Buffer(1, Dtype::F64, n), i)};
  if (op == Op::POW) x.push_back(k.Load(k.Buffer(2, Dtype::F64, n), i));
  const UOp sink =
      k.Kernel({k.StoreLoops(k.Buffer(0, Dtype::F64, n), i, ctx.Make(op, Dtype::F64, x), {i})});
  std::vector<codegen::Opt> opts;
  if (lanes > 1) opts.push_back({codegen::OptKind::kVector, 0, lanes});
  const auto lowered = codegen::Lower(ctx, sink, {}, {.opts = &opts}).value();
  const auto text = render::RenderLlvmIr(ctx, lowered.linear, lowered.name, {}).value();
  const auto compiled = CompiledText::Compile(CompiledText::kLlvmIr, text).value();
  const int32_t stop = 0;  // a long kernel polls the word before its buffers
  Values y(a.size(), -77);
  const void* buffers[] = {&stop, y.data(), a.data(), b.data()};
  compiled->Find(lowered.name)(const_cast<void**>(buffers + 1), nullptr, 0);
  return y;
}

double UlpsFrom(double got, long double want) {
  const auto nearest = static_cast<double>(want);
  if (std::isnan(want)) return std::isnan(got) ? 0 : INFINITY;
  if (got == nearest) return std::signbit(got) == std::signbit(nearest) ? 0 : INFINITY;
  if (std::isnan(got) || std::isinf(want)) return INFINITY;
  if (std::isinf(got) ||
      std::isinf(nearest))  // within an ulp of the largest value either may be infinite
    return std::abs(std::abs(want) / 0x1.fffffffffffffp1023L - 1) < 1e-15L ? 1 : INFINITY;
  const int exponent = want == 0 ? -1074 : std::max(std::ilogb(want), -1022) - 52;
  return static_cast<double>(std::abs(got - want) / std::ldexp(1.0L, std::max(exponent, -1074)));
}

Values PatternsF64(uint64_t seed) {
  std::mt19937_64 random(seed);
  Values out(kValues);
  for (double& v : out) v = std::bit_cast<double>(random());
  return out;
}
Values UniformF64(uint64_t seed, double low, double high) {
  std::mt19937_64 random(seed);
  Values out(kValues);
  for (double& v : out) v = low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
  return out;
}

void CheckF64(Op op, const Values& a, const Values& b,
              long double (*want)(long double, long double)) {
  double worst = 0;
  size_t at = 0;
  const Values y = ComputeF64(op, a, b, 1);
  for (size_t i = 0; i < y.size(); ++i) {
    const double off = UlpsFrom(y[i], want(a[i], b[i]));
    if (off > worst) worst = off, at = i;
  }
  EXPECT_LE(worst, 1) << ir::Name(op) << " of " << std::hexfloat << a[at] << ", " << b[at]
                      << ": got " << y[at] << ", want " << want(a[at], b[at]);
  const Values vectors = ComputeF64(op, a, b, 4);
  for (size_t i = 0; i < y.size(); ++i)
    ASSERT_TRUE(vectors[i] == y[i] || (std::isnan(y[i]) && std::isnan(vectors[i]))) << a[i];
}

// All pairs of special values.
std::pair<Values, Values> Pairs() {
  std::pair<Values, Values> out;
  for (double a : kSpecial) {
    for (double b : kSpecial) out.first.push_back(a), out.second.push_back(b);
  }
  return out;
}

TEST(TranscendentalF64Test, Exp2) {
  const auto f = [](long double x, long double) { return std::exp2(x); };
  CheckF64(Op::EXP2, PatternsF64(1), PatternsF64(2), f);
  CheckF64(Op::EXP2, UniformF64(3, -1080, 1026), PatternsF64(2), f);
  CheckF64(Op::EXP2, UniformF64(3, -1, 1), PatternsF64(2), f);
  CheckF64(Op::EXP2, Pairs().first, Pairs().second, f);
}
TEST(TranscendentalF64Test, Exp) {
  const auto f = [](long double x, long double) { return std::exp(x); };
  CheckF64(Op::EXP, PatternsF64(1), PatternsF64(2), f);
  CheckF64(Op::EXP, UniformF64(3, -746, 711), PatternsF64(2), f);
  CheckF64(Op::EXP, UniformF64(3, -1, 1), PatternsF64(2), f);
  CheckF64(Op::EXP, Pairs().first, Pairs().second, f);
}
TEST(TranscendentalF64Test, Log) {
  const auto f = [](long double x, long double) { return std::log(x); };
  CheckF64(Op::LOG, PatternsF64(1), PatternsF64(2), f);
  CheckF64(Op::LOG, UniformF64(3, 0.3, 6), PatternsF64(2), f);
  CheckF64(Op::LOG, UniformF64(3, 1 - 1e-9, 1 + 1e-9), PatternsF64(2), f);
  CheckF64(Op::LOG, Pairs().first, Pairs().second, f);
}
TEST(TranscendentalF64Test, Cos) {
  const auto f = [](long double x, long double) { return std::cos(x); };
  CheckF64(Op::COS, PatternsF64(1), PatternsF64(2), f);
  CheckF64(Op::COS, UniformF64(3, -20, 20), PatternsF64(2), f);
  CheckF64(Op::COS, UniformF64(3, -1e9, 1e9), PatternsF64(2), f);
  CheckF64(Op::COS, Pairs().first, Pairs().second, f);
  Values near;
  for (int n = 1; n < 100'000; ++n)
    near.push_back(static_cast<double>(n * 1.57079632679489661923132169163975144L));
  CheckF64(Op::COS, near, near, f);
}
TEST(TranscendentalF64Test, Log2) {
  const auto f = [](long double x, long double) { return std::log2(x); };
  CheckF64(Op::LOG2, PatternsF64(1), PatternsF64(2), f);
  CheckF64(Op::LOG2, UniformF64(3, 0.5, 2), PatternsF64(2), f);
  CheckF64(Op::LOG2, UniformF64(3, 1 - 1e-9, 1 + 1e-9), PatternsF64(2), f);
  CheckF64(Op::LOG2, Pairs().first, Pairs().second, f);
}
TEST(TranscendentalF64Test, Sin) {
  const auto f = [](long double x, long double) { return std::sin(x); };
  CheckF64(Op::SIN, PatternsF64(1), PatternsF64(2), f);
  CheckF64(Op::SIN, UniformF64(3, -20, 20), PatternsF64(2), f);
  CheckF64(Op::SIN, UniformF64(3, -1e9, 1e9), PatternsF64(2), f);
  CheckF64(Op::SIN, Pairs().first, Pairs().second, f);
  // Near multiples of pi/2; the first is the f64 that is nearest to one of them of all.
  Values near = {0x1.6ac5b262ca1ffp+849};
  for (int n = 1; n < 100'000; ++n)
    near.push_back(static_cast<double>(n * 1.57079632679489661923132169163975144L));
  CheckF64(Op::SIN, near, near, f);
}
TEST(TranscendentalF64Test, Pow) {
  const auto f = [](long double x, long double y) { return std::pow(x, y); };
  CheckF64(Op::POW, PatternsF64(1), PatternsF64(2), f);
  CheckF64(Op::POW, UniformF64(3, 0, 10), UniformF64(4, -300, 300), f);
  CheckF64(Op::POW, UniformF64(3, 0.9, 1.1), UniformF64(4, -6000, 6000), f);
  CheckF64(Op::POW, Pairs().first, Pairs().second, f);
}

}  // namespace
}  // namespace uopd
