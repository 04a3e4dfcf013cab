// SPDX-License-Identifier: MIT
// Mutated GGUF files: each is an error, or a header whose tensors and values lie within the file,
// and reading it takes memory in proportion to its bytes.
#include <gtest/gtest.h>

#include "core/base/text.h"
#include "tests/fuzz/gguf_check.h"
#include "tests/fuzz/gguf_seeds.h"
#include "tests/fuzz/memory_meter.h"
#include "tests/support/environment.h"

namespace uopd {
namespace {

using client::GgufType;

// What messages and small lists take besides.
constexpr double kMostOfSmallFiles = 4096;

// The most memory that ParseGguf takes for a file that begins with `start`.
double PeakOf(const std::string& start, uint64_t file_bytes) {
  const test::MemoryMeter memory;
  const auto header = client::ParseGguf(start, file_bytes);
  return memory.peak();
}
double PeakOf(const std::string& file) { return PeakOf(file, file.size()); }

TEST(GgufFuzz, MutatedFilesGiveErrorsOrHeadersWithinTheFile) {
#ifdef UOPD_SANITIZED
  constexpr int kUsual = 20'000;
#else
  constexpr int kUsual = 100'000;
#endif
  const int64_t rounds = test::FromEnvironment("UOPD_FUZZ_FILES", kUsual);
  std::mt19937_64 random(11);
  std::vector<test::GgufSeed> seeds;
  while (seeds.size() < 200) {
    seeds.push_back(test::RandomGguf(random));
    const auto& [head, data] = seeds.back();
    const test::GgufVerdict verdict = test::CheckGguf(head.bytes, head.bytes.size() + data);
    ASSERT_TRUE(verdict.accepted && verdict.wrong.empty())
        << "seed " << seeds.size() << ": " << verdict.wrong
        << client::ParseGguf(head.bytes, head.bytes.size() + data).status();
  }
  int64_t accepted = 0;
  for (int64_t round = 0; round < rounds; ++round) {
    test::GgufSeed file = seeds[random() % seeds.size()];
    test::MutateGguf(file, random);
    std::string& bytes = file.head.bytes;
    const uint64_t file_bytes = bytes.size() + file.data;
    const auto most = [&bytes] {
      return static_cast<double>(client::kGgufMemoryFactor * bytes.size()) + kMostOfSmallFiles;
    };
    const test::GgufVerdict alone = test::CheckGguf(bytes, file_bytes);
    ASSERT_EQ(alone.wrong, "") << "round " << round;
    ASSERT_LE(PeakOf(bytes, file_bytes), most()) << "round " << round;
    bytes.resize(file_bytes);
    const test::GgufVerdict whole = test::CheckGguf(bytes, file_bytes);
    ASSERT_EQ(whole.wrong, "") << "round " << round;
    // A header that was cut off may be accepted with more bytes; none is refused for them.
    ASSERT_LE(alone.accepted, whole.accepted) << "round " << round;
    accepted += whole.accepted ? 1 : 0;
    ASSERT_LE(PeakOf(bytes), most()) << "round " << round;
  }
  EXPECT_GT(accepted, rounds / 50);
  EXPECT_LT(accepted, rounds / 2);
}

// Headers of a megabyte whose parts are as small as they can be.
TEST(GgufFuzz, MemoryIsBoundedByTheHeader) {
  constexpr uint64_t kCount = 40'000;
  const auto check = [](const std::string& what, const std::string& head) {
    const double peak = PeakOf(head);
    EXPECT_LE(peak, static_cast<double>(client::kGgufMemoryFactor * head.size())) << what;
#ifndef UOPD_SANITIZED
    EXPECT_GT(peak, 0) << what;  // the meter counts
#endif
  };
  test::GgufBytes values;
  values.Start(0, kCount);
  for (uint64_t i = 0; i < kCount; ++i) {
    const auto key = static_cast<uint16_t>(i);
    values.Key({reinterpret_cast<const char*>(&key), 2}, GgufType::kUint8).Element(uint8_t{1});
  }
  ASSERT_TRUE(client::ParseGguf(values.bytes, values.bytes.size()).ok());
  check("values", values.bytes);
  for (const size_t axes : {0, 6, 7, 8}) {
    test::GgufBytes tensors;
    tensors.Start(kCount, 0);
    for (uint64_t i = 0; i < kCount; ++i) {
      const auto name = static_cast<uint16_t>(i);
      tensors.Tensor({reinterpret_cast<const char*>(&name), 2}, std::vector<uint64_t>(axes), 24,
                     axes == 0 ? 32 * i : 0);
    }
    check(Cat("tensors with ", axes, " axes"), tensors.bytes);
  }
  // Counts that fit into the file by a hair, in front of parts that are wrong.
  test::GgufBytes counts;
  counts.Start(0, 1'000'000 / 13).bytes.resize(1'000'024, '\xff');
  check("only counts of values", counts.bytes);
  test::GgufBytes both;
  both.Start(500'000 / 24, 500'000 / 13).bytes.resize(1'000'024, '\xff');
  check("only counts", both.bytes);
  // The file may have that many, and the part of it that is given has not.
  for (const auto& [tensors, many] : {std::pair(0, 7'000'000), std::pair(4'000'000, 0)}) {
    test::GgufBytes few;
    few.Start(tensors, many);
    EXPECT_LE(PeakOf(few.bytes, uint64_t{1} << 40), kMostOfSmallFiles);
  }
  // Arrays are not copied.
  test::GgufBytes strings;
  strings.Start(0, 1).Key("tokens", GgufType::kArray).Array(GgufType::kString, kCount);
  for (uint64_t i = 0; i < kCount; ++i) strings.Text("");
  ASSERT_LE(PeakOf(strings.bytes), kMostOfSmallFiles);
}

}  // namespace
}  // namespace uopd
