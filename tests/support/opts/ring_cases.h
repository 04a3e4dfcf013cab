// SPDX-License-Identifier: MIT
// Products of whole tiles, whose operands a device with Target::bulk_copies copies as boxes,
// through rings of parts.
#pragma once
#include "tests/support/opts/opts_cases.h"

namespace uopd::tests {

std::vector<KernelCase> RingCases();

}  // namespace uopd::tests
