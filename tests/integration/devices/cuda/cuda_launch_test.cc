// SPDX-License-Identifier: MIT
// Kernels: loading, launching, durations, stopping, and the order of streams on the chip.
#include "tests/unit/devices/cuda/cuda_fixture.h"

namespace uopd::devices::cuda {
namespace {

using testing::HasSubstr;

class CudaLaunchTest : public CudaTest {};

TEST_F(CudaLaunchTest, CompilesPtxThroughTheDriver) {
  Open();
  const std::string object = device_->compiler().Compile("k nothing 4").value();
  EXPECT_EQ(object, tests::FakeCuda::Cubin("k nothing 4"));
  const absl::Status wrong = device_->compiler().Compile("an error of mine").status();
  EXPECT_CODE(wrong, kInternal);
  EXPECT_THAT(StatusText(wrong), HasSubstr("ptxas: line 1: what is this?"));
  EXPECT_THAT(StatusText(wrong), HasSubstr("an error of mine"));
  for (const char* call : {"cuLinkCreate_v2", "cuLinkAddData_v2", "cuLinkComplete"}) {
    fake_->Fail(call, kOutOfMemory);
    EXPECT_FALSE(device_->compiler().Compile("k nothing 4").ok()) << call;
  }
  fake_->Fail("cuLinkAddData_v2", kJitCompilerNotFound);
  EXPECT_CODE(device_->compiler().Compile("k nothing 4").status(), kUnavailable);
}

TEST_F(CudaLaunchTest, SaysWhatIsWrongWithTheCode) {
  Open();
  const auto load = [&](CodeFormat format, const char* entry, const std::string& bytes) {
    return device_->Load({format, entry, bytes, {2, 1}}).status();
  };
  const std::string cubin = tests::FakeCuda::Cubin("k nothing 4");
  EXPECT_TRUE(load(CodeFormat::kObject, "k", cubin).ok());
  EXPECT_CODE(load(CodeFormat::kObject, "k", "garbage"), kInternal);
  EXPECT_CODE(load(CodeFormat::kObject, "k", ""), kInternal);
  EXPECT_CODE(load(CodeFormat::kLlvmIr, "k", "text"), kUnimplemented);
  const absl::Status missing = load(CodeFormat::kObject, "other", cubin);
  EXPECT_CODE(missing, kInternal);
  EXPECT_THAT(StatusText(missing), HasSubstr("CUDA_ERROR_NOT_FOUND"));
  EXPECT_THAT(StatusText(missing), HasSubstr("kernel other"));
  fake_->Fail("cuModuleLoadData", kOutOfMemory);
  EXPECT_CODE(load(CodeFormat::kObject, "k", cubin), kResourceExhausted);
  fake_->Fail("cuFuncGetAttribute", kInvalidValue);
  EXPECT_CODE(load(CodeFormat::kObject, "k", cubin), kInternal);
}

TEST_F(CudaLaunchTest, ALaunchThatFailsIsAnErrorOfTheStream) {
  Open();
  auto kernel = Kernel("adder");
  auto buffer = Allocate(4);
  ASSERT_TRUE(stream_->Fill(*buffer, 0, 4, std::byte{0}).ok());
  fake_->Fail("cuLaunchKernel", kLaunchOutOfResources);
  ASSERT_TRUE(Launch(*stream_, *kernel, *buffer).ok());
  ASSERT_TRUE(Launch(*stream_, *kernel, *buffer).ok());  // skipped
  const absl::Status status = stream_->Synchronize();
  EXPECT_CODE(status, kInternal);
  EXPECT_THAT(StatusText(status), HasSubstr("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"));
  EXPECT_THAT(StatusText(status), HasSubstr("kernel k"));
  EXPECT_TRUE(device_->status().ok());
  ASSERT_TRUE(Launch(*stream_, *kernel, *buffer).ok());
  EXPECT_EQ(ReadInt(*buffer), 1);
  // The driver compares the size of the arguments with the kernel.
  auto other = device_->Load({CodeFormat::kPtx, "k", "k adder 3", {2, 1}}).value();
  ASSERT_TRUE(Launch(*stream_, *other, *buffer).ok());
  EXPECT_CODE(stream_->Synchronize(), kInternal);
}

TEST_F(CudaLaunchTest, AsksForMuchSharedMemoryOnce) {
  Open();
  auto kernel = Kernel("shared");
  auto buffer = Allocate(4);
  for (const int32_t kib : {48, 200, 100, 227}) {
    LaunchShape shape;
    shape.shared_bytes = int64_t{kib} << 10;
    ASSERT_TRUE(Launch(*stream_, *kernel, *buffer, nullptr, nullptr, shape).ok());
    EXPECT_EQ(ReadInt(*buffer), kib << 10);
  }
  EXPECT_EQ(fake_->Calls("cuFuncSetAttribute"), 2);
  auto fresh = Kernel("shared");
  fake_->Fail("cuFuncSetAttribute", kInvalidValue);
  LaunchShape shape;
  shape.shared_bytes = 64 << 10;
  ASSERT_TRUE(Launch(*stream_, *fresh, *buffer, nullptr, nullptr, shape).ok());
  EXPECT_THAT(StatusText(stream_->Synchronize()), HasSubstr("65536 bytes"));
}

TEST_F(CudaLaunchTest, MeasuresOnTheChip) {
  Open();
  auto spin = Kernel("spin");
  auto buffer = Allocate(4);
  auto stop = std::make_shared<StopFlag>();
  int64_t duration_ns = -1;
  auto nothing = Kernel("nothing");
  ASSERT_TRUE(Launch(*stream_, *nothing, *buffer, nullptr, &duration_ns).ok());
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_GE(duration_ns, 0);
  EXPECT_LT(duration_ns, 1'000'000'000);
  for (const char* call : {"cuEventElapsedTime", "cuEventRecord"}) {
    fake_->Fail(call, kInvalidValue);
    ASSERT_TRUE(Launch(*stream_, *nothing, *buffer, nullptr, &duration_ns).ok());
    EXPECT_CODE(stream_->Synchronize(), kInternal);
  }
}

TEST_F(CudaLaunchTest, StopsARunningKernel) {
  Open();
  auto spin = Kernel("spin");
  auto buffer = Allocate(4);
  auto stop = std::make_shared<StopFlag>();
  auto done = device_->NewSemaphore().value();
  ASSERT_TRUE(Launch(*stream_, *spin, *buffer, stop).ok());
  ASSERT_TRUE(stream_->Record(done, 1).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(done->value(), 0u);
  stop->Stop();
  EXPECT_CODE(stream_->Synchronize(), kCancelled);
  EXPECT_CODE(done->failure(), kCancelled);
  // The word is used again, and is 0 again.
  auto next = std::make_shared<StopFlag>();
  ASSERT_TRUE(Launch(*stream_, *spin, *buffer, next).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  next->Stop();
  EXPECT_CODE(stream_->Synchronize(), kCancelled);
  EXPECT_TRUE(device_->status().ok());
}

TEST_F(CudaLaunchTest, StreamsWaitOnTheChip) {
  Open();
  auto other = device_->NewStream().value();
  auto spin = Kernel("spin"), adder = Kernel("adder");
  auto buffer = Allocate(4);
  auto stop = std::make_shared<StopFlag>();
  auto done = device_->NewSemaphore().value(), last = device_->NewSemaphore().value();
  ASSERT_TRUE(stream_->Fill(*buffer, 0, 4, std::byte{0}).ok());
  ASSERT_TRUE(Launch(*stream_, *spin, *buffer, stop).ok());
  ASSERT_TRUE(stream_->Record(done, 1).ok());
  ASSERT_TRUE(other->Wait(done, 1).ok());
  EXPECT_EQ(fake_->Calls("cuStreamWaitEvent"), 1);
  ASSERT_TRUE(Launch(*other, *adder, *buffer).ok());
  ASSERT_TRUE(other->Record(last, 1).ok());
  EXPECT_EQ(last->value(), 0u);
  // What the other stream has on the chip runs, but the failure reaches it.
  stop->Stop();
  EXPECT_CODE(other->Synchronize(), kCancelled);
  EXPECT_CODE(last->failure(), kCancelled);
  EXPECT_CODE(stream_->Synchronize(), kCancelled);
  // A failure of the wait itself.
  auto again = device_->NewSemaphore().value();
  auto next = std::make_shared<StopFlag>();
  ASSERT_TRUE(Launch(*stream_, *spin, *buffer, next).ok());
  ASSERT_TRUE(stream_->Record(again, 1).ok());
  fake_->Fail("cuStreamWaitEvent", kInvalidValue);
  ASSERT_TRUE(other->Wait(again, 1).ok());
  next->Stop();
  EXPECT_CODE(other->Synchronize(), kInternal);
  EXPECT_CODE(stream_->Synchronize(), kCancelled);
}

// Memory of the host takes part in the order, though the chip does not see it.
TEST_F(CudaLaunchTest, CopiesOutAndInAgainInOrder) {
  Open();
  auto other = device_->NewStream().value();
  auto adder = Kernel("adder");
  auto a = Allocate(4), b = Allocate(4), visible = Allocate(4, MemoryKind::kHostVisible);
  for (int32_t round = 1; round <= 50; ++round) {
    int32_t host = 0, there = 0;
    const auto bytes = std::as_writable_bytes(std::span(&host, 1));
    auto done = device_->NewSemaphore().value();
    ASSERT_TRUE(stream_->CopyIn(std::as_bytes(std::span(&round, 1)), *a, 0).ok());
    ASSERT_TRUE(Launch(*stream_, *adder, *a).ok());
    ASSERT_TRUE(stream_->CopyOut(*a, 0, bytes).ok());
    ASSERT_TRUE(stream_->CopyIn(bytes, *b, 0).ok());
    ASSERT_TRUE(Launch(*stream_, *adder, *b).ok());
    ASSERT_TRUE(
        stream_->CopyOut(*b, 0, {visible->host_data(), 4}).ok());  // lands where a kernel reads
    ASSERT_TRUE(Launch(*stream_, *adder, *visible).ok());
    ASSERT_TRUE(stream_->Record(done, 1).ok());
    ASSERT_TRUE(other->Wait(done, 1).ok());
    ASSERT_TRUE(other->CopyIn({visible->host_data(), 4}, *a, 0).ok());
    ASSERT_TRUE(other->CopyOut(*a, 0, std::as_writable_bytes(std::span(&there, 1))).ok());
    ASSERT_TRUE(other->Synchronize().ok());
    EXPECT_EQ(host, 2 * round + 1);
    EXPECT_EQ(there, 8 * round + 7);
    ASSERT_TRUE(stream_->Synchronize().ok());
  }
}

TEST_F(CudaLaunchTest, StreamsOfTwoDevicesWaitForEachOther) {
  Open();
  CudaOptions options = Options();
  options.index = 1;
  auto second = CudaDevice::Open(options).value();
  auto other = second->NewStream().value();
  auto from = Allocate(64);
  auto to = second->Allocate(64, MemoryKind::kDevice).value();
  ASSERT_TRUE(stream_->Fill(*from, 0, 64, std::byte{5}).ok());
  ASSERT_TRUE(other->CopyFrom(*stream_, *from, 0, *to, 0, 64).ok());
  std::vector<std::byte> got(64);
  ASSERT_TRUE(other->CopyOut(*to, 0, got).ok());
  ASSERT_TRUE(other->Synchronize().ok());
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_THAT(got, testing::Each(std::byte{5}));
}

}  // namespace
}  // namespace uopd::devices::cuda
