// SPDX-License-Identifier: MIT
#include "tests/simulation/seal.h"

#include <stdlib.h>
#include <unistd.h>

#include <string>

namespace uopd::sim {

absl::StatusOr<cache::SealKey> MakeSealKey() {
  std::string path = "/tmp/uopd-sim-XXXXXX";
  const int file = mkstemp(path.data());
  const std::string secret(64, 'a');
  const bool written = file >= 0 && write(file, secret.data(), secret.size()) == 64;
  if (file >= 0) close(file);
  absl::StatusOr<cache::SealKey> key = cache::SealKey::Read(path);
  unlink(path.c_str());
  if (!written) return absl::UnavailableError("no temporary file");
  return key;
}

}  // namespace uopd::sim
