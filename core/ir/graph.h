// SPDX-License-Identifier: MIT
// Walks over graphs: topological order, variables, substitution. All iterative; depth is no limit.
#pragma once
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/status.h"
#include "core/ir/context.h"

namespace uopd::ir {

// The backward slice: every node reachable from the roots, sources before users; deterministic
// (depth first, sources left to right).
std::vector<UOp> Toposort(const UOpContext& ctx, std::span<const UOp> roots);
std::vector<UOp> Toposort(const UOpContext& ctx, UOp root);
// As Toposort, but does not go below nodes for which enter() is false; those nodes are listed.
std::vector<UOp> Toposort(const UOpContext& ctx, std::span<const UOp> roots,
                          const std::function<bool(UOp)>& enter);

// True if `needle` is in the backward slice of root (which has root). Looks only at nodes that are
// younger than the needle; at none for the first few RANGEs of a context.
bool Reaches(const UOpContext& ctx, UOp root, UOp needle);

// DEFINE_VARs under root in topological order.
std::vector<UOp> Variables(const UOpContext& ctx, UOp root);

// Replaces nodes by id; replacements are used as they are and not searched again.
using Substitution = absl::flat_hash_map<uint32_t, UOp>;
UOp Substitute(UOpContext& ctx, UOp root, const Substitution& map);

// What differs in a node made from another one.
struct Changes {
  std::optional<Dtype> dtype;
  std::optional<std::span<const UOp>> src;
  std::optional<Arg> arg;  // interned in the same context
  std::optional<int64_t> tag;
};
// u with these changes; u itself if they change nothing.
UOp Replace(UOpContext& ctx, UOp u, const Changes& changes);

// A graph without BINDs, and what they bound: variables in topological order, each once. A BIND
// without a value (normalised graphs) gives no entry. INVALID_ARGUMENT if a variable is bound to
// two values.
struct Unbound {
  UOp graph;
  std::vector<std::pair<UOp, int64_t>> values;
};
absl::StatusOr<Unbound> Unbind(UOpContext& ctx, UOp root);

// The device named by u or, for a value, by the first of its sources that has one; empty if none
// does. The text lives in the context.
std::string_view DeviceOf(UOp u);

// The same graph made in another context. `map` carries node id (in `from`) -> node (in `to`) from
// call to call.
UOp CopyTo(const UOpContext& from, UOp root, UOpContext& to,
           absl::flat_hash_map<uint32_t, UOp>& map);
// An arg of `op` interned in another context.
Arg CopyArg(UOpContext& to, UOp u);

}  // namespace uopd::ir
