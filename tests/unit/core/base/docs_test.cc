// SPDX-License-Identifier: MIT
// docs/operations.md shows the tables of settings and metrics as they are. UOPD_ACCEPT=1 writes
// them anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "core/base/config.h"
#include "core/base/metrics.h"

namespace uopd {
namespace {

std::string PagePath() {
  std::string file = __FILE__;
  return file.substr(0, file.rfind("tests/unit/")) + "docs/operations.md";
}

void ExpectGenerated(const std::string& name, const std::string& expected) {
  std::ifstream in(PagePath());
  ASSERT_TRUE(in) << PagePath();
  std::stringstream stream;
  stream << in.rdbuf();
  std::string page = stream.str();

  const std::string open = "<!-- generated: " + name + " -->\n";
  const size_t begin = page.find(open);
  ASSERT_NE(begin, std::string::npos) << open;
  const size_t end = page.find("<!-- end -->", begin);
  ASSERT_NE(end, std::string::npos);
  const size_t from = begin + open.size();
  if (std::getenv("UOPD_ACCEPT")) {
    std::ofstream(PagePath()) << page.replace(from, end - from, expected);
  } else {
    EXPECT_EQ(page.substr(from, end - from), expected) << "UOPD_ACCEPT=1 writes it anew";
  }
}

TEST(Docs, SettingsAreCurrent) { ExpectGenerated("settings", ConfigDocs()); }
TEST(Docs, MetricsAreCurrent) { ExpectGenerated("metrics", MetricsDocs()); }

}  // namespace
}  // namespace uopd
