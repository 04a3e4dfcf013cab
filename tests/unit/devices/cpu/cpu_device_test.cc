// SPDX-License-Identifier: MIT
#include "devices/cpu/cpu_device.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <thread>

#include "devices/api/host/thread_priority.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/devices/cpu/kernels.h"

namespace uopd::devices::cpu {
namespace {

using testing::HasSubstr;

class CpuDeviceTest : public testing::Test {
 protected:
  // Four threads whatever the machine has, so that kernels meet real parallelism.
  std::shared_ptr<CpuDevice> device_ = CpuDevice::Open({.threads = 4}).value();
  std::unique_ptr<Stream> stream_ = device_->NewStream().value();

  template <class T>
  std::shared_ptr<Buffer> Upload(const std::vector<T>& values) {
    auto buffer = device_->Allocate(values.size() * sizeof(T), MemoryKind::kDevice).value();
    EXPECT_TRUE(stream_->CopyIn(std::as_bytes(std::span(values)), *buffer, 0).ok());
    return buffer;
  }
  template <class T>
  std::vector<T> Download(Buffer& buffer) {
    std::vector<T> out(buffer.size() / sizeof(T));
    EXPECT_TRUE(stream_->CopyOut(buffer, 0, std::as_writable_bytes(std::span(out))).ok());
    EXPECT_TRUE(stream_->Synchronize().ok());
    return out;
  }
  std::shared_ptr<Executable> Load(const char* entry, const char* ir, ArgLayout args) {
    auto kernel = device_->Load({CodeFormat::kLlvmIr, entry, ir, args});
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    return kernel.ok() ? *kernel : nullptr;
  }
  void Run(Executable& kernel, int64_t threads, const std::vector<std::shared_ptr<Buffer>>& buffers,
           const std::vector<int64_t>& vars = {}) {
    std::vector<BufferArg> args;
    for (auto& buffer : buffers) args.push_back({buffer.get(), 0});
    ASSERT_TRUE(stream_->Launch(kernel, {{threads, 1, 1}}, args, vars).ok());
    ASSERT_TRUE(stream_->Synchronize().ok());
  }
};

TEST_F(CpuDeviceTest, Adds) {
  constexpr int64_t kN = 1003;
  std::vector<float> a(kN), b(kN);
  for (int i = 0; i < kN; ++i) a[i] = 0.25f * i, b[i] = 1000.0f - i;
  auto c = Upload(std::vector<float>(kN + 1, -1.0f));
  Run(*Load("add", kAdd, {3, 1}), 1, {Upload(a), Upload(b), c}, {kN});
  const auto got = Download<float>(*c);
  for (int i = 0; i < kN; ++i) EXPECT_EQ(got[i], a[i] + b[i]) << i;
  EXPECT_EQ(got[kN], -1.0f);
}

TEST_F(CpuDeviceTest, ShowsTheInstructionsOfAKernel) {
  const auto kernel = Load("add", kAdd, {3, 1});
  const auto text = kernel->Disassemble(1 << 20);
  ASSERT_TRUE(text.ok()) << text.status();
#if defined(__x86_64__)
  EXPECT_THAT(*text, testing::ContainsRegex("^ +0  "));  // offsets, no addresses
  EXPECT_THAT(*text, testing::ContainsRegex("\n +[0-9a-f]+  v?addss "));
  EXPECT_THAT(*text, testing::ContainsRegex("\n +[0-9a-f]+  retq"));
  EXPECT_THAT(*text, testing::Not(HasSubstr(".byte")));
  // Jumps name the offset of an instruction.
  const size_t jump = text->find(" jne 0x") + 7;
  const std::string target = text->substr(jump, text->find('\n', jump) - jump);
  EXPECT_THAT(*text, testing::ContainsRegex("\n +" + target + "  "));
#endif
  EXPECT_EQ(*Load("add", kAdd, {3, 1})->Disassemble(1 << 20), *text);  // wherever it is loaded
  const std::string cut = *kernel->Disassemble(100);
  EXPECT_LT(cut.size(), 260u);
  EXPECT_THAT(cut, HasSubstr(" more bytes of code"));
}

TEST_F(CpuDeviceTest, TakesOffsetsAndVariables) {
  auto y = Upload<double>({1, 2, 3, 4});
  auto x = Upload<double>({10, 20, 30, 40});
  auto kernel = Load("saxpy", kSaxpy, {2, 1});
  const BufferArg args[] = {{y.get(), 8}, {x.get(), 16}};
  const int64_t vars[] = {-2};
  ASSERT_TRUE(stream_->Launch(*kernel, {{2, 1, 1}}, args, vars).ok());
  EXPECT_THAT(Download<double>(*y), testing::ElementsAre(1, 2 - 60, 3 - 80, 4));
}

TEST_F(CpuDeviceTest, StopsARunningKernel) {
  auto kernel = Load("endless", kEndless, {1, 0});
  constexpr int64_t kThreads = 1000;  // far more than run at the same time
  auto began = Upload(std::vector<int32_t>(kThreads));
  const BufferArg args[] = {{began.get(), 0}};
  auto stop = std::make_shared<StopFlag>();
  std::thread stopper([&] {
    // The kernel runs for sure, on at least one thread.
    const auto* words = reinterpret_cast<const int32_t*>(began->host_data());
    while (__atomic_load_n(&words[0], __ATOMIC_RELAXED) == 0) std::this_thread::yield();
    stop->Stop();
  });
  ASSERT_TRUE(stream_->Launch(*kernel, {{kThreads, 1, 1}}, args, {}, nullptr, stop).ok());
  EXPECT_EQ(stream_->Synchronize().code(), absl::StatusCode::kCancelled);
  stopper.join();
  const auto got = Download<int32_t>(*began);
  EXPECT_LE(std::count(got.begin(), got.end(), 1), 4) << "threads of the launch began after Stop";
  // The device is free again.
  auto index = Load("index", kIndex, {1, 0});
  auto out = Upload(std::vector<int64_t>(8));
  Run(*index, 8, {out});
  EXPECT_THAT(Download<int64_t>(*out), testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

// While all of its background threads are busy for good, the device answers others.
TEST_F(CpuDeviceTest, BackgroundWorkHasThreadsOfItsOwn) {
  auto endless = Load("endless", kEndless, {1, 0});
  auto began = Upload(std::vector<int32_t>(8));
  const BufferArg args[] = {{began.get(), 0}};
  auto stop = std::make_shared<StopFlag>();
  int nice = 0;
  std::thread background([&] {
    LowerPriority(ThreadPriority::kBackground);
    nice = getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)));
    auto stream = device_->NewStream().value();
    EXPECT_TRUE(stream->Launch(*endless, {{8, 1, 1}}, args, {}, nullptr, stop).ok());
    EXPECT_EQ(stream->Synchronize().code(), absl::StatusCode::kCancelled);
  });
  const auto* words = reinterpret_cast<const int32_t*>(began->host_data());
  const auto all = [&] {
    int n = 0;
    for (int i = 0; i < 8; ++i) n += __atomic_load_n(&words[i], __ATOMIC_RELAXED);
    return n;
  };
  while (all() < 4) std::this_thread::yield();
  auto index = Load("index", kIndex, {1, 0});
  for (int i = 0; i < 20; ++i) Run(*index, 8, {Upload(std::vector<int64_t>(8))});
  stop->Stop();
  background.join();
  EXPECT_GE(nice, 10);
}

TEST_F(CpuDeviceTest, EveryThreadRunsOnce) {
  auto kernel = Load("index", kIndex, {1, 0});
  for (int64_t n : {1, 2, 3, 4, 5, 64, 10'000}) {
    auto out = Upload(std::vector<int64_t>(n, -1));
    Run(*kernel, n, {out});
    const auto got = Download<int64_t>(*out);
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(got[i], i);
  }
}

TEST_F(CpuDeviceTest, CallsLibm) {
  const std::vector<float> in = {0, 1, -2.5f, 10, 0.3f};
  auto out = Upload(std::vector<double>(in.size()));
  Run(*Load("math", kMath, {2, 0}), in.size(), {out, Upload(in)});
  const auto got = Download<double>(*out);
  for (size_t i = 0; i < in.size(); ++i)
    EXPECT_DOUBLE_EQ(got[i], std::pow(double{exp2f(in[i])}, 1.5)) << in[i];
}

TEST_F(CpuDeviceTest, DividesWideIntegers) {
  const __int128 a = (__int128{7} << 90) + 12345, b = -((__int128{3} << 40) + 1);
  auto in = device_->Allocate(32, MemoryKind::kHostVisible).value();
  auto out = device_->Allocate(16, MemoryKind::kHostVisible).value();
  std::memcpy(in->host_data(), &a, 16);
  std::memcpy(in->host_data() + 16, &b, 16);
  Run(*Load("divide", kDivide128, {2, 0}), 1, {out, in});
  __int128 got;
  std::memcpy(&got, out->host_data(), 16);
  EXPECT_TRUE(got == a / b);
}

TEST_F(CpuDeviceTest, ReloadsObjectsWithoutCompiling) {
  const std::string object = device_->compiler().Compile(kIndex).value();
  const KernelCode kernel_code{CodeFormat::kObject, "index", object, {1, 0}};
  ASSERT_TRUE(device_->Load(kernel_code).ok());  // first use of the linker
  constexpr int kLoads = 50;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kLoads; ++i) {
    auto kernel = device_->Load(kernel_code);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    auto out = Upload(std::vector<int64_t>(3, -1));
    Run(**kernel, 3, {out});
    ASSERT_THAT(Download<int64_t>(*out), testing::ElementsAre(0, 1, 2));
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  RecordProperty("load_us", std::to_string(took.count() / kLoads));
  std::printf("load, run and unload of a %zu-byte object: %.1f us\n", object.size(),
              took.count() / kLoads);
}

TEST_F(CpuDeviceTest, WrongTextIsOurBug) {
  auto status = device_->compiler()
                    .Compile("define void @k(ptr %b) {\n  %x = nonsense i32 1\n  ret void\n}\n")
                    .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(StatusText(status), HasSubstr("line 2"));
  EXPECT_THAT(StatusText(status), HasSubstr("define void @k(ptr %b)"));

  // Parses, but is no valid function: a value is used before it is defined.
  status =
      device_->compiler()
          .Compile(
              "define i32 @k() {\n  %a = add i32 %b, 1\n  %b = add i32 1, 1\n  ret i32 %a\n}\n")
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(StatusText(status), HasSubstr("does not dominate"));

  // Reported by the code generator, after the optimiser.
  status = device_->compiler()
               .Compile(
                   "define void @k() {\n  call void asm sideeffect \"frobnicate\", \"\"()\n  ret "
                   "void\n}\n")
               .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(StatusText(status), HasSubstr("frobnicate"));
  EXPECT_TRUE(device_->compiler().Compile(kAdd).ok());
}

TEST_F(CpuDeviceTest, UnresolvedSymbolsAreNamed) {
  auto status = device_->Load({CodeFormat::kLlvmIr, "escape", kEscape, {1, 0}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(StatusText(status), HasSubstr("getpid"));
  EXPECT_THAT(StatusText(status), HasSubstr("escape"));
}

TEST_F(CpuDeviceTest, BadObjectsAreRefused) {
  const std::string object = device_->compiler().Compile(kIndex).value();
  auto status = device_->Load({CodeFormat::kObject, "other", object, {1, 0}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(StatusText(status), HasSubstr("does not define"));
  for (const std::string& bytes : {std::string(), std::string("no object"), std::string(1000, '\0'),
                                   object.substr(0, 40), object.substr(0, object.size() / 2)}) {
    EXPECT_EQ(device_->Load({CodeFormat::kObject, "index", bytes, {1, 0}}).status().code(),
              absl::StatusCode::kInternal);
  }
  EXPECT_EQ(device_->Load({CodeFormat::kPtx, "index", object, {1, 0}}).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(device_->Load({CodeFormat::kObject, "index", object, {1, 0}}).ok());
}

size_t ResidentBytes() {
  std::ifstream in("/proc/self/statm");
  size_t size = 0, resident = 0;
  in >> size >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

TEST_F(CpuDeviceTest, UnloadingFreesMemory) {
  const std::string object = device_->compiler().Compile(kAdd).value();
  const auto cycle = [&](int times) {
    for (int i = 0; i < times; ++i) {
      ASSERT_TRUE(device_->Load({CodeFormat::kObject, "add", object, {3, 1}}).ok());
    }
  };
  cycle(100);
  const size_t before = ResidentBytes();
  cycle(300);
  const size_t after = ResidentBytes();
#ifndef UOPD_SANITIZED  // they keep freed memory for a while
  EXPECT_LE(after, before + (64 << 10));
#endif
  std::printf("300 loads and unloads: %+ld KiB\n",
              (static_cast<long>(after) - static_cast<long>(before)) / 1024);
}

TEST_F(CpuDeviceTest, CompilesInParallelToTheSameBytes) {
  const std::string want = device_->compiler().Compile(kAdd).value();
  std::vector<std::string> got(4);
  std::vector<std::thread> threads;
  for (auto& object : got) {
    threads.emplace_back([&] {
      for (int i = 0; i < 3; ++i) object = device_->compiler().Compile(kAdd).value_or("");
    });
  }
  for (auto& thread : threads) thread.join();
  for (auto& object : got) EXPECT_TRUE(object == want);
  // Another device, with a machine of its own, agrees too.
  EXPECT_TRUE(
      CpuDevice::Open({.index = 1, .threads = 1}).value()->compiler().Compile(kAdd).value() ==
      want);
}

TEST_F(CpuDeviceTest, LoadsAndRunsOnManyThreads) {
  const std::string object = device_->compiler().Compile(kIndex).value();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      auto stream = device_->NewStream().value();
      auto out = device_->Allocate(8 * 5, MemoryKind::kHostVisible).value();
      for (int i = 0; i < 25; ++i) {
        auto kernel = device_->Load({CodeFormat::kObject, "index", object, {1, 0}}).value();
        std::memset(out->host_data(), 0xff, 8 * 5);
        const BufferArg args[] = {{out.get(), 0}};
        EXPECT_TRUE(stream->Launch(*kernel, {{5, 1, 1}}, args, {}).ok());
        EXPECT_TRUE(stream->Synchronize().ok());
        for (int64_t j = 0; j < 5; ++j) EXPECT_EQ(std::bit_cast<int64_t*>(out->host_data())[j], j);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(CpuDeviceTest, TheToolchainSaysWhatDecidesTheBytes) {
  auto plain = CpuDevice::Open({.threads = 1, .features = ""}).value();
  EXPECT_THAT(device_->target().toolchain, HasSubstr("llvm-19.1"));
  EXPECT_THAT(device_->target().toolchain, HasSubstr(device_->target().features));
  EXPECT_EQ(plain->target().features, "");
  EXPECT_EQ(plain->target().vector_bytes, 16);
  if (!device_->target().features.empty()) {
    EXPECT_NE(plain->target().toolchain, device_->target().toolchain);
  }
}

#if defined(__x86_64__)
TEST_F(CpuDeviceTest, UsesTheWidestVectors) {
  if (device_->target().vector_bytes < 64) GTEST_SKIP() << "no AVX-512";
  // EVEX with L'L = 10 is a 512-bit instruction: 62, P0, P1, then bits 6 and 5 of P2 are 1 and 0.
  const auto has_512 = [](const std::string& object) {
    for (size_t i = 0; i + 3 < object.size(); ++i) {
      const auto byte = [&](size_t k) { return static_cast<uint8_t>(object[i + k]); };
      if (byte(0) == 0x62 && (byte(2) & 0x04) && (byte(3) & 0x60) == 0x40) return true;
    }
    return false;
  };
  EXPECT_TRUE(has_512(device_->compiler().Compile(kAdd).value()));
  auto avx2 = CpuDevice::Open({.threads = 1, .features = "+avx,+avx2,+fma"}).value();
  EXPECT_FALSE(has_512(avx2->compiler().Compile(kAdd).value()));
}
#endif

}  // namespace
}  // namespace uopd::devices::cpu
