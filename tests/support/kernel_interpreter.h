// SPDX-License-Identifier: MIT
// Interpret: evaluates a kernel graph (core/schedule/schedule.h) on memory, node by node with
// ir::EvalAlu. The reference for codegen: slow, and independent of codegen.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/ir/analysis/eval.h"
#include "core/ir/context.h"

namespace uopd::tests {

using Memory = std::vector<std::vector<uint8_t>>;  // by PARAM slot

ir::Scalar LoadScalar(ir::Dtype dtype, const uint8_t* at);
void StoreScalar(const ir::Scalar& value, uint8_t* at);

// Runs the kernel once. A float reduction accumulates in double and is rounded once. REQUIRES: sink
// is a verified kernel.
void Interpret(ir::UOpContext& ctx, ir::UOp sink, Memory& memory,
               const std::map<std::string, int64_t>& variables = {});

}  // namespace uopd::tests
