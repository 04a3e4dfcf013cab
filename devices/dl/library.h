// SPDX-License-Identifier: MIT
// A driver's shared library, opened at run time. Never linked, and never unloaded: drivers do not
// survive it.
//
// Immutable and thread-safe after Open; copies are the same library.
#pragma once
#include <string>
#include <vector>

#include "core/base/status.h"

namespace uopd::devices::dl {

class Library {
 public:
  // Opens the first of `files` that loads, by name (searched as the dynamic linker does) or by
  // path. UNAVAILABLE holds the linker's reason for each.
  static absl::StatusOr<Library> Open(const std::vector<std::string>& files);

  // Null when the library has no such symbol.
  void* Find(const char* symbol) const;
  const std::string& file() const { return file_; }

 private:
  Library(void* handle, std::string file) : handle_(handle), file_(std::move(file)) {}
  void* handle_;  // of the dynamic linker, never closed
  std::string file_;
};

}  // namespace uopd::devices::dl
