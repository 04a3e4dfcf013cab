// SPDX-License-Identifier: MIT
// Narrow floats on the host's features and on the plain base, where LLVM calls functions instead.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "devices/cpu/cpu_device.h"
#include "gtest/gtest.h"
#include "tests/unit/devices/cpu/kernels.h"

namespace uopd::devices::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// The nearest bfloat16 by search, ties to even: the meaning, without bit tricks on the rounded
// value.
uint16_t NearestBfloat16(double x) {
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const double magnitude = std::fabs(x);
  const auto value =
      [](uint32_t bits) {  // the one past the largest stands for where infinity begins
        return bits == 0x7f80 ? std::ldexp(1.0, 128) : double{std::bit_cast<float>(bits << 16)};
      };
  uint32_t low = 0, high = 0x7f80;  // value(low) <= magnitude
  if (magnitude >= value(high)) return sign | 0x7f80;
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    (value(middle) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - value(low), above = value(high) - magnitude;
  const bool up = above < below || (above == below && (low & 1));
  return sign | static_cast<uint16_t>(up ? high : low);
}

class ConversionTest : public testing::TestWithParam<bool> {
 protected:
  ConversionTest() {
    CpuOptions options;
    options.threads = 1;
    if (GetParam()) options.features = "";
    device_ = CpuDevice::Open(options).value();
  }
  std::shared_ptr<Buffer> Allocate(size_t bytes) {
    return device_->Allocate(bytes, MemoryKind::kHostVisible).value();
  }
  template <class T>
  static T At(const Buffer& buffer, size_t i) {
    T out;
    std::memcpy(&out, buffer.host_data() + i * sizeof(T), sizeof(T));
    return out;
  }
  void Run(const char* entry, const char* ir, size_t n,
           const std::vector<std::shared_ptr<Buffer>>& buffers) {
    auto kernel =
        device_->Load({CodeFormat::kLlvmIr, entry, ir, {static_cast<int>(buffers.size()), 0}});
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    std::vector<BufferArg> args;
    for (auto& buffer : buffers) args.push_back({buffer.get(), 0});
    auto stream = device_->NewStream().value();
    ASSERT_TRUE(stream->Launch(**kernel, {{static_cast<int64_t>(n), 1, 1}}, args, {}).ok());
    ASSERT_TRUE(stream->Synchronize().ok());
  }

  std::shared_ptr<CpuDevice> device_;
};

TEST_P(ConversionTest, FloatToBfloat16AndHalf) {
  std::vector<float> in = {0.0f,  -0.0f,         1.0f,    -1.5f, 65504.0f, 65520.0f,
                           1e-8f, 3.3895314e38f, 3.4e38f, kInf,  -kInf};
  for (uint32_t bits = 0x3f800000; bits < 0x3f840000; bits += 0x1000)
    in.push_back(std::bit_cast<float>(bits));
  for (uint32_t i = 0; i < 2000; ++i) {
    const float x = std::bit_cast<float>(i * 2654435761u);
    // Subnormals are left out: with AVX512-BF16 the processor rounds them to zero.
    if (!std::isnan(x) && (x == 0 || std::isnormal(x))) in.push_back(x);
  }
  const size_t n = in.size();
  auto source = Allocate(4 * n), bf = Allocate(2 * n), hf = Allocate(2 * n), bo = Allocate(4 * n),
       ho = Allocate(4 * n);
  std::memcpy(source->host_data(), in.data(), 4 * n);
  Run("convert", kConvert, n, {source, bf, hf, bo, ho});
  for (size_t i = 0; i < n; ++i) {
    const auto bits = At<uint16_t>(*bf, i);
    EXPECT_EQ(bits, NearestBfloat16(in[i])) << in[i];
    EXPECT_EQ(std::bit_cast<uint32_t>(At<float>(*bo, i)), uint32_t{bits} << 16) << in[i];
    const float half = At<float>(*ho, i);
    if (std::fabs(in[i]) >= 65520.0f) {
      EXPECT_EQ(half, std::copysign(kInf, in[i]));
    } else {
      // Half keeps 11 bits, or multiples of 2^-24 below 2^-14.
      EXPECT_LE(std::fabs(half - in[i]), std::max(std::fabs(in[i]) * 0x1p-11f, 0x1p-25f)) << in[i];
    }
  }
  EXPECT_EQ(At<uint16_t>(*hf, 2), 0x3c00);
}

TEST_P(ConversionTest, NanStaysNan) {
  const float in[] = {std::numeric_limits<float>::quiet_NaN(), std::bit_cast<float>(0x7f800001u)};
  auto source = Allocate(8), bf = Allocate(4), hf = Allocate(4), bo = Allocate(8), ho = Allocate(8);
  std::memcpy(source->host_data(), in, 8);
  Run("convert", kConvert, 2, {source, bf, hf, bo, ho});
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(std::isnan(At<float>(*bo, i)));
    EXPECT_TRUE(std::isnan(At<float>(*ho, i)));
  }
}

INSTANTIATE_TEST_SUITE_P(Features, ConversionTest, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& info) {
                           return info.param ? "Plain" : "Host";
                         });

// Where LLVM calls __truncdfbf2, the double is rounded once.
TEST_P(ConversionTest, DoubleToBfloat16) {
  std::vector<double> in = {0.0,     -0.0, 1.0, -3.75, 1e300, -1e300, 3.3961775292304957e38,
                            3.39e38, 1e-41};
  for (int i = 0; i < 64; ++i) {
    const double tie = 1.0 + i * 0x1p-7 + 0x1p-8;
    for (double delta : {0.0, 0x1p-40, -0x1p-40}) in.push_back((i % 2 ? 1 : -1) * (tie + delta));
  }
  const size_t n = in.size();
  auto source = Allocate(8 * n), out = Allocate(2 * n);
  std::memcpy(source->host_data(), in.data(), 8 * n);
  Run("narrow", kDoubleToBfloat, n, {source, out});
  const bool by_call =
      GetParam();  // with AVX512-BF16 LLVM 19 goes through float and flushes subnormals
  if (by_call) {
    EXPECT_NE(device_->compiler().Compile(kDoubleToBfloat)->find("__truncdfbf2"),
              std::string::npos);
    EXPECT_NE(device_->compiler().Compile(kConvert)->find("__truncsfbf2"), std::string::npos);
  }
  for (size_t i = 0; i < n; ++i) {
    if (by_call) {
      EXPECT_EQ(At<uint16_t>(*out, i), NearestBfloat16(in[i])) << in[i];
    } else {
      EXPECT_NEAR(At<uint16_t>(*out, i), NearestBfloat16(in[i]), std::fabs(in[i]) < 1e-30 ? 256 : 1)
          << in[i];
    }
  }
}

}  // namespace
}  // namespace uopd::devices::cpu
