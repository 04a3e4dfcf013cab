// SPDX-License-Identifier: MIT
// ExpectGenerated: checks that a section of a page in docs/ equals a text generated from code.
// UOPD_ACCEPT=1 rewrites the section instead.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace uopd::test {

// The path of docs/PAGE. Tests run in the checkout or in a folder below it.
inline std::string PathOfDoc(const std::string& page_name) {
  std::filesystem::path root = std::filesystem::current_path();
  while (root.has_relative_path() && !std::filesystem::exists(root / "docs" / page_name)) {
    root = root.parent_path();
  }
  return (root / "docs" / page_name).string();
}

inline std::string ReadDoc(const std::string& page_name) {
  std::ifstream in(PathOfDoc(page_name));
  EXPECT_TRUE(in) << page_name;
  std::stringstream stream;
  stream << in.rdbuf();
  return stream.str();
}

// Expects that the text between `<!-- generated: NAME -->` and `<!-- end -->` in docs/PAGE equals
// `expected`.
inline void ExpectGenerated(const std::string& page_name, const std::string& name,
                            const std::string& expected) {
  const std::string path = PathOfDoc(page_name);
  std::string page = ReadDoc(page_name);

  const std::string open = "<!-- generated: " + name + " -->\n";
  const size_t begin = page.find(open);
  ASSERT_NE(begin, std::string::npos) << open;
  const size_t end = page.find("<!-- end -->", begin);
  ASSERT_NE(end, std::string::npos);
  const size_t from = begin + open.size();
  if (std::getenv("UOPD_ACCEPT") != nullptr) {
    std::ofstream(path) << page.replace(from, end - from, expected);
  } else {
    EXPECT_EQ(page.substr(from, end - from), expected) << "UOPD_ACCEPT=1 writes it anew";
  }
}

}  // namespace uopd::test
