// SPDX-License-Identifier: MIT
// A graph's bytes through everything up to the text of its kernels, as the daemon does it for the
// null device: decode, verify, schedule, codegen, render.
#pragma once
#include <string_view>

#include "core/base/status.h"
#include "core/ir/io/wire.h"

namespace uopd::test {

// OK, or the first error; an error of a later step than the verifier is INTERNAL here, whatever
// its code, unless it is one that a verified graph may get: values on several devices that do not
// meet by COPY, and what is UNIMPLEMENTED.
absl::Status CheckCompile(std::string_view graph, const ir::WireLimits& limits = {});

}  // namespace uopd::test
