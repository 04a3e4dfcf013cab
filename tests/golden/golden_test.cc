// SPDX-License-Identifier: MIT
// Golden tests: every *.test file below tests/golden is a list of cases
//
//   # name: what it shows
//   # run: STEPS             (core/tools/run_text.h)
//   ... IR ...
//   ----
//   ... output, or `error: message` ...
//   ====                     (between cases)
//
// With `# unchanged` below `# run:`, and without an output, the last step must change nothing.
//
// UOPD_ACCEPT=1 rewrites the outputs; the diff is what to review.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "core/codegen/pass_table.h"
#include "core/tools/run_text.h"

namespace uopd {
namespace {

struct Case {
  std::string name, steps, header, input, want;
  bool unchanged = false;

  std::string Run(const std::string& these) const {
    const auto out = tools::RunText(these, input);
    return out.ok() ? *out : "error: " + StatusText(out.status()) + "\n";
  }
};

std::vector<Case> ReadCases(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::vector<Case> cases(1);
  bool output = false;
  for (std::string line; std::getline(in, line);) {
    Case& c = cases.back();
    if (line == "====") {
      cases.emplace_back(), output = false;
    } else if (line == "----") {
      output = true;
    } else if (output) {
      c.want += line + "\n";
    } else if (line.starts_with("#")) {
      c.header += line + "\n";
      if (line.starts_with("# name: ")) c.name = line.substr(8);
      if (line.starts_with("# run: ")) c.steps = line.substr(7);
      c.unchanged |= line == "# unchanged";
    } else {
      c.input += line + "\n";
    }
  }
  return cases;
}

class GoldenTest : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(GoldenTest, OutputIsAsRecorded) {
  const bool accept = std::getenv("UOPD_ACCEPT") != nullptr;
  std::vector<Case> cases = ReadCases(GetParam());
  for (Case& c : cases) {
    ASSERT_FALSE(c.name.empty() || c.steps.empty())
        << GetParam() << ": a case lacks `# name:` or `# run:`";
    std::string got = c.Run(c.steps);
    std::string want = c.want;
    if (c.unchanged) {
      const size_t comma = c.steps.rfind(',');
      want = c.Run(comma == std::string::npos ? "" : c.steps.substr(0, comma));
      // Notes of passes are no part of the graph.
      for (std::string* text : {&got, &want})
        while (text->starts_with("; ")) text->erase(0, text->find('\n') + 1);
      EXPECT_FALSE(got.starts_with("error")) << c.name << ": " << got;
    } else if (accept) {
      want = c.want = got;
    }
    EXPECT_EQ(got, want) << GetParam().filename() << ": " << c.name;
  }
  if (!accept) return;
  std::ofstream file(GetParam());
  for (size_t i = 0; i < cases.size(); ++i) {
    file << (i ? "====\n" : "") << cases[i].header << cases[i].input << "----\n" << cases[i].want;
  }
}

std::vector<std::filesystem::path> Files() {
  std::vector<std::filesystem::path> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(UOPD_GOLDEN_DIR)) {
    if (entry.path().extension() == ".test") out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string TestName(const ::testing::TestParamInfo<std::filesystem::path>& info) {
  std::string name =
      std::filesystem::relative(info.param, UOPD_GOLDEN_DIR).replace_extension().string();
  std::replace_if(
      name.begin(), name.end(),
      [](char ch) { return !std::isalnum(static_cast<unsigned char>(ch)); }, '_');
  return name;
}

// What a pass must leave alone is as much a part of it as what it changes.
TEST(GoldenFiles, EveryPassOfCodegenHasACaseThatItMustNotChange) {
  std::set<std::string> passes;
  for (const auto& path : Files()) {
    for (const Case& c : ReadCases(path)) {
      const size_t comma = c.steps.rfind(',');
      const std::string last = c.steps.substr(comma == std::string::npos ? 0 : comma + 1);
      if (c.unchanged) passes.insert(last.substr(0, last.find('=')));
    }
  }
  for (const codegen::Pass& pass : codegen::Passes()) {
    const bool another_form = pass.before != pass.after;
    EXPECT_TRUE(another_form || passes.contains(std::string(pass.name))) << pass.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenTest, ::testing::ValuesIn(Files()), TestName);

}  // namespace
}  // namespace uopd
