// SPDX-License-Identifier: MIT
#include "devices/gpu/diagnostic.h"

#include "absl/strings/str_cat.h"

namespace uopd::devices::gpu {
namespace {

constexpr size_t kMostLog = 2000;
constexpr int kMostLines = 20;

std::string_view FirstLines(std::string_view text) {
  size_t end = 0;
  for (int line = 0; line < kMostLines && end != std::string_view::npos; ++line) {
    end = text.find('\n', end == 0 ? 0 : end + 1);
  }
  return text.substr(0, end);
}

}  // namespace

absl::Status DoesNotCompile(std::string_view toolchain, std::string_view log,
                            std::string_view source) {
  return absl::InternalError(absl::StrCat(std::string(toolchain), " does not compile the kernel: ",
                                          std::string(log.substr(0, kMostLog)), "\n",
                                          std::string(FirstLines(source))));
}

}  // namespace uopd::devices::gpu
