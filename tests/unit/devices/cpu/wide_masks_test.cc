// SPDX-License-Identifier: MIT
// Masked loads and stores that are wider than a register, with masks of which parts are known to be
// false. They are compiled for the host and for processors with AVX2 and without AVX-512, whatever
// the host is.
#include <cstring>
#include <string>

#include "core/base/text.h"
#include "devices/cpu/cpu_device.h"
#include "gtest/gtest.h"

namespace uopd::devices::cpu {
namespace {

constexpr char kAvx2[] =
    "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse3,+sse4.1,+sse4.2,+ssse3,+xsave";

enum class Kind { kAnd, kSelect, kCompare };

// A kernel that copies the lanes [first, last) of b1 to b0 if v0 is not 0, and 0 to the other
// lanes. With `store` it stores no other lanes.
std::string Kernel(const std::string& element, int bits, int lanes, int first, int last, Kind kind,
                   bool store) {
  const std::string n = Cat("<", lanes, " x "), bools = n + "i1>", values = n + element + ">",
                    numbers = n + "i32>";
  std::string wanted, all;
  for (int i = 0; i < lanes; ++i) {
    Append(wanted, i == 0 ? "<" : ", ", "i1 ", i >= first && i < last ? "true" : "false");
    Append(all, i == 0 ? "<" : ", ", "i32 ", i);
  }
  wanted += ">";
  all += ">";
  const auto splat = [&](std::string_view type, std::string_view scalar) {
    return Cat("  %one = insertelement ", n, type, "> poison, ", type, " ", scalar,
               ", i64 0\n  %all = shufflevector ", n, type, "> %one, ", n, type, "> poison, ",
               numbers, " zeroinitializer\n");
  };
  std::string mask;
  if (kind == Kind::kAnd)
    mask = Cat(splat("i1", "%on"), "  %mask = and ", bools, " ", wanted, ", %all\n");
  else if (kind == Kind::kSelect)
    mask = Cat("  %mask = select i1 %on, ", bools, " ", wanted, ", ", bools, " zeroinitializer\n");
  else  // the lanes below a number
    mask = Cat("  %end = select i1 %on, i32 ", last, ", i32 0\n", splat("i32", "%end"),
               "  %below = icmp slt ", numbers, " ", all, ", %all\n  %mask = and ", bools, " ",
               wanted, ", %below\n");
  const std::string mangled = Cat("v", lanes, element == "i32" ? "i" : "f", bits);
  const std::string load = Cat("@llvm.masked.load.", mangled, ".p0"),
                    write = Cat("@llvm.masked.store.", mangled, ".p0");
  const std::string align = Cat(bits / 8);
  return Cat(
      "define void @masked(ptr %buffers, ptr %vars, i64 %thread) \"uopd-in-vectors\" {\n"
      "  %to = load ptr, ptr %buffers\n"
      "  %second = getelementptr ptr, ptr %buffers, i64 1\n"
      "  %from = load ptr, ptr %second\n"
      "  %v = load i64, ptr %vars\n"
      "  %on = icmp ne i64 %v, 0\n",
      mask,
      store ? Cat("  %x = load ", values, ", ptr %from, align ", align, "\n  call void ", write,
                  "(", values, " %x, ptr %to, i32 ", align, ", ", bools, " %mask)\n")
            : Cat("  %x = call ", values, " ", load, "(ptr %from, i32 ", align, ", ", bools,
                  " %mask, ", values, " zeroinitializer)\n  store ", values, " %x, ptr %to, align ",
                  align, "\n"),
      "  ret void\n}\n", "declare ", values, " ", load, "(ptr, i32, ", bools, ", ", values, ")\n",
      "declare void ", write, "(", values, ", ptr, i32, ", bools, ")\n");
}

class WideMasksTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    CpuOptions options;
    options.threads = 1;
    const CpuTarget host = MakeCpuTarget(std::nullopt);
    if (GetParam() && !(host.Has("avx2") && host.Has("fma") && host.Has("bmi2")))
      GTEST_SKIP() << "the processor has no AVX2";
    if (GetParam()) options.features = kAvx2;
    device_ = CpuDevice::Open(options).value();
    stream_ = device_->NewStream().value();
  }

  void Check(const std::string& element, int bits, int lanes, int first, int last, Kind kind,
             bool store) {
    const auto bytes = static_cast<size_t>(lanes * bits / 8);
    const std::string text = Kernel(element, bits, lanes, first, last, kind, store);
    auto kernel = device_->Load({CodeFormat::kLlvmIr, "masked", text, {2, 1}});
    ASSERT_TRUE(kernel.ok()) << kernel.status() << text;
    for (const int64_t on : {0, 1}) {
      auto to = device_->Allocate(bytes, MemoryKind::kHostVisible).value(),
           from = device_->Allocate(bytes, MemoryKind::kHostVisible).value();
      for (size_t i = 0; i < bytes; ++i) from->host_data()[i] = static_cast<std::byte>(i % 237 + 1);
      std::memset(to->host_data(), 0xEE, bytes);
      const BufferArg buffers[] = {{to.get(), 0}, {from.get(), 0}};
      ASSERT_TRUE(stream_->Launch(**kernel, {{1, 1, 1}}, buffers, std::span(&on, 1)).ok());
      ASSERT_TRUE(stream_->Synchronize().ok());
      for (size_t i = 0; i < bytes; ++i) {
        const auto lane = static_cast<int>(i) / (bits / 8);
        const bool wanted = on != 0 && lane >= first && lane < last;
        const std::byte other{store ? uint8_t{0xEE} : uint8_t{0}};
        ASSERT_EQ(to->host_data()[i], wanted ? from->host_data()[i] : other)
            << "lane " << lane << ", condition " << on << "\n"
            << text;
      }
    }
  }

  std::shared_ptr<CpuDevice> device_;
  std::unique_ptr<Stream> stream_;
};

TEST_P(WideMasksTest, LoadAndStoreTheLanesThatAreTrue) {
  const std::pair<std::string, int> elements[] = {{"i32", 32}, {"float", 32}, {"double", 64}};
  for (const auto& [element, bits] : elements) {
    for (const int lanes : {4, 8, 16, 32}) {
      for (const int first : {0, 3, lanes / 2}) {
        for (const int last : {first + 1, lanes / 2, lanes / 2 + 1, lanes - 1, lanes}) {
          if (last <= first) continue;
          for (const Kind kind : {Kind::kAnd, Kind::kSelect, Kind::kCompare}) {
            for (const bool store : {false, true}) {
              Check(element, bits, lanes, first, last, kind, store);
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Features, WideMasksTest, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& info) {
                           return info.param ? "Avx2" : "Host";
                         });

}  // namespace
}  // namespace uopd::devices::cpu
