// SPDX-License-Identifier: MIT
#include "server/engine/base/compile_options.h"

#include <gtest/gtest.h>

namespace uopd::engine {
namespace {

TEST(CompileOptionsTest, TextHasAllOfThem) {
  EXPECT_EQ(CompileOptions().Text(),
            "noopt=0 fast_math=0 allow_bf16=0 allow_f16=0 allow_tf32=0 reproducible=0 beam=0 "
            "ignore_beam_cache=0 "
            "cache_level=2");
  const CompileOptions options{.noopt = true,
                               .fast_math = true,
                               .allow_bf16 = true,
                               .allow_tf32 = true,
                               .reproducible = true,
                               .beam = 4,
                               .ignore_beam_cache = true,
                               .cache_level = 1};
  EXPECT_EQ(options.Text(),
            "noopt=1 fast_math=1 allow_bf16=1 allow_f16=0 allow_tf32=1 reproducible=1 beam=4 "
            "ignore_beam_cache=1 "
            "cache_level=1");
}

// Part of keys: what decides no code must not be in it.
TEST(CompileOptionsTest, KernelTextHasThoseThatDecideCode) {
  const CompileOptions options{.allow_bf16 = true,
                               .allow_tf32 = true,
                               .reproducible = true,
                               .beam = 4,
                               .ignore_beam_cache = true,
                               .cache_level = 0};
  EXPECT_EQ(options.KernelText(), "noopt=0 fast_math=0");
  EXPECT_EQ((CompileOptions{.noopt = true}).KernelText(), "noopt=1 fast_math=0");
  EXPECT_EQ((CompileOptions{.fast_math = true}).KernelText(), "noopt=0 fast_math=1");
}

TEST(CompileOptionsTest, AllowedProductsAreThoseOfThePermissions) {
  using enum DtypeNumber;
  EXPECT_EQ(CompileOptions().allowed_products(), DtypeNumberSet());
  EXPECT_EQ((CompileOptions{.allow_tf32 = true}).allowed_products(), DtypeNumberSet{TF32});
  EXPECT_EQ((CompileOptions{.allow_bf16 = true, .allow_f16 = true, .allow_tf32 = true})
                .allowed_products(),
            (DtypeNumberSet{BF16, F16, TF32}));
}

TEST(CompileOptionsTest, CacheLevels) {
  EXPECT_FALSE((CompileOptions{.cache_level = 0}).caches_tuning());
  EXPECT_TRUE((CompileOptions{.cache_level = 1}).caches_tuning());
  EXPECT_FALSE((CompileOptions{.cache_level = 1}).caches_compiles());
  EXPECT_TRUE((CompileOptions{.cache_level = 2}).caches_compiles());
}

}  // namespace
}  // namespace uopd::engine
