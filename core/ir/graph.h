// SPDX-License-Identifier: MIT
// Walks over graphs: topological order, variables, substitution. All iterative; depth is no limit.
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ir/context.h"

namespace uopd::ir {

// Every node reachable from the roots, sources before users; deterministic (depth first, sources
// left to right).
std::vector<UOp> Toposort(const UOpContext& ctx, std::span<const UOp> roots);
std::vector<UOp> Toposort(const UOpContext& ctx, UOp root);
// As Toposort, but does not go below nodes for which enter() is false; those nodes are listed.
std::vector<UOp> Toposort(const UOpContext& ctx, std::span<const UOp> roots,
                          const std::function<bool(UOp)>& enter);

// True if `needle` is reachable from root (root included).
bool Reaches(const UOpContext& ctx, UOp root, UOp needle);

// DEFINE_VARs under root in topological order.
std::vector<UOp> Variables(const UOpContext& ctx, UOp root);

// Replaces nodes by id; replacements are used as they are and not searched again.
using Substitution = absl::flat_hash_map<uint32_t, UOp>;
UOp Substitute(UOpContext& ctx, UOp root, const Substitution& map);

// The same graph made in another context. `map` carries node id (in `from`) -> node (in `to`) from
// call to call.
UOp CopyTo(const UOpContext& from, UOp root, UOpContext& to,
           absl::flat_hash_map<uint32_t, UOp>& map);
// An arg of `op` interned in another context.
Arg CopyArg(UOpContext& to, UOp u);

}  // namespace uopd::ir
