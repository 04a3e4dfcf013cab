// SPDX-License-Identifier: MIT
// Code objects for AMD's processors, made without a GPU: what is in them, and what does not
// compile.
#include "devices/hip/amdgpu_compiler.h"

#include <unistd.h>

#include <cstring>

#include "core/base/target/gpu_targets.h"
#include "core/codegen/codegen.h"
#include "core/render/renderer.h"
#include "devices/registry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/kernel_check.h"

namespace uopd::devices::hip {
namespace {

using testing::HasSubstr;

#define EXPECT_CODE(expr, want) EXPECT_EQ((expr).code(), absl::StatusCode::want)

constexpr char kAdder[] = R"(
define protected amdgpu_kernel void @k(ptr addrspace(1) %b0, i64 %var0, ptr addrspace(1) %stop) #0 {
  %x = load i32, ptr addrspace(1) %b0
  %n = trunc i64 %var0 to i32
  %y = add i32 %x, %n
  store i32 %y, ptr addrspace(1) %b0
  ret void
}
attributes #0 = { "amdgpu-no-implicitarg-ptr" "amdgpu-flat-work-group-size"="64,64" }
)";

uint16_t Half(const std::string& bytes, size_t at) {
  uint16_t out;
  std::memcpy(&out, bytes.data() + at, sizeof out);
  return out;
}

// A shared object of AMDGPU.
void ExpectCodeObject(const std::string& object, std::string_view processor) {
  constexpr uint16_t kSharedObject = 3, kAmdgpu = 224;
  ASSERT_GT(object.size(), 64u);
  EXPECT_EQ(object.substr(1, 3), "ELF");
  EXPECT_EQ(Half(object, 16), kSharedObject);
  EXPECT_EQ(Half(object, 18), kAmdgpu);
  EXPECT_THAT(object, HasSubstr("amdgcn-amd-amdhsa--" + std::string(processor)));
}

class AmdgpuCompilerTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (access(LldProgram().c_str(), X_OK) != 0) GTEST_SKIP() << "there is no LLD";
    compiler_ = AmdgpuCompiler::Create(LldProgram(), GetParam()).value();
  }
  std::shared_ptr<const AmdgpuCompiler> compiler_;
};

TEST_P(AmdgpuCompilerTest, TheObjectHasTheKernelAndItsDescription) {
  const std::string object = compiler_->Compile(kAdder).value();
  ExpectCodeObject(object, GetParam());
  EXPECT_THAT(object, HasSubstr("k.kd"));
  // 24 bytes of arguments: nothing is passed but what the kernel names.
  EXPECT_THAT(object, HasSubstr(".kernarg_segment_size\x18"));
  EXPECT_EQ(compiler_->Compile(kAdder).value(), object);
  EXPECT_THAT(compiler_->toolchain(), HasSubstr(";arch=" + std::string(GetParam()) + ";"));
}

TEST_P(AmdgpuCompilerTest, CompilesWhatTheRendererWrites) {
  Target target = *GpuTarget(GetParam());
  target.format = CodeFormat::kAmdgpuIr;
  const render::Renderer* renderer = render::RendererFor(target.format).value();
  for (const bool matrix : {false, true}) {
    ir::UOpContext ctx;
    const ir::UOp kernel = tests::WideningMatmulKernel(
        ctx, 64, 48, 128, false, true, ir::Dtype::BF16, ir::Dtype::BF16, ir::Dtype::F32);
    const std::vector<codegen::Opt> opts = {{codegen::OptKind::kTensorCore, 2, 0},
                                            {codegen::OptKind::kLocal, 1, 2}};
    codegen::Options options;
    if (matrix) options.opts = &opts;
    const auto lowered = codegen::Lower(ctx, kernel, target, options).value();
    const std::string text = renderer
                                 ->render({ctx, lowered.linear, lowered.name, lowered.variables,
                                           target, lowered.buffers.size()})
                                 .value();
    const auto object = compiler_->Compile(text);
    ASSERT_TRUE(object.ok()) << object.status();
    ExpectCodeObject(*object, GetParam());
    EXPECT_THAT(*object, HasSubstr(lowered.name + ".kd"));
  }
}

