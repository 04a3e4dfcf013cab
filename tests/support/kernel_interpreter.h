// SPDX-License-Identifier: MIT
// Evaluates kernel graphs (core/schedule/schedule.h) on memory, node by node with ir::EvalAlu: the
// reference for codegen. Knows nothing of codegen and is slow.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/ir/context.h"
#include "core/ir/eval.h"

namespace uopd::tests {

using Memory = std::vector<std::vector<uint8_t>>;  // by PARAM slot

ir::Scalar LoadScalar(ir::Dtype dtype, const uint8_t* at);
void StoreScalar(const ir::Scalar& value, uint8_t* at);

// Runs the kernel once. Float reductions are summed in double and rounded once. REQUIRES: a
// verified kernel.
void Interpret(ir::UOpContext& ctx, ir::UOp sink, Memory& memory,
               const std::map<std::string, int64_t>& variables = {});

}  // namespace uopd::tests
