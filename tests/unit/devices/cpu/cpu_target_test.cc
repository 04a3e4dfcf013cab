// SPDX-License-Identifier: MIT
#include "devices/cpu/cpu_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace uopd::devices::cpu {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

CpuTarget X86(const std::string& features) {
  CpuTarget target;
  target.arch = "x86_64";
  target.features = features;
  return target;
}

std::vector<std::string> MatrixNames(const std::string& features) {
  std::vector<std::string> out;
  for (const auto& i : Describe(X86(features), 1).matrix_instructions) out.push_back(i.name);
  return out;
}

// Features are whole words: "+fma4" is an instruction set that few processors ever had.
TEST(CpuTargetTest, AFeatureIsAWholeWord) {
  EXPECT_FALSE(Describe(X86("+avx,+fma4"), 1).has_fma);
  EXPECT_TRUE(Describe(X86("+fma,+fma4"), 1).has_fma);
  EXPECT_EQ(Describe(X86("+avx2"), 1).vector_registers, 16);
  EXPECT_EQ(Describe(X86("+avx512f"), 1).vector_registers, 32);
  EXPECT_EQ(Describe(X86("+avx2,+avx512fp16"), 1).vector_registers, 16);
}

TEST(CpuTargetTest, ListsMatrixInstructions) {
  EXPECT_THAT(MatrixNames("+avx2,+fma"), IsEmpty());
  EXPECT_THAT(MatrixNames("+avx512bf16,+avx512f"), ElementsAre("avx512_bf16"));
  EXPECT_THAT(MatrixNames("+amx-bf16,+amx-int8,+amx-tile,+avx512bf16,+avx512f,+avx512vnni"),
              ElementsAre("amx_bf16", "amx_int8", "avx512_bf16", "avx512_vnni"));
  EXPECT_THAT(MatrixNames("+amx-bf16,+amx-fp16,+amx-tile,+avx512bf16,+avx512f,+avx512fp16"),
              ElementsAre("amx_bf16", "amx_f16", "avx512_bf16"));
}

TEST(CpuTargetTest, KeepsThreadsAndToolchain) {
  const CpuTarget cpu = MakeCpuTarget("");
  const Target target = Describe(cpu, 7);
  EXPECT_EQ(target.threads, 7);
  EXPECT_EQ(target.toolchain, cpu.Toolchain());
  EXPECT_EQ(target.format, CodeFormat::kLlvmIr);
  EXPECT_EQ(target.warp_lanes, 1);
}

class CpuCachesTest : public ::testing::Test {
 protected:
  CpuCachesTest() {
    std::string folder = ::testing::TempDir() + "caches-XXXXXX";
    root_ = mkdtemp(folder.data());
  }
  ~CpuCachesTest() override { std::filesystem::remove_all(root_); }

  void Add(int index, std::string_view level, std::string_view type, std::string_view size,
           std::string_view map) {
    const std::string folder = root_ + "/index" + std::to_string(index);
    std::filesystem::create_directory(folder);
    std::ofstream(folder + "/level") << level << "\n";
    std::ofstream(folder + "/type") << type << "\n";
    std::ofstream(folder + "/size") << size << "\n";
    std::ofstream(folder + "/shared_cpu_map") << map << "\n";
  }

  std::string root_;
};

TEST_F(CpuCachesTest, ReadsWhatLinuxShows) {
  Add(0, "1", "Data", "48K", "00000000,00000101");
  Add(1, "1", "Instruction", "32K", "00000000,00000101");
  Add(2, "2", "Unified", "2048K", "101");
  Add(3, "3", "Unified", "33M", "ffff,ffffffff");
  EXPECT_THAT(ReadCaches(root_), ElementsAre(CacheLevel{48 << 10, 2}, CacheLevel{2 << 20, 2},
                                             CacheLevel{int64_t{33} << 20, 48}));
}

TEST_F(CpuCachesTest, LeavesOutWhatIsNotASize) {
  EXPECT_THAT(ReadCaches(root_), IsEmpty());
  EXPECT_THAT(ReadCaches(root_ + "/nowhere"), IsEmpty());
  Add(0, "1", "Data", "", "1");
  Add(1, "x", "Data", "32K", "1");
  Add(2, "2", "Unified", "-5K", "1");
  Add(3, "3", "Unified", "99999999999999999999M", "1");
  Add(4, "4", "Unified", "64M", "");
  EXPECT_THAT(ReadCaches(root_), ElementsAre(CacheLevel{64 << 20, 1}));
}

}  // namespace
}  // namespace uopd::devices::cpu
