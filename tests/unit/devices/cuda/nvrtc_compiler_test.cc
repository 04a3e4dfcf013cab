// SPDX-License-Identifier: MIT
// The compiler of CUDA C++: over a fake of NVRTC, and for real where the library is found.
#include "devices/cuda/nvrtc_compiler.h"

#include "devices/registry.h"
#include "tests/unit/devices/cuda/cuda_fixture.h"

namespace uopd::devices::cuda {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// A library that knows sm_80, sm_86 and sm_90. A text with the word `error` does not compile.
struct FakeNvrtc {
  std::string failing;  // the call that fails
  std::string text, options;
  std::vector<int> archs = {80, 86, 90};
  int programs = 0, minor = 4;  // of version 12
};
FakeNvrtc fake_nvrtc;

int Result(const char* call) { return fake_nvrtc.failing == call ? 3 : 0; }

NvrtcApi FakeApi() {
  fake_nvrtc = {};
  NvrtcApi api;
  api.nvrtcVersion = [](int* major, int* minor) {
    *major = 12;
    *minor = fake_nvrtc.minor;
    return Result("nvrtcVersion");
  };
  api.nvrtcGetErrorString = [](int) { return "NVRTC_ERROR_OF_MINE"; };
  api.nvrtcCreateProgram = [](NvrtcProgram* program, const char* source, const char*, int,
                              const char* const*, const char* const*) {
    if (int result = Result("nvrtcCreateProgram"); result != 0) return result;
    fake_nvrtc.text = source;
    ++fake_nvrtc.programs;
    *program = reinterpret_cast<NvrtcProgram>(&fake_nvrtc);
    return 0;
  };
  api.nvrtcDestroyProgram = [](NvrtcProgram*) {
    --fake_nvrtc.programs;
    return 0;
  };
  api.nvrtcCompileProgram = [](NvrtcProgram, int n, const char* const* options) {
    fake_nvrtc.options.clear();
    for (int i = 0; i < n; ++i) fake_nvrtc.options += std::string(options[i]) + " ";
    return fake_nvrtc.text.find("error") != std::string::npos ? 6 : Result("nvrtcCompileProgram");
  };
  api.nvrtcGetCUBINSize = [](NvrtcProgram, size_t* size) {
    *size = tests::FakeCuda::Cubin(fake_nvrtc.text).size();
    return Result("nvrtcGetCUBINSize");
  };
  api.nvrtcGetCUBIN = [](NvrtcProgram, char* cubin) {
    const std::string bytes = tests::FakeCuda::Cubin(fake_nvrtc.text);
    std::memcpy(cubin, bytes.data(), bytes.size());
    return Result("nvrtcGetCUBIN");
  };
  api.nvrtcGetProgramLogSize = [](NvrtcProgram, size_t* size) {
    *size = sizeof "kernel.cu(1): what is this?";
    return Result("nvrtcGetProgramLogSize");
  };
  api.nvrtcGetProgramLog = [](NvrtcProgram, char* log) {
    std::strcpy(log, "kernel.cu(1): what is this?");
    return 0;
  };
  api.nvrtcGetNumSupportedArchs = [](int* n) {
    *n = static_cast<int>(fake_nvrtc.archs.size());
    return 0;
  };
  api.nvrtcGetSupportedArchs = [](int* archs) {
    std::copy(fake_nvrtc.archs.begin(), fake_nvrtc.archs.end(), archs);
    return 0;
  };
  return api;
}

TEST(NvrtcCompilerTest, CompilesForTheArchitecture) {
  const NvrtcApi api = FakeApi();
  const auto compiler = NvrtcCompiler::Create(api, 90).value();
  EXPECT_THAT(compiler->toolchain(), StartsWith("nvrtc-12.4;arch=sm_90;"));
  EXPECT_EQ(compiler->Compile("text").value(), tests::FakeCuda::Cubin("text"));
  EXPECT_THAT(fake_nvrtc.options, HasSubstr("--gpu-architecture=sm_90 "));
  EXPECT_THAT(fake_nvrtc.options, HasSubstr("--fmad=false "));
  EXPECT_THAT(fake_nvrtc.options, HasSubstr("--minimal "));
  EXPECT_EQ(fake_nvrtc.programs, 0);
  EXPECT_FALSE(compiler->makes_drafts());
  fake_nvrtc.minor = 3;  // it does not know this option
  EXPECT_EQ(NvrtcCompiler::Create(api, 90).value()->toolchain().find("--minimal"),
            std::string::npos);
}

TEST(NvrtcCompilerTest, CompilesForOneChipOnly) {
  const NvrtcApi api = FakeApi();
  const auto compiler = NvrtcCompiler::Create(api, 90, true).value();
  EXPECT_THAT(compiler->toolchain(), StartsWith("nvrtc-12.4;arch=sm_90a;"));
  EXPECT_TRUE(compiler->Compile("text").ok());
  EXPECT_THAT(fake_nvrtc.options, HasSubstr("--gpu-architecture=sm_90a "));
  const std::string toolchain(compiler->toolchain());
  EXPECT_EQ(NvrtcCompiler::OfToolchain(api, toolchain).value()->toolchain(), toolchain);
  EXPECT_CODE(NvrtcCompiler::Create(api, 89, true).status(),
              kUnimplemented);  // not the code of sm_86
}

TEST(NvrtcCompilerTest, TakesTheNewestArchitectureThatTheDeviceRuns) {
  const NvrtcApi api = FakeApi();
  EXPECT_THAT(NvrtcCompiler::Create(api, 89).value()->toolchain(), HasSubstr("arch=sm_86;"));
  EXPECT_CODE(NvrtcCompiler::Create(api, 100).status(), kUnimplemented);
  EXPECT_CODE(NvrtcCompiler::Create(api, 75).status(), kUnimplemented);
  fake_nvrtc.archs.clear();  // it does not say
  EXPECT_THAT(NvrtcCompiler::Create(api, 100).value()->toolchain(), HasSubstr("arch=sm_100;"));
}

TEST(NvrtcCompilerTest, EveryCallMayFail) {
  const NvrtcApi api = FakeApi();
  const auto compiler = NvrtcCompiler::Create(api, 90).value();
  EXPECT_CODE(compiler->Compile("").status(), kInternal);
  const absl::Status wrong = compiler->Compile("an error of mine\nline 2").status();
  EXPECT_CODE(wrong, kInternal);
  EXPECT_THAT(StatusText(wrong),
              HasSubstr("kernel.cu(1): what is this?\nan error of mine\nline 2"));
  for (const char* call :
       {"nvrtcCreateProgram", "nvrtcCompileProgram", "nvrtcGetCUBINSize", "nvrtcGetCUBIN"}) {
    fake_nvrtc.failing = call;
    EXPECT_CODE(compiler->Compile("text").status(), kInternal) << call;
    EXPECT_EQ(fake_nvrtc.programs, 0) << call;
  }
  fake_nvrtc.failing = "nvrtcGetProgramLogSize";
  EXPECT_THAT(StatusText(compiler->Compile("error").status()), HasSubstr("NVRTC_ERROR_OF_MINE"));
  fake_nvrtc.failing = "nvrtcVersion";
  EXPECT_CODE(NvrtcCompiler::Create(api, 90).status(), kInternal);
}

TEST(NvrtcCompilerTest, FindsTheCompilerOfAToolchain) {
  const NvrtcApi api = FakeApi();
  const std::string toolchain = NvrtcCompiler::Create(api, 86).value()->toolchain();
  EXPECT_EQ(NvrtcCompiler::OfToolchain(api, toolchain).value()->toolchain(), toolchain);
  for (const char* other : {"nvrtc-11.0;arch=sm_86", "nvrtc-12.4;arch=sm_86;--fmad=true"}) {
    EXPECT_CODE(NvrtcCompiler::OfToolchain(api, other).status(), kFailedPrecondition) << other;
  }
  for (const char* wrong : {"nvrtc-12.4", "nvrtc-12.4;arch=sm_x", "nvrtc-12.4;arch=sm_"}) {
    EXPECT_CODE(NvrtcCompiler::OfToolchain(api, wrong).status(), kInvalidArgument) << wrong;
  }
}

class CudaNvrtcTest : public CudaTest {};

TEST_F(CudaNvrtcTest, TheDeviceTakesCudaCIfItCan) {
  const NvrtcApi api = FakeApi();
  CudaOptions options = Options();
  options.ptx = false;
  options.nvrtc = &api;
  Open(options);
  EXPECT_EQ(device_->target().format, CodeFormat::kCudaC);
  EXPECT_THAT(device_->target().toolchain, StartsWith("nvrtc-12.4;arch=sm_90;"));
  auto kernel = device_->Load({CodeFormat::kCudaC, "k", "k adder 4", {2, 1}}).value();
  auto buffer = Allocate(4);
  ASSERT_TRUE(stream_->Fill(*buffer, 0, 4, std::byte{0}).ok());
  ASSERT_TRUE(Launch(*stream_, *kernel, *buffer).ok());
  EXPECT_EQ(ReadInt(*buffer), 1);
  kernel = nullptr;
  buffer = nullptr;
  // A library that is too old for the chip: the driver compiles.
  fake_nvrtc.archs = {80};
  Open(options);
  EXPECT_EQ(device_->target().format, CodeFormat::kPtx);
}

// The library itself, which needs no GPU.
class RealNvrtcTest : public testing::Test {
 protected:
  void SetUp() override {
    auto api = LoadNvrtc();
    if (!api.ok()) GTEST_SKIP() << api.status();
    compiler_ = NvrtcCompiler::Create(*api, 90).value();
  }
  std::shared_ptr<const NvrtcCompiler> compiler_;
};

constexpr char kSource[] = R"(
extern "C" __global__ void k(const float* a, float* b, long long n, const volatile int* stop) {
  extern __shared__ float part[];
  const int t = threadIdx.x;
  part[t] = t < n ? a[t] * 2.0f + 1.0f : 0.0f;
  __syncthreads();
  if (*stop == 0) b[t] = part[blockDim.x - 1 - t] + __shfl_xor_sync(0xffffffffu, part[t], 1);
}
)";

