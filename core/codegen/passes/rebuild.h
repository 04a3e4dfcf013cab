// SPDX-License-Identifier: MIT
// Rebuild: one bottom-up walk that makes a graph anew; the shape of most passes here.
//
// fn(u, sources) gives the replacement of u; `sources` are the replacements of u's sources. Results
// are not visited again, so a pass may produce what it consumes. Iterative; deterministic.
#pragma once
#include "core/ir/graph.h"

namespace uopd::codegen {

template <class Fn>
ir::UOp Rebuild(ir::UOpContext& ctx, ir::UOp root, Fn fn) {
  absl::flat_hash_map<uint32_t, ir::UOp> done;
  absl::InlinedVector<ir::UOp, 8> srcs;
  for (ir::UOp u : ir::Toposort(ctx, root)) {
    srcs.clear();
    for (ir::UOp s : u.srcs()) srcs.push_back(done.at(s.id()));
    done[u.id()] = fn(u, std::span<const ir::UOp>(srcs.data(), srcs.size()));
  }
  return done.at(root.id());
}

}  // namespace uopd::codegen
