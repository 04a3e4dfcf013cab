// SPDX-License-Identifier: MIT
#include "uopd/credentials.h"

#include <algorithm>
#include <fstream>

#include "core/base/text.h"

namespace uopd::client {

absl::StatusOr<Credentials> Credentials::FromFile(const std::string& path) {
  std::ifstream in(path);
  if (!in) return absl::NotFoundError(Cat("cannot read the token file ", path));
  Credentials out;
  std::getline(in, out.token);
  if (out.token.ends_with('\r')) out.token.pop_back();
  const bool printable =
      std::all_of(out.token.begin(), out.token.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (out.token.empty() || !printable) {
    return absl::InvalidArgumentError(
        Cat("the first line of the token file ", path, " is no token: printable ASCII, no spaces"));
  }
  return out;
}

}  // namespace uopd::client
