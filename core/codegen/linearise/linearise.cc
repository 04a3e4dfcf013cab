// SPDX-License-Identifier: MIT
#include "core/codegen/linearise/linearise.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "core/base/telemetry/log.h"
#include "core/codegen/linearise/lineariser.h"
#include "core/codegen/linearise/nests.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"

namespace uopd::codegen {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;

constexpr size_t kMostStores = 256;  // of a nest: more are stored after all values are computed

// The reductions and arrays below the roots, operands first.
std::vector<UOp> WithLoops(const ir::UOpContext& ctx, std::span<const UOp> roots) {
  std::vector<UOp> out;
  for (UOp u : ir::Toposort(ctx, roots)) {
    if (HasLoops(u)) out.push_back(u);
  }
  return out;
}

// Whether a value depends on a LOAD from a buffer that is stored to.
bool LoadsFromStored(const ir::UOpContext& ctx, std::span<const UOp> values,
                     std::span<const UOp> stores) {
  absl::flat_hash_set<uint32_t> stored;
  for (UOp s : stores) stored.insert(ir::MaybeBaseOf(s.src(0).src(0)).id());
  for (UOp u : ir::Toposort(ctx, values)) {
    if (!u.Is(Op::LOAD)) continue;
    const UOp base = ir::MaybeBaseOf(u.src(0).src(0));
    if (base && stored.contains(base.id())) return true;
  }
  return false;
}

absl::Status EmitNest(Lineariser& l, const Nest& nest) {
  // The rules remove the stores of a loop that never runs. Then nothing is left to emit.
  if (nest.stores.empty()) return absl::OkStatus();
  const size_t depth = l.scopes.depth();
  for (UOp r : nest.loops) UOPD_TRY(OpenLoop(l, r));
  std::vector<UOp> values, done;
  for (UOp s : nest.stores) values.insert(values.end(), s.srcs().begin(), s.srcs().end());
  l.with_loops = WithLoops(l.ctx, values);
  std::vector<UOp> left(nest.stores);
  const auto store_all_made = [&] {
    std::erase_if(left, [&](UOp s) {
      if (!l.scopes.IsMade(s.src(0)) || !l.scopes.IsMade(s.src(1))) return false;
      done.push_back(l.ctx.Make(Op::STORE, Dtype::Void,
                                {l.scopes.New(s.src(0)), l.scopes.New(s.src(1))}, s.arg(),
                                s.tag()));
      l.scopes.innermost().lines.push_back(done.back());
      return true;
    });
  };
  if (LoadsFromStored(l.ctx, values, nest.stores) || left.size() > kMostStores) {
    // An iteration loads everything that it needs before it stores.
    UOPD_TRY(EmitValues(l, values));
    store_all_made();
  }
  // Each value is stored as soon as it is computed: few values are alive together.
  while (!left.empty()) {
    const size_t before = left.size();
    const UOp next = left[0];
    UOPD_TRY(EmitValues(l, next.srcs()));
    for (UOp s : left) {
      if (l.scopes.IsMade(s.src(1))) UOPD_TRY(EmitValues(l, s.srcs().first(1)));
    }
    store_all_made();
    if (left.size() == before) return UOPD_BUG("a store has no place among the lines");
  }
  l.scopes.Close(depth, done);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UOp> Linearise(ir::UOpContext& ctx, UOp sink, const Target& target,
                              std::span<const std::string> variables, LaunchSize& grid_x) {
  UOPD_ASSIGN(const NodeLoops loops, NodeLoops::Of(ctx, sink));
  Lineariser l{ctx, target, variables, grid_x, loops};
  for (const Nest& nest : Nests(ctx, sink)) UOPD_TRY(EmitNest(l, nest));
  return ctx.Make(Op::LINEAR, Dtype::Void, l.scopes.body().lines);
}

}  // namespace uopd::codegen