INSTANTIATE_TEST_SUITE_P(All, AmdgpuCompilerTest,
                         testing::Values("gfx90a", "gfx942", "gfx1100", "gfx1201"),
                         [](const auto& info) { return std::string(info.param); });

class AmdgpuErrorsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (access(LldProgram().c_str(), X_OK) != 0) GTEST_SKIP() << "there is no LLD";
    compiler_ = AmdgpuCompiler::Create(LldProgram(), "gfx942").value();
  }
  std::shared_ptr<const AmdgpuCompiler> compiler_;
};

TEST_F(AmdgpuErrorsTest, SaysWhatIsWrongWithAText) {
  const absl::Status wrong = compiler_->Compile("define what\n").status();
  EXPECT_CODE(wrong, kInternal);
  EXPECT_THAT(StatusText(wrong), HasSubstr("line 1"));
  EXPECT_THAT(StatusText(wrong), HasSubstr("define what"));
  EXPECT_CODE(compiler_->Compile("").status(), kInternal);
  // The linker finds what is missing.
  const absl::Status missing =
      compiler_
          ->Compile(
              "declare void @absent()\ndefine protected amdgpu_kernel void @k() {\n"
              "  call void @absent()\n  ret void\n}\n")
          .status();
  EXPECT_CODE(missing, kInternal);
  EXPECT_THAT(StatusText(missing), HasSubstr("absent"));
  // More shared memory than a block can have.
  const absl::Status large = compiler_
                                 ->Compile(
                                     "@s = internal addrspace(3) global [99999 x i32] undef\n"
                                     "define protected amdgpu_kernel void @k(i32 %i) {\n"
                                     "  %p = getelementptr i32, ptr addrspace(3) @s, i32 %i\n"
                                     "  store volatile i32 1, ptr addrspace(3) %p\n  ret void\n}\n")
                                 .status();
  EXPECT_CODE(large, kInternal);
  EXPECT_THAT(StatusText(large), HasSubstr("local memory"));
}

TEST_F(AmdgpuErrorsTest, FindsTheCompilerOfAToolchain) {
  const std::string& toolchain = compiler_->toolchain();
  EXPECT_THAT(toolchain, testing::StartsWith(AmdgpuCompiler::kToolchainPrefix));
  EXPECT_EQ(AmdgpuCompiler::OfToolchain(LldProgram(), toolchain).value()->toolchain(), toolchain);
  EXPECT_CODE(
      AmdgpuCompiler::OfToolchain(LldProgram(), "amdgpu-llvm-3;LLD 3;arch=gfx942;O2").status(),
      kFailedPrecondition);
  EXPECT_CODE(AmdgpuCompiler::OfToolchain(LldProgram(), "amdgpu-llvm-19").status(),
              kInvalidArgument);
  EXPECT_CODE(AmdgpuCompiler::Create(LldProgram(), "gfx1").status(), kUnavailable);
  EXPECT_CODE(AmdgpuCompiler::Create("/nowhere/ld.lld", "gfx942").status(), kUnavailable);
  EXPECT_CODE(AmdgpuCompiler::Create("/bin/false", "gfx942").status(), kUnavailable);
}

// As workers do it, which open no device.
TEST_F(AmdgpuErrorsTest, TheRegistryFindsItWithoutADevice) {
  const auto registry = Registry::Create({.devices = "AMD:0"}).value();
  const auto found = registry->CompilerFor("AMD:0", compiler_->toolchain());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->Compile(kAdder).value(), compiler_->Compile(kAdder).value());
  EXPECT_CODE(registry->CompilerFor("AMD:0", "amdgpu-llvm-3;LLD 3;arch=gfx942;O2").status(),
              kFailedPrecondition);
}

}  // namespace
}  // namespace uopd::devices::hip
