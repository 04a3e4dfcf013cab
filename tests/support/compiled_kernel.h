// SPDX-License-Identifier: MIT
// CompiledText: rendered text, compiled by a compiler of this machine and loaded into the test.
#pragma once
#include <memory>
#include <string>

#include "core/base/status.h"

namespace uopd::tests {

using KernelFunction = void (*)(void** buffers, const int64_t* vars, int64_t thread);

// A loaded shared object. Its functions are valid as long as it lives.
class CompiledText {
 public:
  enum Language { kC, kLlvmIr };
  // UNAVAILABLE if the machine has no compiler for the language; INTERNAL, with the messages of the
  // compiler, if it refuses the text.
  static absl::StatusOr<std::unique_ptr<CompiledText>> Compile(Language language,
                                                               const std::string& text);
  ~CompiledText();
  KernelFunction Find(const std::string& name) const;

 private:
  explicit CompiledText(void* handle) : handle_(handle) {}
  void* handle_;
};

}  // namespace uopd::tests
