// SPDX-License-Identifier: MIT
// Where values are.
#pragma once
#include "uopd/tensor.h"

namespace uopd::client {

// OK, or INVALID_ARGUMENT if t is computed from values on several devices that meet without To():
// Realize would refuse it. Functions do not look, so that an error of one part of them cannot
// confuse the others; whoever wants to tell a user at once calls this.
absl::Status CheckDevices(const Tensor& t, Site site = Site::current());

}  // namespace uopd::client
