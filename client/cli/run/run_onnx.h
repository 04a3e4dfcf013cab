// SPDX-License-Identifier: MIT
// `uopctl run MODEL.onnx`: inputs and outputs have the names that the model gives them.
#pragma once
#include "client/cli/run/graph_run.h"

namespace uopd::cli {

absl::Status RunOnnx(Globals& globals, const GraphFlags& flags);

}  // namespace uopd::cli
