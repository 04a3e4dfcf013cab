// SPDX-License-Identifier: MIT
// Walks over graphs: topological order, search, substitution, copies. None is recursive, so graphs
// may have any depth.
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
// As Toposort, without the nodes below those for which enter() is false.
std::vector<UOp> Toposort(const UOpContext& ctx, std::span<const UOp> roots,
                          const std::function<bool(UOp)>& enter);

// As Toposort, without what only the gradient of a value needs: the sources of DETACH but for the
// first one.
std::vector<UOp> ToposortValues(const UOpContext& ctx, std::span<const UOp> roots);
// How many of its sources, from the first one on, the value of u is computed from.
inline size_t ValueSourceCount(UOp u) { return u.Is(Op::DETACH) ? 1 : u.n_src(); }

// True if `needle` is reachable from root, or is root. Visits only nodes that were made after the
// needle. For the first RANGEs of a context it visits none (UOp::MayReach).
bool Reaches(const UOpContext& ctx, UOp root, UOp needle);

// DEFINE_VARs under root in topological order.
std::vector<UOp> Variables(const UOpContext& ctx, UOp root);

// Node id -> its replacement. Nothing is replaced inside of a replacement.
using Substitution = absl::flat_hash_map<uint32_t, UOp>;
UOp Substitute(UOpContext& ctx, UOp root, const Substitution& map);

// The parts of a node to replace; nullopt keeps the part.
struct Changes {
  std::optional<Dtype> dtype;
  std::optional<std::span<const UOp>> src;
  std::optional<Arg> arg;  // interned in the same context
  std::optional<int64_t> tag;
};
// u with these changes; u itself if they change nothing.
UOp Replace(UOpContext& ctx, UOp u, const Changes& changes);

// A graph without BINDs, and the values of its variables: each variable once, in topological order.
// A BIND without a value (in a normalised graph) gives no entry. INVALID_ARGUMENT if a variable is
// bound to two values.
struct Unbound {
  UOp graph;
  std::vector<std::pair<UOp, int64_t>> values;
};
absl::StatusOr<Unbound> Unbind(UOpContext& ctx, UOp root);

// The device that u names, or that the first of its sources with a device has; empty if there is
// none. The text lives in the context.
std::string_view DeviceOf(UOp u);

// Makes the graph in another context. `map`: node id in `from` -> node in `to`, for all nodes
// copied so far; keep it from call to call.
UOp CopyTo(const UOpContext& from, UOp root, UOpContext& to,
           absl::flat_hash_map<uint32_t, UOp>& map);
// The arg of u, interned in another context.
Arg CopyArg(UOpContext& to, UOp u);

}  // namespace uopd::ir
