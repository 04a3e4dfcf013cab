// SPDX-License-Identifier: MIT
// The arg of BULK_COPY (docs/ir_linear.md): a TensorMap without the slot and the size of an
// element, which the copy's source has.
#pragma once
#include <optional>
#include <vector>

#include "core/base/target/tensor_map.h"
#include "core/ir/context.h"

namespace uopd::ir {

Arg TensorMapArg(UOpContext& ctx, const TensorMap& map);
// Nothing if the numbers are no description; it may still be wrong. u: a BULK_COPY.
std::optional<TensorMap> MaybeTensorMap(UOp u);
// The maps that the copies of a LINEAR need, each once, in the order of the lines. REQUIRES: it
// passed VerifyNode.
std::vector<TensorMap> TensorMapsOf(UOp linear);

}  // namespace uopd::ir
