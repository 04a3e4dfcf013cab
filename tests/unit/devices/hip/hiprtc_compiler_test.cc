// SPDX-License-Identifier: MIT
// The compiler of HIP C++, over a fake of ROCm's library: what it is given, its errors, and when a
// device takes it.
#include "devices/hip/hiprtc_compiler.h"

#include <cstring>
#include <map>

#include "devices/hip/hip_device.h"
#include "devices/registry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/eventually.h"
#include "tests/support/hip/fake_hip.h"

namespace uopd::devices::hip {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

#define EXPECT_RTC_CODE(expr, want) EXPECT_EQ((expr).code(), absl::StatusCode::want)

// A text with the word `error` does not compile. The code is that of the fake of HIP.
struct FakeHiprtc {
  std::string failing;  // the call that fails
  std::string text, options, code, log = "kernel.hip:1:1: unknown word\n";
  int programs = 0;
};
FakeHiprtc fake_hiprtc;

int RtcResult(const char* call) { return fake_hiprtc.failing == call ? 11 : 0; }

HiprtcApi FakeRtcApi() {
  fake_hiprtc = {};
  HiprtcApi api;
  api.hiprtcVersion = [](int* major, int* minor) {
    *major = 6;
    *minor = 2;
    return RtcResult("hiprtcVersion");
  };
  api.hiprtcGetErrorString = [](int) { return "HIPRTC_ERROR_OF_MINE"; };
  api.hiprtcCreateProgram = [](HiprtcProgram* program, const char* source, const char*, int,
                               const char* const*, const char* const*) {
    if (int result = RtcResult("hiprtcCreateProgram"); result != 0) return result;
    fake_hiprtc.text = source;
    ++fake_hiprtc.programs;
    *program = reinterpret_cast<HiprtcProgram>(&fake_hiprtc);
    return 0;
  };
  api.hiprtcDestroyProgram = [](HiprtcProgram* program) {
    --fake_hiprtc.programs;
    *program = nullptr;
    return 0;
  };
  api.hiprtcCompileProgram = [](HiprtcProgram, int n, const char* const* options) {
    fake_hiprtc.options.clear();
    for (int i = 0; i < n; ++i) fake_hiprtc.options += std::string(options[i]) + " ";
    if (fake_hiprtc.text.find("error") != std::string::npos) return 6;
    fake_hiprtc.code = tests::FakeHip::TextCompiler()->Compile(fake_hiprtc.text).value();
    return RtcResult("hiprtcCompileProgram");
  };
  api.hiprtcGetCodeSize = [](HiprtcProgram, size_t* size) {
    *size = fake_hiprtc.code.size();
    return RtcResult("hiprtcGetCodeSize");
  };
  api.hiprtcGetCode = [](HiprtcProgram, char* code) {
    std::memcpy(code, fake_hiprtc.code.data(), fake_hiprtc.code.size());
    return RtcResult("hiprtcGetCode");
  };
  api.hiprtcGetProgramLogSize = [](HiprtcProgram, size_t* size) {
    *size = fake_hiprtc.log.size() + 1;
    return RtcResult("hiprtcGetProgramLogSize");
  };
  api.hiprtcGetProgramLog = [](HiprtcProgram, char* log) {
    std::memcpy(log, fake_hiprtc.log.c_str(), fake_hiprtc.log.size() + 1);
    return RtcResult("hiprtcGetProgramLog");
  };
  return api;
}

TEST(HiprtcCompilerTest, CompilesForOneProcessor) {
  const HiprtcApi api = FakeRtcApi();
  const auto compiler = HiprtcCompiler::Create(api, "gfx942").value();
  EXPECT_EQ(compiler->toolchain(), "hiprtc-6.2;arch=gfx942;-O3;-std=c++17;-ffp-contract=off");
  EXPECT_EQ(compiler->Compile("k nothing 4").value(),
            tests::FakeHip::TextCompiler()->Compile("k nothing 4").value());
  EXPECT_EQ(fake_hiprtc.options, "--offload-arch=gfx942 -O3 -std=c++17 -ffp-contract=off ");
  EXPECT_EQ(fake_hiprtc.programs, 0);
}

TEST(HiprtcCompilerTest, AnErrorShowsTheLogAndTheText) {
  const HiprtcApi api = FakeRtcApi();
  const auto compiler = HiprtcCompiler::Create(api, "gfx942").value();
  const absl::Status wrong = compiler->Compile("an error of mine").status();
  EXPECT_RTC_CODE(wrong, kInternal);
  EXPECT_THAT(StatusText(wrong),
              AllOf(HasSubstr("hiprtc"), HasSubstr("unknown word"), HasSubstr("an error of mine")));
  fake_hiprtc.log = "";
  EXPECT_THAT(StatusText(compiler->Compile("an error").status()),
              HasSubstr("HIPRTC_ERROR_OF_MINE"));
  EXPECT_RTC_CODE(compiler->Compile("").status(), kInternal);
  for (const char* call :
       {"hiprtcCreateProgram", "hiprtcCompileProgram", "hiprtcGetCodeSize", "hiprtcGetCode"}) {
    fake_hiprtc.failing = call;
    const absl::Status failed = compiler->Compile("k nothing 4").status();
    EXPECT_RTC_CODE(failed, kInternal) << call;
    EXPECT_THAT(StatusText(failed), HasSubstr("HIPRTC_ERROR_OF_MINE")) << call;
  }
  fake_hiprtc.failing = "hiprtcVersion";
  EXPECT_RTC_CODE(HiprtcCompiler::Create(api, "gfx942").status(), kInternal);
  EXPECT_EQ(fake_hiprtc.programs, 0);
}

TEST(HiprtcCompilerTest, IsFoundByItsToolchain) {
  const HiprtcApi api = FakeRtcApi();
  const std::string toolchain = HiprtcCompiler::Create(api, "gfx1100").value()->toolchain();
  const auto again = HiprtcCompiler::OfToolchain(api, toolchain).value();
  EXPECT_EQ(again->toolchain(), toolchain);
  ASSERT_TRUE(again->Compile("k nothing 4").ok());
  EXPECT_THAT(fake_hiprtc.options, StartsWith("--offload-arch=gfx1100 "));
  EXPECT_RTC_CODE(HiprtcCompiler::OfToolchain(api, "hiprtc-5.7" + toolchain.substr(10)).status(),
                  kFailedPrecondition);
  EXPECT_RTC_CODE(HiprtcCompiler::OfToolchain(api, "hiprtc-6.2").status(), kInvalidArgument);
  // A worker has no library here, and says so by its name.
  setenv("UOPD_HIPRTC", "libuopd_no_hiprtc.so", 1);
  const absl::Status none = HipCompilerFor(toolchain).status();
  EXPECT_RTC_CODE(none, kUnavailable);
  EXPECT_THAT(StatusText(none), HasSubstr("libuopd_no_hiprtc.so"));
  unsetenv("UOPD_HIPRTC");
}

class HiprtcDeviceTest : public testing::Test {
 protected:
  void TearDown() override {
    const std::map<std::string, int> contexts = {{"context", 2}};
    EXPECT_TRUE(test::Eventually([&] { return cuda_.Live() == contexts; }));
  }
  HipOptions Options() {
    return {.memory_limit_bytes = size_t{64} << 20,
            .driver = &driver_,
            .lld = "/nowhere/ld.lld",
            .hiprtc_api = &api_};
  }
  tests::FakeCuda cuda_;
  tests::FakeHip fake_{cuda_};
  const HiprtcApi api_ = FakeRtcApi();
  HipDriver& driver_ = tests::FakeHip::LastingDriver();
};

TEST_F(HiprtcDeviceTest, ADeviceWithoutALinkerTakesHipC) {
  auto device = HipDevice::Open(Options()).value();
  EXPECT_EQ(device->target().format, CodeFormat::kHipC);
  EXPECT_THAT(device->target().toolchain, StartsWith("hiprtc-6.2;arch=gfx942;"));
  // From text to the result of a kernel.
  auto kernel = device->Load({CodeFormat::kHipC, "k", "k adder 4", {2, 1}}).value();
  auto buffer = device->Allocate(4, MemoryKind::kDevice).value();
  auto stream = device->NewStream().value();
  const BufferArg args[] = {{buffer.get(), 0}, {buffer.get(), 0}};
  const int64_t vars[] = {7};
  int32_t got = 0;
  ASSERT_TRUE(stream->Fill(*buffer, 0, 4, std::byte{0}).ok());
  ASSERT_TRUE(stream->Launch(*kernel, {}, args, vars).ok());
  ASSERT_TRUE(stream->CopyOut(*buffer, 0, std::as_writable_bytes(std::span(&got, 1))).ok());
  ASSERT_TRUE(stream->Synchronize().ok());
  EXPECT_EQ(got, 7);
}

TEST_F(HiprtcDeviceTest, TheSettingChoosesIt) {
  HipOptions options = Options();
  options.lld = "";
  options.hiprtc = true;
  auto device = HipDevice::Open(options).value();
  EXPECT_EQ(device->target().format, CodeFormat::kHipC);
  const auto absent = OpenCompileOnly(options, "gfx90a").value();
  EXPECT_EQ(absent->target().format, CodeFormat::kHipC);
  EXPECT_THAT(absent->target().toolchain, StartsWith("hiprtc-6.2;arch=gfx90a;"));
}

TEST_F(HiprtcDeviceTest, WithNeitherTheErrorNamesBoth) {
  setenv("UOPD_HIPRTC", "libuopd_no_hiprtc.so", 1);
  HipOptions options = Options();
  options.hiprtc_api = nullptr;
  const absl::Status none = HipDevice::Open(options).status();
  EXPECT_RTC_CODE(none, kUnavailable);
  EXPECT_THAT(StatusText(none),
              AllOf(HasSubstr("/nowhere/ld.lld"), HasSubstr("libuopd_no_hiprtc.so")));
  options.hiprtc = true;
  const absl::Status missing = HipDevice::Open(options).status();
  EXPECT_RTC_CODE(missing, kUnavailable);
  EXPECT_THAT(StatusText(missing),
              AllOf(HasSubstr("device.hip_rtc"), HasSubstr("libuopd_no_hiprtc.so")));
  unsetenv("UOPD_HIPRTC");
}

}  // namespace
}  // namespace uopd::devices::hip
