// SPDX-License-Identifier: MIT
// docs/operations/settings.md and docs/monitoring.md show the tables of settings and metrics as
// they are.
#include <gtest/gtest.h>

#include "core/base/config/config.h"
#include "core/base/telemetry/metrics.h"
#include "tests/support/generated_section.h"

namespace uopd {
namespace {

TEST(Docs, SettingsAreCurrent) {
  test::ExpectGenerated("operations/settings.md", "settings", ConfigDocs());
}
TEST(Docs, MetricsAreCurrent) { test::ExpectGenerated("monitoring.md", "metrics", MetricsDocs()); }

// Each limit is in the table that says what it is for.
TEST(Docs, LimitsAreExplained) {
  const std::string page = test::ReadDoc("security.md");
  size_t limits = 0;
  for (const SettingSpec& setting : Settings()) {
    if (!setting.key.starts_with("limits.")) continue;
    ++limits;
    EXPECT_NE(page.find("\n| `" + std::string(setting.key) + "` |"), std::string::npos)
        << setting.key;
  }
  EXPECT_GT(limits, 5U);
}

}  // namespace
}  // namespace uopd
