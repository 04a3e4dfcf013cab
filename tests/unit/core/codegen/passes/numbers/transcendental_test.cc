// SPDX-License-Identifier: MIT
// f32 polynomials over random bit patterns: every magnitude, both signs, denormals.
#include <cmath>
#include <cstring>
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

constexpr int64_t kElements = 1 << 18;

// y[i] = op(a[i][, b[i]]) in the given number of lanes; 0: with the opts of the heuristic
void Compute(Op op, const std::vector<float>& a, const std::vector<float>& b, std::vector<float>& y,
             const Target& target = {}, int64_t lanes = 0) {
  ir::UOpContext ctx;
  KernelBuilder k(ctx);
  const UOp i = k.Loop(kElements);
  std::vector<UOp> x = {k.Load(k.Buffer(1, Dtype::F32, kElements), i)};
  if (op == Op::POW) x.push_back(k.Load(k.Buffer(2, Dtype::F32, kElements), i));
  const UOp sink = k.Kernel(
      {k.StoreLoops(k.Buffer(0, Dtype::F32, kElements), i, ctx.Make(op, Dtype::F32, x), {i})});
  std::vector<codegen::Opt> opts;
  if (lanes > 1) opts.push_back({codegen::OptKind::kVector, 0, lanes});
  auto lowered = codegen::Lower(ctx, sink, target, {.opts = lanes > 0 ? &opts : nullptr});
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  auto text = render::RenderLlvmIr(ctx, lowered->linear, lowered->name, {});
  ASSERT_TRUE(text.ok()) << text.status();
  auto compiled = CompiledText::Compile(CompiledText::kLlvmIr, *text);
  if (absl::IsUnavailable(compiled.status())) GTEST_SKIP() << compiled.status();
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const int32_t stop = 0;  // a long kernel polls the word before its buffers
  const void* buffers[] = {&stop, y.data(), a.data(), b.data()};
  (*compiled)->Find(lowered->name)(const_cast<void**>(buffers + 1), nullptr, 0);
}

double UlpsOff(float got, double want) {
  const auto nearest = static_cast<float>(want);
  if (std::isnan(want)) return std::isnan(got) ? 0 : INFINITY;
  if (got == nearest) return 0;
  if (std::isinf(got) || std::isinf(nearest) || std::isnan(got)) {
    // Within an ulp of the largest value either may be infinite.
    return std::abs(std::abs(want) / 0x1.fffffep127 - 1) < 1e-6 ? 1 : INFINITY;
  }
  const double ulp =
      std::ldexp(1.0, std::max(std::ilogb(nearest == 0 ? 1e-45 : nearest), -126) - 23);
  return std::abs(got - want) / ulp;
}

std::vector<float> Patterns(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> out(kElements);
  for (float& v : out) {
    const auto bits = static_cast<uint32_t>(random());
    std::memcpy(&v, &bits, 4);
  }
  return out;
}
std::vector<float> Uniform(uint64_t seed, double low, double high) {
  std::mt19937_64 random(seed);
  std::vector<float> out(kElements);
  for (float& v : out)
    v = static_cast<float>(low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53);
  return out;
}

void Check(Op op, const std::vector<float>& a, const std::vector<float>& b, double limit,
           double (*want)(double, double), const Target& target = {}, int64_t lanes = 0) {
  std::vector<float> y(kElements);
  Compute(op, a, b, y, target, lanes);
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const double off = UlpsOff(y[i], want(a[i], b[i]));
    if (off > worst) worst = off, at = i;
  }
  EXPECT_LE(worst, limit) << ir::Name(op) << " of " << a[at] << ", " << b[at] << ": got " << y[at]
                          << ", want " << want(a[at], b[at]);
}

TEST(TranscendentalTest, Exp2) {
  const auto f = [](double x, double) { return std::exp2(x); };
  Check(Op::EXP2, Patterns(1), Patterns(2), 1, f);
  Check(Op::EXP2, Uniform(3, -152, 130), Patterns(2), 1, f);
}
// One instruction scales. Results are those of the polynomial without it, infinities and NaN too.
TEST(TranscendentalTest, Exp2ByScaling) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx512vl")) GTEST_SKIP() << "no AVX-512";
#else
  GTEST_SKIP() << "no AVX-512";
