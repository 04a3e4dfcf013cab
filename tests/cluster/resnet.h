// SPDX-License-Identifier: MIT
// The graph of ResNet-50 for one image, as the client's library sends it.
#pragma once
#include <string>

#include "absl/status/statusor.h"

namespace uopd::cluster {

// `address` is that of a daemon, which gets the model's buffers and gives them up again.
absl::StatusOr<std::string> ResNet50Graph(const std::string& address);

}  // namespace uopd::cluster
