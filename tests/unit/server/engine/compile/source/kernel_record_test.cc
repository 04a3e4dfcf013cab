// SPDX-License-Identifier: MIT
#include "server/engine/compile/source/kernel_record.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"

namespace uopd::engine {
namespace {

KernelRecord Example() {
  KernelRecord out;
  out.name = "r_16";
  out.object = std::string("\0obj", 4);
  out.buffers = {{ir::Dtype::F32, 16, false, true}, {ir::Dtype::I8, 3, true, false}};
  out.variables = {"n", "start"};
  out.launch.grid[0] = 4;
  out.launch.block[2] = 7;
  out.launch.shared_bytes = 99;
  out.opts = {{codegen::OptKind::kUpcast, 1, 4}, {codegen::OptKind::kPack, 0, 0}};
  out.flops = 1.5e9;
  out.bytes = 64;
  out.estimate_ns = 3e7;
  out.dtype = DtypeNumber::BF16;
  out.polls = true;
  return out;
}

TEST(KernelRecordTest, ComesBackAsItWas) {
  const auto back = KernelRecord::Decode(Example().Encode());
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->Encode(), Example().Encode());
  EXPECT_EQ(back->object, Example().object);
  EXPECT_EQ(back->buffers[1].dtype, ir::Dtype::I8);
  EXPECT_TRUE(back->buffers[0].written);
  EXPECT_FALSE(back->buffers[0].read);
  EXPECT_EQ(back->launch, Example().launch);
  EXPECT_EQ(back->flops, 1.5e9);
  EXPECT_EQ(back->estimate_ns, 3e7);
  EXPECT_EQ(back->opts, Example().opts);
  EXPECT_EQ(back->dtype, DtypeNumber::BF16);
  EXPECT_TRUE(back->polls);
}

// What version 6 of the encoding (kKernelRecordVersion) writes. Caches of earlier daemons hold such
// bytes.
TEST(KernelRecordTest, TheBytesOfCachesStay) {
  KernelRecord record = Example();
  record.opts.push_back({codegen::OptKind::kPipeline, 2, 4, 1});
  const std::string bytes = absl::HexStringToBytes(
      "04725f313604006f626a020f200203060102016e05737461727400080002000200020002000ec6010003000208"
      "04000010041c80808080bcc196eb4180808080808080a840808080808087a7be410e01");
  EXPECT_EQ(absl::BytesToHexString(record.Encode()), absl::BytesToHexString(bytes));
  const auto back = KernelRecord::Decode(bytes);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->opts, record.opts);
}

TEST(KernelRecordTest, AnOptOfALaterVersionIsNoDamage) {
  std::string bytes = Example().Encode();
  // Two opts. The first one has the numbers 0, 1 and 4: UPCAST(1, 4).
  const size_t at = bytes.find(std::string("\2\0\2\x8\4", 5));
  ASSERT_NE(at, std::string::npos);
  bytes[at + 1] = 99;
  const absl::Status status = KernelRecord::Decode(bytes).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(absl::IsDataLoss(KernelRecord::Decode(bytes + "x").status()));
  EXPECT_TRUE(absl::IsDataLoss(KernelRecord::Decode(bytes.substr(0, at + 9)).status()));
}

TEST(KernelRecordTest, DamagedBytesAreRefused) {
  const std::string bytes = Example().Encode();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(KernelRecord::Decode(bytes.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(KernelRecord::Decode(bytes + "x").ok());
}

}  // namespace
}  // namespace uopd::engine