TEST_F(RealNvrtcTest, CompilesWithoutHeaders) {
  const std::string cubin = compiler_->Compile(kSource).value();
  EXPECT_THAT(cubin, StartsWith("\x7f"
                                "ELF"));
  EXPECT_EQ(compiler_->Compile(kSource).value(), cubin);
  const absl::Status wrong = compiler_->Compile("__global__ void k() { what; }").status();
  EXPECT_CODE(wrong, kInternal);
  EXPECT_THAT(StatusText(wrong), HasSubstr("\"what\" is undefined"));
  EXPECT_THAT(StatusText(wrong), HasSubstr("__global__ void k()"));
}

TEST_F(RealNvrtcTest, CompilesInParallel) {
  const std::string want = compiler_->Compile(kSource).value();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 3; ++i) EXPECT_EQ(compiler_->Compile(kSource).value(), want);
    });
  }
  for (auto& thread : threads) thread.join();
}

// Workers compile for a device that they cannot open.
TEST_F(RealNvrtcTest, TheRegistryNeedsNoDeviceToCompile) {
  RegistryOptions options{.devices = "NULL,CUDA"};
  options.open = [](const DeviceName&) -> absl::StatusOr<std::shared_ptr<Device>> {
    return absl::UnavailableError("No GPU");
  };
  auto registry = Registry::Create(options).value();
  const auto compiler = registry->CompilerFor("CUDA", compiler_->toolchain()).value();
  EXPECT_EQ(compiler->Compile(kSource).value(), compiler_->Compile(kSource).value());
  EXPECT_CODE(registry->CompilerFor("CUDA", "nvrtc-0.1;arch=sm_90").status(), kFailedPrecondition);
}

TEST(CudaRegistryTest, OtherCompilersNeedTheDevice) {
  RegistryOptions options{.devices = "CUDA"};
  options.open = [](const DeviceName&) -> absl::StatusOr<std::shared_ptr<Device>> {
    return absl::UnavailableError("No GPU");
  };
  auto registry = Registry::Create(options).value();
  EXPECT_CODE(registry->CompilerFor("CUDA", "cuda-driver-12.4;arch=sm_90;O4").status(),
              kUnavailable);
  EXPECT_CODE(registry->CompilerFor("CUDA", "").status(), kUnavailable);
  EXPECT_CODE(registry->CompilerFor("CUDA:1", "").status(), kNotFound);
}

}  // namespace
}  // namespace uopd::devices::cuda
