// SPDX-License-Identifier: MIT
#include "server/engine/base/code_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/text.h"
#include "core/codegen/codegen.h"
#include "core/render/renderer.h"

namespace uopd::engine {
namespace {

using testing::HasSubstr;

TEST(CodeKeyTest, NamesEveryVersionThatDecidesTheText) {
  const Target target;  // LLVM IR
  const std::string key = CodeEnvironment(target);
  EXPECT_THAT(key, HasSubstr(Cat("codegen=", codegen::kCodegenVersion)));
  EXPECT_THAT(key, HasSubstr((*render::RendererFor(target.format))->Key()));
  EXPECT_THAT(key, HasSubstr(target.Key()));
}

TEST(CodeKeyTest, EveryFactAboutTheDeviceMakesAnotherKey) {
  const std::string key = CodeEnvironment({});
  EXPECT_EQ(CodeEnvironment({}), key);
  Target target;
  target.toolchain = "llvm-20";
  EXPECT_NE(CodeEnvironment(target), key);
  target = {};
  target.threads = 2;
  EXPECT_NE(CodeEnvironment(target), key);
  target = {};
  target.matrix_instructions = {{.name = "m", .m = 1, .n = 1, .k = 2}};
  EXPECT_NE(CodeEnvironment(target), key);
}

TEST(CodeKeyTest, AnObjectDependsOnInstructionsAndToolchainOnly) {
  const std::string key = ObjectEnvironment({});
  Target target;
  target.threads = 64;
  target.caches = {};
  target.private_bytes = 1;
  EXPECT_EQ(ObjectEnvironment(target), key);
  target = {};
  target.features = "+avx512f";
  EXPECT_NE(ObjectEnvironment(target), key);
  target = {};
  target.toolchain = "llvm-20";
  EXPECT_NE(ObjectEnvironment(target), key);
  target = {};
  target.arch = "aarch64";
  EXPECT_NE(ObjectEnvironment(target), key);
}

TEST(CodeKeyTest, FeaturesStandInTheKeyOnce) {
  Target target;
  target.toolchain = "llvm;features=+avx,+fma";
  target.features = "+avx,+fma";
  const std::string key = ObjectEnvironment(target);
  EXPECT_EQ(key.find("+fma"), key.rfind("+fma"));
  target.features = "+fma";  // the toolchain ends with it as well, but names more
  EXPECT_NE(ObjectEnvironment(target), key);
  target.features = "+avx";
  EXPECT_NE(ObjectEnvironment(target), key);
}

TEST(CodeKeyTest, AnotherFormatHasAnotherRenderer) {
  Target c;
  c.format = CodeFormat::kC;
  const auto renderer = render::RendererFor(CodeFormat::kC);
  EXPECT_THAT(CodeEnvironment(c), HasSubstr((*renderer)->Key()));
}

// A device that takes no text has a key all the same: what it loads is cached, too.
TEST(CodeKeyTest, AFormatWithoutRendererIsNamedAsSuch) {
  Target target;
  target.format = CodeFormat::kObject;
  EXPECT_THAT(CodeEnvironment(target), HasSubstr("no_renderer"));
}

}  // namespace
}  // namespace uopd::engine
