// SPDX-License-Identifier: MIT
// A driver's shared library, opened at run time. The daemon is never linked to it. It is never
// unloaded, because drivers do not survive unloading.
//
// Immutable and thread-safe after Open; copies are the same library.
#pragma once
#include <string>
#include <vector>

#include "core/base/status.h"

namespace uopd::devices::dl {

class Library {
 public:
  // Opens the first of `files` that loads. A file is a path, or a name that is searched as the
  // dynamic linker does. UNAVAILABLE contains the linker's reason for each file.
  static absl::StatusOr<Library> Open(const std::vector<std::string>& files);

  // Null when the library has no such symbol.
  void* Find(const char* symbol) const;
  const std::string& file() const { return file_; }

 private:
  Library(void* handle, std::string file) : handle_(handle), file_(std::move(file)) {}
  void* handle_;  // the dynamic linker's handle; never closed
  std::string file_;
};

}  // namespace uopd::devices::dl
