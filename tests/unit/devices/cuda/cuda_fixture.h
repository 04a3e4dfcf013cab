// SPDX-License-Identifier: MIT
// What the tests of the CUDA driver share: a fake of NVIDIA's library, a device of it, and kernels.
// At the end nothing that the device had may be left in the fake.
#pragma once
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "devices/cuda/cuda_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/cuda/fake_cuda.h"
#include "tests/support/eventually.h"

namespace uopd::devices::cuda {

#define EXPECT_CODE(expr, want) EXPECT_EQ((expr).code(), absl::StatusCode::want)

class CudaTest : public testing::Test {
 protected:
  void SetUp() override { Start({}); }

  void Start(const tests::FakeCuda::Options& options) {
    driver_ = nullptr;
    fake_ = nullptr;
    fake_ = std::make_unique<tests::FakeCuda>(options);
    driver_ = CudaDriver::Create(fake_->Api()).value();
  }

  void TearDown() override {
    stream_ = nullptr;
    device_ = nullptr;
    fake_->ReleaseHanging();
    EXPECT_TRUE(test::Eventually([&] { return fake_->Live().empty(); }))
        << testing::PrintToString(fake_->Live());
  }

  CudaOptions Options() {
    return {.memory_limit_bytes = size_t{64} << 20,
            .ptx = true,
            .driver = driver_.get(),
            .ptxc = "/nowhere/uopd-ptxc"};
  }
  void Open(const CudaOptions& options) {
    device_ = CudaDevice::Open(options).value();
    stream_ = device_->NewStream().value();
  }
  void Open() { Open(Options()); }

  // A kernel `k` of two buffers and one variable.
  std::shared_ptr<Executable> Kernel(const std::string& behaviour) {
    return device_->Load({CodeFormat::kPtx, "k", "k " + behaviour + " 4", {2, 1}}).value();
  }
  std::shared_ptr<Buffer> Allocate(size_t bytes, MemoryKind kind = MemoryKind::kDevice) {
    return device_->Allocate(bytes, kind).value();
  }
  absl::Status Launch(Stream& stream, Executable& kernel, Buffer& buffer,
                      const std::shared_ptr<const StopFlag>& stop = nullptr,
                      int64_t* duration_ns = nullptr, const LaunchShape& shape = {}) {
    const BufferArg args[] = {{&buffer, 0}, {&buffer, 0}};
    const int64_t vars[] = {1};
    return stream.Launch(kernel, shape, args, vars, duration_ns, stop);
  }
  int32_t ReadInt(Buffer& buffer) {
    int32_t out = 0;
    EXPECT_TRUE(stream_->CopyOut(buffer, 0, std::as_writable_bytes(std::span(&out, 1))).ok());
    EXPECT_TRUE(stream_->Synchronize().ok());
    return out;
  }
  std::unique_ptr<tests::FakeCuda> fake_;
  std::unique_ptr<CudaDriver> driver_;
  std::shared_ptr<CudaDevice> device_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace uopd::devices::cuda
