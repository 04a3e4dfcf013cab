// SPDX-License-Identifier: MIT
// A picture of the searches of a tuning operation, as SVG: the best time so far over the number of candidates, a line for each
// kernel, and a point for each candidate that is known. Times are on a logarithmic axis.
//
// The picture refers to nothing outside of itself. Of many kernels it has those that take most of the time.
#pragma once
#include <string>

#include "client/cli/tune/tune_view.h"

namespace uopd::cli {

inline constexpr size_t kMaxSvgKernels = 12;

std::string TuneSvg(const TuneView& view);

}  // namespace uopd::cli
