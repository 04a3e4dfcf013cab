// SPDX-License-Identifier: MIT
#include "core/rewrite/rewrite_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace uopd::rewrite {
namespace {

std::string Contents(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

int64_t OpenFiles() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

// A Rewriter may outlive the recording: what it writes then goes nowhere.
TEST(RewriteTraceTest, AClosedFileTakesNoLines) {
  const std::string path = ::testing::TempDir() + "/rewrite_trace_test.jsonl";
  const int64_t open_before = OpenFiles();
  for (const bool replaced : {false, true}) {
    ASSERT_TRUE(TraceFile::Open(path).ok());
    TraceFile* const file = TraceFile::MaybeGet();
    file->Write("one\n");
    EXPECT_EQ(OpenFiles(), open_before + 1);
    if (replaced) {
      ASSERT_TRUE(TraceFile::Open(path + "2").ok());
    } else {
      TraceFile::Close();
    }
    file->Write("two\n");
    EXPECT_EQ(Contents(path), "one\n");
    TraceFile::Close();
    EXPECT_EQ(TraceFile::MaybeGet(), nullptr);
    EXPECT_EQ(OpenFiles(), open_before);
  }
  std::filesystem::remove(path);
  std::filesystem::remove(path + "2");
}

}  // namespace
}  // namespace uopd::rewrite
