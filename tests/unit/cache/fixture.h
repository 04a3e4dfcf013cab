// SPDX-License-Identifier: MIT
// A temporary folder with a store in it and a clock that the test turns.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "cache/file/schema.h"
#include "cache/store.h"

namespace uopd::cache {

class StoreFixture : public ::testing::Test {
 protected:
  StoreFixture() {
    std::string name = (std::filesystem::temp_directory_path() / "uopd-cache-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    options_.folder = folder_;
    options_.now = [this] { return now_us_.load(); };
    options_.on_change = [](const Health& health) {
      EXPECT_FALSE(health.reason.empty() && health.state != State::kOk);
    };
  }
  ~StoreFixture() override {
    std::error_code error;
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all, error);
    std::filesystem::remove_all(folder_, error);
  }

  // For a test that holds the lock of the file. All others wait as long as the daemon does: a
  // commit on a slow disk holds the lock, and a read that gives up finds nothing.
  void GiveUpSoonOnLocks() { options_.file.busy_timeout_ms = 50; }
  std::unique_ptr<Store> Open() const { return Store::Open(options_); }
  std::string path() const { return folder_ + "/" + schema::kFileName; }
  static Key KeyOf(int i, const std::string& store = "kernel") {
    return Key(store, "graph " + std::to_string(i), "env");
  }
  static std::string ValueOf(int i, size_t size = 1000) {
    std::string value = std::to_string(i) + ":";
    for (size_t n = 0; value.size() < size; ++n)
      value += static_cast<char>('a' + (n * 31 + static_cast<size_t>(i)) % 23);
    return value;
  }
  static void Fill(Store& store, int count, size_t size = 1000) {
    for (int i = 0; i < count; ++i) ASSERT_TRUE(store.Put(KeyOf(i), ValueOf(i, size), 100).ok());
    ASSERT_TRUE(store.Flush().ok());
  }
  // Files in the folder whose name contains `part`, journals not counted.
  int CountFiles(const std::string& part) const {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      const std::string name = entry.path().filename().string();
      count += name.find(part) != std::string::npos && !name.ends_with("-journal");
    }
    return count;
  }
  // Overwrites the file with noise from `offset` to its end.
  void WriteNoise(size_t offset) const {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    const size_t size = std::filesystem::file_size(path());
    file.seekp(static_cast<std::streamoff>(offset));
    uint32_t state = 12345;
    for (size_t i = offset; i < size; ++i) {
      state = state * 1664525 + 1013904223;
      file.put(static_cast<char>(state >> 24));
    }
  }

  std::string folder_;
  std::atomic<int64_t> now_us_{1'700'000'000'000'000};
  StoreOptions options_;
};

}  // namespace uopd::cache
