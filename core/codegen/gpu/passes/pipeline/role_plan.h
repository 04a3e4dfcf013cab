// SPDX-License-Identifier: MIT
// The roles of a pipeline whose copies have warps of their own (pipeline.h): the last warps of the
// block copy, the others compute.
#pragma once
#include <vector>

#include "core/ir/context.h"
#include "core/ir/role.h"

namespace uopd::codegen {

struct RolePlan {
  ir::WarpRole producer, consumer;
};

// Threads of a block that compute, then those of which the first one copies. A whole group of
// producers gives registers to the others, if a thread of the block could not have all that it can
// use.
RolePlan MakeRolePlan(int64_t consumers, int64_t producers);

// The lines of a kernel with the two roles. `before`: those in front of the loop; of them, arrays,
// variables and numbers of threads stay in front of the roles, and what only one role needs is in
// it. `init`: in front of both; `copies`, `computes`: of the two.
struct RoleLines {
  std::vector<ir::UOp> before, init, copies, computes;
};
ir::UOp JoinRoles(ir::UOpContext& ctx, const RolePlan& plan, ir::UOp thread,
                  const RoleLines& lines);

}  // namespace uopd::codegen
