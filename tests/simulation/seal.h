// SPDX-License-Identifier: MIT
// The key with which the daemons of a simulation seal their records: real, and known to everybody.
#pragma once
#include "cache/cluster/seal_key.h"

namespace uopd::sim {

// Writes a secret into a temporary file and reads it back, as a daemon does.
absl::StatusOr<cache::SealKey> MakeSealKey();

}  // namespace uopd::sim