#endif
  const auto f = [](double x, double) { return std::exp2(x); };
  std::vector<float> special = Uniform(3, -152, 130);
  const float values[] = {INFINITY,  -INFINITY, NAN,      -NAN,     0.0f,    -0.0f,   1e30f,
                          -1e30f,    -126.0f,   -126.5f,  -149.0f,  -149.5f, -150.0f, -151.0f,
                          127.9999f, 128.0f,    3.4e38f,  -3.4e38f, 1e-40f,  0.5f,    -0.5f,
                          1.5f,      2.5f,      -127.25f, -148.75f, 0x1p23f, -0x1p24f};
  std::copy(std::begin(values), std::end(values), special.begin());
  Target target;
  target.has_scaling = true;
  for (int64_t lanes : {1, 2, 4, 8, 16, 32, 64}) {
    SCOPED_TRACE(lanes);
    Check(Op::EXP2, Patterns(1), Patterns(2), 1, f, target, lanes);
    Check(Op::EXP2, special, Patterns(2), 1, f, target, lanes);
    Check(Op::EXP2, special, Patterns(2), 1, f, {}, lanes);
    std::vector<float> y(kElements);
    Compute(Op::EXP2, special, special, y, target, lanes);
    for (int i = -126; i < 128; ++i) special[static_cast<size_t>(i + 200)] = static_cast<float>(i);
    Compute(Op::EXP2, special, special, y, target, lanes);
    for (int i = -126; i < 128; ++i)
      EXPECT_EQ(y[static_cast<size_t>(i + 200)], std::ldexp(1.0f, i)) << i;
  }
}
TEST(TranscendentalTest, Exp) {
  const auto f = [](double x, double) { return std::exp(x); };
  Target scaling, no_fma;
#if defined(__x86_64__)
  scaling.has_scaling = __builtin_cpu_supports("avx512vl");
#endif
  no_fma.has_fma = false;
  std::vector<float> special = Uniform(4, -1, 1);
  const float values[] = {INFINITY, -INFINITY, NAN,     0.0f,  -0.0f,  1e30f,   -1e30f,  3.4e38f,
                          -3.4e38f, 88.72284f, 88.723f, 90.0f, -87.5f, -103.0f, -104.0f, -105.5f};
  std::copy(std::begin(values), std::end(values), special.begin());
  for (const Target& target : {Target(), scaling, no_fma}) {
    for (int64_t lanes : {1, 4, 16}) {
      SCOPED_TRACE(lanes);
      Check(Op::EXP, Patterns(1), Patterns(2), 1, f, target, lanes);
      Check(Op::EXP, Uniform(3, -105, 90), Patterns(2), 1, f, target, lanes);
      Check(Op::EXP, special, Patterns(2), 1, f, target, lanes);
    }
  }
}
TEST(TranscendentalTest, Log2) {
  const auto f = [](double x, double) { return std::log2(x); };
  Check(Op::LOG2, Patterns(1), Patterns(2), 1, f);
  Check(Op::LOG2, Patterns(1), Patterns(2), 1, f, {}, 1);
  Check(Op::LOG2, Uniform(3, 0.5, 2), Patterns(2), 1, f);
}
TEST(TranscendentalTest, Log) {
  const auto f = [](double x, double) { return std::log(x); };
  Target no_fma;
  no_fma.has_fma = false;
  for (const Target& target : {Target(), no_fma}) {
    Check(Op::LOG, Patterns(1), Patterns(2), 1, f, target);
    Check(Op::LOG, Uniform(3, 0.5, 2), Patterns(2), 1, f, target, 1);
    Check(Op::LOG, Uniform(3, 0.3, 6), Patterns(2), 1, f, target);
  }
}
TEST(TranscendentalTest, Sin) {
  const auto f = [](double x, double) { return std::sin(x); };
  Check(Op::SIN, Patterns(1), Patterns(2), 1, f);
  Check(Op::SIN, Uniform(3, -20, 20), Patterns(2), 1, f);
}
TEST(TranscendentalTest, Cos) {
  const auto f = [](double x, double) { return std::cos(x); };
  Check(Op::COS, Patterns(1), Patterns(2), 1, f);
  Check(Op::COS, Uniform(3, -20, 20), Patterns(2), 1, f);
  Check(Op::COS, Uniform(3, -1e9, 1e9), Patterns(2), 1, f);
}
TEST(TranscendentalTest, Pow) {
  const auto f = [](double x, double y) { return std::pow(x, y); };
  Check(Op::POW, Patterns(1), Patterns(2), 1, f);
  Check(Op::POW, Uniform(3, 0, 10), Uniform(4, -30, 30), 1, f);
}

}  // namespace
}  // namespace uopd
