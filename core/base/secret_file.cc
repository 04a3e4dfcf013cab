// SPDX-License-Identifier: MIT
#include "core/base/secret_file.h"

#include "absl/status/status.h"
#include "core/base/input_file.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd {
namespace {

constexpr size_t kMaxSecretBytes = size_t{64} << 10;

}  // namespace

absl::StatusOr<std::string> ReadSecretFile(const std::string& path, bool is_public) {
  mode_t mode = 0;
  UOPD_ASSIGN(std::string text, ReadInputFile(path, kMaxSecretBytes, &mode));
  if (!is_public && (mode & 0007) != 0) {
    return absl::PermissionDeniedError(Cat(
        "The file ", path, " holds a secret, but every user may read or write it; use chmod 600"));
  }
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  if (text.empty()) return Invalid(Cat("The file ", path, " is empty"));
  return text;
}

}  // namespace uopd
