// SPDX-License-Identifier: MIT
#include "core/render/renderer.h"

#include <gtest/gtest.h>

#include <set>

namespace uopd::render {
namespace {

TEST(RendererTest, EveryTextFormatHasOne) {
  std::set<std::string> keys;
  for (CodeFormat format : {CodeFormat::kLlvmIr, CodeFormat::kC, CodeFormat::kOpenClC,
                            CodeFormat::kCudaC, CodeFormat::kHipC, CodeFormat::kAmdgpuIr,
                            CodeFormat::kMetal, CodeFormat::kLinear, CodeFormat::kPtx}) {
    const auto found = RendererFor(format);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ((*found)->format, format);
    EXPECT_TRUE(keys.insert((*found)->Key()).second) << (*found)->Key();
  }
}

TEST(RendererTest, OthersAreUnimplemented) {
  for (CodeFormat format : {CodeFormat::kObject, static_cast<CodeFormat>(200)}) {
    EXPECT_EQ(RendererFor(format).status().code(), absl::StatusCode::kUnimplemented);
  }
}

}  // namespace
}  // namespace uopd::render
