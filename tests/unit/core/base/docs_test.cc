// SPDX-License-Identifier: MIT
// docs/operations.md shows the tables of settings and metrics as they are.
#include <gtest/gtest.h>

#include "core/base/config.h"
#include "core/base/metrics.h"
#include "tests/support/generated_section.h"

namespace uopd {
namespace {

TEST(Docs, SettingsAreCurrent) {
  testing::ExpectGenerated("operations.md", "settings", ConfigDocs());
}
TEST(Docs, MetricsAreCurrent) {
  testing::ExpectGenerated("operations.md", "metrics", MetricsDocs());
}

}  // namespace
}  // namespace uopd
