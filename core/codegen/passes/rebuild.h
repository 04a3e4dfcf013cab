// SPDX-License-Identifier: MIT
// Rebuild: one bottom-up walk that replaces every node of a graph. Most passes are built on it.
//
// fn(u, sources) returns the replacement of u; `sources` are the replacements of u's sources.
// Replacements are not visited again, so a pass may create ops that it also replaces. Iterative and
// deterministic. If the context is interrupted it returns the old root.
#pragma once
#include "absl/container/inlined_vector.h"
#include "core/ir/graph.h"
#include "core/ir/tables/node_index.h"

namespace uopd::codegen {

template <class Fn>
ir::UOp Rebuild(ir::UOpContext& ctx, ir::UOp root, Fn fn) {
  const auto order = ir::Toposort(ctx, root);
  ir::NodeIndex at(root.id() + size_t{1});
  std::vector<ir::UOp> done;  // replacements, in the order of `order`
  done.reserve(order.size());
  absl::InlinedVector<ir::UOp, 8> srcs;
  for (ir::UOp u : order) {
    if (ctx.Interrupted()) return root;
    srcs.clear();
    for (ir::UOp s : u.srcs()) srcs.push_back(done[at[s]]);
    at.Set(u, static_cast<uint32_t>(done.size()));
    done.push_back(fn(u, std::span<const ir::UOp>(srcs.data(), srcs.size())));
  }
  return done.back();
}

}  // namespace uopd::codegen
