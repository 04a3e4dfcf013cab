// SPDX-License-Identifier: MIT
// What the conformance tests share: every test runs on every device of the list at the end of
// device_test.cc.
#pragma once
#include <chrono>
#include <ostream>
#include <string>
#include <vector>

#include "devices/registry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace uopd::devices {

inline constexpr size_t kLimit = size_t{64} << 20;

struct Case {
  const char* name;
  CodeFormat format;
  const char* source;  // a kernel `k` of two buffers and one variable, which writes nothing
  // The same, and it adds the first integer of buffer 0 and the variable to that of buffer 1. Null:
  // the device computes nothing.
  const char* adder = nullptr;
  int force_async_us = -1;
  // Work is never done inside of the call that queues it.
  bool always_late = false;
  // Says why such a device cannot be tested on this machine; "" if it can. Null: it always can.
  std::string (*missing)() = nullptr;
  // Opens the device. Null: the registry's driver.
  absl::StatusOr<std::shared_ptr<Device>> (*open)(int index,
                                                  const RegistryOptions& options) = nullptr;
};

inline std::string NameOf(const Case& c) {
  return std::string(c.name) + (c.force_async_us < 0 ? "" : "_late");
}
inline void PrintTo(const Case& c, std::ostream* out) { *out << NameOf(c); }

class DeviceConformance : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (GetParam().missing != nullptr) {
      if (const std::string why = GetParam().missing(); !why.empty()) GTEST_SKIP() << why;
    }
    RegistryOptions options;
    options.devices = std::string(GetParam().name) + ":0," + GetParam().name + ":1";
    options.memory_limit_bytes = kLimit;
    options.memory_pattern = devices::PatternOf(std::byte{0xA5});
    options.force_async_us = GetParam().force_async_us;
    if (auto* open = GetParam().open; open != nullptr) {
      options.open = [open, options](const DeviceName& name) { return open(name.index, options); };
    }
    auto registry = Registry::Create(options);
    ASSERT_TRUE(registry.ok()) << registry.status();
    registry_ = *std::move(registry);
    device_ = Open(0);
    ASSERT_NE(device_, nullptr);
    stream_ = NewStream();
  }

  std::shared_ptr<Device> Open(int index) {
    auto device = registry_->Get(std::string(GetParam().name) + ":" + std::to_string(index));
    EXPECT_TRUE(device.ok()) << device.status();
    return device.ok() ? *device : nullptr;
  }
  std::unique_ptr<Stream> NewStream() { return device_->NewStream().value(); }
  std::shared_ptr<Buffer> Allocate(size_t bytes) {
    return device_->Allocate(bytes, MemoryKind::kDevice).value();
  }
  static std::chrono::steady_clock::time_point Later() {
    return std::chrono::steady_clock::now() + std::chrono::seconds(60);
  }
  std::shared_ptr<Semaphore> NewSemaphore() { return device_->NewSemaphore().value(); }
  std::shared_ptr<Executable> LoadKernel(Device& device) {
    return device.Load({GetParam().format, "k", GetParam().source, {2, 1}}).value();
  }

  static std::vector<std::byte> Bytes(size_t n) {
    std::vector<std::byte> out(n);
    for (size_t i = 0; i < n; ++i) out[i] = static_cast<std::byte>(i * 7 + 1);
    return out;
  }
  std::vector<std::byte> Read(Buffer& buffer) {
    std::vector<std::byte> out(buffer.size());
    EXPECT_TRUE(stream_->CopyOut(buffer, 0, out).ok());
    EXPECT_TRUE(stream_->Synchronize().ok());
    return out;
  }

  std::unique_ptr<Registry> registry_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

#define EXPECT_CODE(expr, want) EXPECT_EQ((expr).code(), absl::StatusCode::want)

}  // namespace uopd::devices
