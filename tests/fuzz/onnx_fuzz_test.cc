// SPDX-License-Identifier: MIT
// Mutated ONNX files: each is an error, or a model that keeps its promises, from memory and from a
// file, and reading it takes memory in proportion to its bytes.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/text.h"
#include "core/base/unique_fd.h"
#include "tests/fuzz/memory_meter.h"
#include "tests/fuzz/onnx_check.h"
#include "tests/fuzz/onnx_seeds.h"
#include "tests/support/environment.h"
#include "uopd/onnx.h"

namespace uopd {
namespace {

// What messages and small lists take besides.
constexpr double kMostOfSmallModels = 8192;

// The most memory that ParseOnnx takes.
double PeakOf(const std::string& file) {
  const test::MemoryMeter memory;
  const auto model = client::ParseOnnx(file);
  return memory.peak();
}

// What OnnxFile says to a file with these bytes; "" if it accepts them.
std::string FromFile(const std::string& bytes) {
  const UniqueFd fd(memfd_create("onnx", MFD_CLOEXEC));
  EXPECT_EQ(write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  const std::string path = Cat("/proc/self/fd/", fd.get());
  const auto file = client::OnnxFile::Open(path);
  if (file.ok()) return "";
  std::string message = StatusText(file.status());
  const std::string frame = Cat(" (while reading ", path, ")");
  EXPECT_TRUE(message.ends_with(frame)) << message;
  message.resize(message.size() - frame.size());
  return message;
}

TEST(OnnxFuzz, MutatedFilesGiveErrorsOrModels) {
#ifdef UOPD_SANITIZED
  constexpr int kUsual = 20'000;
#else
  constexpr int kUsual = 100'000;
#endif
  const int64_t rounds = test::FromEnvironment("UOPD_FUZZ_FILES", kUsual);
  std::mt19937_64 random(11);
  std::vector<std::vector<test::WireTree>> seeds;
  while (seeds.size() < 300) {
    seeds.push_back(test::RandomOnnx(random));
    const test::OnnxVerdict verdict = test::CheckOnnx(test::Written(seeds.back()));
    ASSERT_TRUE(verdict.accepted && verdict.wrong.empty())
        << "seed " << seeds.size() << ": " << verdict.wrong << verdict.message;
  }
  int64_t accepted = 0;
  for (int64_t round = 0; round < rounds; ++round) {
    const std::string file = test::MutateOnnx(seeds[random() % seeds.size()], random);
    const test::OnnxVerdict verdict = test::CheckOnnx(file);
    ASSERT_EQ(verdict.wrong, "") << "round " << round;
    accepted += verdict.accepted ? 1 : 0;
    ASSERT_LE(PeakOf(file),
              static_cast<double>(client::kOnnxMemoryFactor * file.size()) + kMostOfSmallModels)
        << "round " << round;
    if (round % 8 == 0) {
      ASSERT_EQ(FromFile(file), verdict.message) << "round " << round;
    }
  }
  EXPECT_GT(accepted, rounds / 20);
  EXPECT_LT(accepted, rounds * 4 / 5);
}

// Models of many parts that are as small as they can be.
TEST(OnnxFuzz, MemoryIsBoundedByTheFile) {
  constexpr size_t kCount = 20'000;
  const auto check = [](std::string_view what, const std::string& file) {
    const double peak = PeakOf(file);
    EXPECT_LE(peak, static_cast<double>(client::kOnnxMemoryFactor * file.size())) << what;
#ifndef UOPD_SANITIZED
    EXPECT_GT(peak, 0) << what;  // the meter counts
#endif
  };
  const auto many = [](const test::WireTree& field) {
    return test::OnnxModelOf(std::vector<test::WireTree>(kCount, field));
  };
  check("nodes", many(test::OnnxNodeOf("A")));
  check("nodes with small lists",
        many(test::OnnxNodeOf("A", {test::Text(1, ""), test::Text(2, ""), test::Message(9, {})})));
  check("nodes with an attribute",
        many(test::OnnxNodeOf("A", {test::Message(5, {test::Text(1, "a"), test::Int(3, 0)})})));
  check("values", many(test::Message(12, {})));
  check("values with types",
        many(test::Message(12, {test::Message(2, {test::Message(4, {test::Message(1, {})})})})));
  check("entries", many(test::Message(16, {})));
  check("graphs", many(test::OnnxNodeOf(
                      "A", {test::Message(5, {test::Text(1, "a"), test::Message(6, {})})})));
  check(
      "shapes",
      many(test::Message(
          12, {test::Message(2, {test::Message(1, {test::Message(2, {test::Message(1, {})})})})})));
  std::vector<test::WireTree> tensors;
  for (size_t i = 0; i < kCount; ++i) {
    const auto name = static_cast<uint16_t>(i);
    tensors.push_back(test::Message(5, {test::Int(1, 0), test::Int(2, 1),
                                        test::Text(8, {reinterpret_cast<const char*>(&name), 2})}));
  }
  check("tensors", test::OnnxModelOf(tensors));
  std::vector<test::WireTree> parts;
  for (size_t i = 0; i < kCount; ++i) parts.push_back(test::PackedInts(5, {1}));
  check("parts of contents", test::OnnxModelOf({test::OnnxInitializer("w", {kCount}, 3, parts)}));
  check("numbers", test::OnnxModelOfAttribute({test::PackedInts(8, std::vector<int64_t>(kCount))}));
  check("strings", test::OnnxModelOfAttribute(std::vector(kCount, test::Text(9, ""))));
}

// Contents are not copied.
TEST(OnnxFuzz, ContentsTakeNoMemory) {
  const std::string raw(10'000'000, 'x');
  const std::string file =
      test::OnnxModelOf({test::OnnxInitializer("w", {10'000'000}, 3, {test::Text(9, raw)}),
                         test::OnnxInitializer("v", {10'000'000}, 3,
                                               {test::Text(5, std::string(10'000'000, '\1'))})});
  ASSERT_TRUE(client::ParseOnnx(file).ok());
  EXPECT_LE(PeakOf(file), kMostOfSmallModels);
}

}  // namespace
}  // namespace uopd
