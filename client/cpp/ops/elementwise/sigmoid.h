// SPDX-License-Identifier: MIT
// Sigmoids that users write themselves. Internal to the library.
#pragma once
#include <optional>

#include "uopd/tensor.h"

namespace uopd::client {

// a / b, if b is 1 + e with e = exp(x): the sigmoid of x if a is e, else a times the sigmoid of -x. As quotients they, and their
// gradients, are infinity / infinity or 0 * infinity for large x.
std::optional<Tensor> MaybeSigmoid(const Operand& a, const Operand& b);

}  // namespace uopd::client
