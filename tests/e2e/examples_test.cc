// SPDX-License-Identifier: MIT
// The programs that README.md and docs/protocol.md show print what these pages say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "core/base/text.h"
#include "tests/e2e/daemon_process.h"

namespace uopd::e2e {
namespace {

using ::testing::HasSubstr;

class ExamplesTest : public ::testing::Test {
 protected:
  // What the program prints when it gets the daemon's address.
  std::string Run(const std::string& program) {
    FILE* pipe = popen(Cat(program, " ", daemon_.listen(), " 2>&1").c_str(), "r");
    EXPECT_NE(pipe, nullptr);
    if (pipe == nullptr) return "";
    std::string out;
    char buffer[4096];
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
    EXPECT_EQ(pclose(pipe), 0) << out;
    return out;
  }
  static std::string Page(const std::string& path) {
    std::stringstream out;
    out << std::ifstream(Cat(UOPD_SOURCE_DIR, "/", path)).rdbuf();
    return out.str();
  }

  TemporaryFolder folder_;
  DaemonProcess daemon_{folder_.path()};
};

TEST_F(ExamplesTest, ThePythonClientOfTheProtocol) {
  const std::string out = Run(Cat(UOPD_SOURCE_DIR, "/docs/examples/client.py"));
  EXPECT_THAT(out, HasSubstr("(1, 2, 3, 4) -> (2.0, 4.0, 6.0, 8.0)"));
  EXPECT_THAT(Page("docs/protocol.md"), HasSubstr(out));
}

TEST_F(ExamplesTest, TheClientOfTheReadme) {
  const std::string out = Run(HELLO_BINARY);
  EXPECT_THAT(out, HasSubstr("4.3670 "));  // sqrt(e) + e
  EXPECT_THAT(Page("README.md"), HasSubstr(out));
}

TEST_F(ExamplesTest, TheRatesOfTheDaemon) {
  EXPECT_THAT(Run(Cat(RATES_BINARY)), HasSubstr("512 x 512: "));
}

}  // namespace
}  // namespace uopd::e2e
