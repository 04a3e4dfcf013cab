// SPDX-License-Identifier: MIT
// The compiler of PTX that is a program of its own.
#include "devices/cuda/ptxc_compiler.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/unit/devices/cuda/cuda_fixture.h"

namespace uopd::devices::cuda {
namespace {

using testing::HasSubstr;

// A script in place of the program: its cubin is the mark of an ELF file and the text.
class PtxcTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    program_ = testing::TempDir() + "/uopd-ptxc." + std::to_string(getpid());
    Write(R"py(
import os, signal, struct, sys
if sys.argv[1] == "--version":
  print("13.5", end="")
  sys.exit()
while size := sys.stdin.buffer.read(8):
  text = sys.stdin.buffer.read(struct.unpack("=Q", size)[0])
  if b"end" in text: break
  if b"crash" in text: os.kill(os.getpid(), signal.SIGABRT)
  if b"kill" in text: os.kill(os.getpid(), signal.SIGKILL)
  if b"first" in text and not os.path.exists(sys.argv[0] + ".crashed"):
    open(sys.argv[0] + ".crashed", "w").close()
    os.kill(os.getpid(), signal.SIGABRT)
  wrong = b"error" in text
  answer = b"line 1: what? (%s)" % sys.argv[1].encode() if wrong else b"\x7fELF" + text
  sys.stdout.buffer.write(struct.pack("=IQ", wrong, len(answer)) + answer)
  sys.stdout.buffer.flush()
)py");
  }
  void TearDown() override {
    CudaTest::TearDown();
    std::filesystem::remove(program_);
  }
  void Write(const std::string& script) {
    std::ofstream(program_) << "#!/usr/bin/python3\n" << script;
    std::filesystem::permissions(program_, std::filesystem::perms::owner_all);
  }
  std::string program_;
};

TEST_F(PtxcTest, Compiles) {
  const auto compiler = PtxcCompiler::Create(program_, "sm_90").value();
  EXPECT_EQ(compiler->toolchain(), "ptxc-13.5;arch=sm_90;O3");
  EXPECT_EQ(compiler->Compile("text").value(), tests::FakeCuda::Cubin("text"));
  const absl::Status wrong = compiler->Compile("an error of mine").status();
  EXPECT_CODE(wrong, kInternal);
  EXPECT_THAT(StatusText(wrong), HasSubstr("line 1: what? (sm_90)"));
  EXPECT_THAT(StatusText(wrong), HasSubstr("an error of mine"));
  EXPECT_CODE(compiler->Compile("").status(), kInternal);
  EXPECT_CODE(compiler->Compile("the end").status(), kUnavailable);
  EXPECT_EQ(compiler->Compile("text").value(), tests::FakeCuda::Cubin("text"));
}

// A crash is blamed on the text if a program that has compiled nothing else crashes too.
TEST_F(PtxcTest, TellsWhichSignalATextEndsWith) {
  const auto compiler = PtxcCompiler::Create(program_, "sm_90").value();
  EXPECT_EQ(compiler->Compile("text").value(), tests::FakeCuda::Cubin("text"));
  const absl::Status crash = compiler->Compile("a crash").status();
  EXPECT_CODE(crash, kInternal);
  EXPECT_THAT(StatusText(crash), HasSubstr("status 134"));
  EXPECT_CODE(compiler->Compile("a kill").status(), kUnavailable);
  EXPECT_EQ(compiler->Compile("text").value(), tests::FakeCuda::Cubin("text"));
  EXPECT_EQ(compiler->Compile("the first").value(), tests::FakeCuda::Cubin("the first"));
  EXPECT_TRUE(std::filesystem::remove(program_ + ".crashed"));
}

TEST_F(PtxcTest, FindsTheCompilerOfAToolchain) {
  const std::string toolchain = "ptxc-13.5;arch=sm_80;O3";
  EXPECT_EQ(PtxcCompiler::OfToolchain(program_, toolchain).value()->toolchain(), toolchain);
  EXPECT_CODE(PtxcCompiler::OfToolchain(program_, "ptxc-12.0;arch=sm_80;O3").status(),
              kFailedPrecondition);
  EXPECT_CODE(PtxcCompiler::OfToolchain(program_, "ptxc-13.5").status(), kInvalidArgument);
  EXPECT_CODE(PtxcCompiler::OfToolchain("/nowhere/uopd-ptxc", toolchain).status(), kUnavailable);
  Write("raise SystemExit(1)\n");
  EXPECT_CODE(PtxcCompiler::Create(program_, "sm_90").status(), kUnavailable);
}

TEST_F(PtxcTest, TheDevicePrefersItToTheDriver) {
  CudaOptions options = Options();
  options.ptxc = program_;
  Open(options);
  EXPECT_EQ(device_->target().format, CodeFormat::kPtx);
  EXPECT_EQ(device_->target().toolchain, "ptxc-13.5;arch=sm_90;O3");
  auto kernel = Kernel("adder");
  auto buffer = Allocate(4);
  ASSERT_TRUE(stream_->Fill(*buffer, 0, 4, std::byte{0}).ok());
  ASSERT_TRUE(Launch(*stream_, *kernel, *buffer).ok());
  EXPECT_EQ(ReadInt(*buffer), 1);
  EXPECT_EQ(fake_->Calls("cuLinkCreate_v2"), 0);
}

// The program itself, where it was built.
TEST(RealPtxcTest, CompilesPtx) {
  const std::string program = PtxcProgram();
  const auto compiler = PtxcCompiler::Create(program, "sm_90");
  if (!compiler.ok()) GTEST_SKIP() << compiler.status();
  constexpr char kText[] =
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".visible .entry k(.param .u64 a) { ret; }\n";
  constexpr char kOther[] =
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".visible .entry other(.param .u64 a) {\n"
      "  .reg .b64 %q<2>;\n  .reg .b32 %r<2>;\n"
      "  ld.param.u64 %q0, [a];\n  cvta.to.global.u64 %q1, %q0;\n"
      "  mov.u32 %r0, %tid.x;\n  st.global.u32 [%q1], %r0;\n  ret;\n}\n";
  const std::string cubin = (*compiler)->Compile(kText).value();
  EXPECT_THAT(cubin, testing::StartsWith("\x7f"
                                         "ELF"));
  EXPECT_EQ((*compiler)->Compile(kText).value(), cubin);
  EXPECT_CODE((*compiler)->Compile("what").status(), kInternal);
  // What the program compiled before does not change the code.
  EXPECT_TRUE((*compiler)->Compile(kOther).ok());
  EXPECT_EQ((*compiler)->Compile(kText).value(), cubin);
  const auto fresh = PtxcCompiler::Create(program, "sm_90").value();
  EXPECT_EQ(fresh->Compile(kText).value(), cubin);
}

}  // namespace
}  // namespace uopd::devices::cuda
