// SPDX-License-Identifier: MIT
// Rendered text compiled by a compiler of the machine and loaded into the test.
#pragma once
#include <memory>
#include <string>

#include "core/base/status.h"

namespace uopd::tests {

using KernelFunction = void (*)(void** buffers, const int64_t* vars, int64_t thread);

// A shared object; functions die with it.
class CompiledText {
 public:
  enum Language { kC, kLlvmIr };
  // UNAVAILABLE if the machine has no such compiler, INTERNAL with its messages if it refuses the
  // text.
  static absl::StatusOr<std::unique_ptr<CompiledText>> Compile(Language language,
                                                               const std::string& text);
  ~CompiledText();
  KernelFunction Find(const std::string& name) const;

 private:
  explicit CompiledText(void* handle) : handle_(handle) {}
  void* handle_;
};

}  // namespace uopd::tests
