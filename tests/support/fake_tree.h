// SPDX-License-Identifier: MIT
// FakeTree: a temporary folder with files at the places where a machine has them.
#pragma once
#include <filesystem>
#include <fstream>
#include <string>

namespace uopd::test {

class FakeTree {
 public:
  FakeTree() {
    std::string name = (std::filesystem::temp_directory_path() / "uopd-tree-XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~FakeTree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  FakeTree(const FakeTree&) = delete;
  FakeTree& operator=(const FakeTree&) = delete;

  void Folder(const std::string& path) { std::filesystem::create_directories(root_ + path); }
  void File(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path, std::ios::binary) << text;
  }
  const std::string& root() const { return root_; }

 private:
  std::string root_;
};

}  // namespace uopd::test
