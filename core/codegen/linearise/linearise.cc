// SPDX-License-Identifier: MIT
#include "core/codegen/linearise/linearise.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "core/base/telemetry/log.h"
#include "core/base/text.h"
#include "core/codegen/linearise/lineariser.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::Dtype;
using ir::Op;
using ir::UOp;

constexpr size_t kMostStores = 256;  // of a nest: more are stored after all values are computed
constexpr size_t kMaxLoops = 126;    // more than the scheduler gives a kernel

}  // namespace

absl::StatusOr<UOp> Lineariser::Run(UOp sink) {
  UOPD_TRY(Analyse(sink));
  std::vector<Nest> nests = Nests(ctx_, sink);
  path_.emplace_back();
  for (const Nest& nest : nests) UOPD_TRY(EmitNest(nest));
  return ctx_.Make(Op::LINEAR, Dtype::Void, path_[0].lines);
}

absl::Status Lineariser::Analyse(UOp sink) {
  const auto order = ir::Toposort(ctx_, sink);
  for (UOp u : order) {
    if (!u.Is(Op::RANGE)) continue;
    if (bit_.size() == kMaxLoops)
      return absl::UnimplementedError(Cat("kernel has over ", kMaxLoops, " loops"));
    bit_[u.id()] = u.axis_type() == AxisType::THREAD ? 0 : LoopSet{1} << bit_.size();
  }
  for (UOp u : order) {
    LoopSet loops = u.Is(Op::RANGE) ? bit_[u.id()] : 0;
    int level = 0;
    for (UOp s : u.body()) loops |= loops_[s.id()];
    // The size of a loop may depend on loops around it where what is computed in it does not.
    for (UOp r : u.closed()) loops |= loops_[r.id()];
    for (UOp s : u.srcs()) level = std::max(level, level_[s.id()]);
    loops &= ~Closed(u);
    loops_[u.id()] = loops;
    level_[u.id()] = level + (HasLoops(u) ? 1 : 0);
  }
  return absl::OkStatus();
}

Lineariser::LoopSet Lineariser::Closed(UOp u) const {
  LoopSet out = 0;
  for (UOp r : u.closed()) out |= bit_.at(r.id());
  return out;
}

absl::Status Lineariser::EmitNest(const Nest& nest) {
  // The rules remove the stores of a loop that never runs. Then nothing is left to emit.
  if (nest.stores.empty()) return absl::OkStatus();
  const size_t depth = path_.size();
  for (UOp r : nest.loops) UOPD_TRY(Open(r));
  std::vector<UOp> values, done;
  for (UOp s : nest.stores) values.insert(values.end(), s.srcs().begin(), s.srcs().end());
  with_loops_ = WithLoops(values);
  std::vector<UOp> left(nest.stores);
  const auto store_all_made = [&] {
    std::erase_if(left, [&](UOp s) {
      if (!IsMade(s.src(0)) || !IsMade(s.src(1))) return false;
      done.push_back(
          ctx_.Make(Op::STORE, Dtype::Void, {New(s.src(0)), New(s.src(1))}, s.arg(), s.tag()));
      path_.back().lines.push_back(done.back());
      return true;
    });
  };
  if (LoadsWhatItStores(values, nest.stores) || left.size() > kMostStores) {
    // An iteration loads everything that it needs before it stores.
    UOPD_TRY(Emit(values));
    store_all_made();
  }
  // Each value is stored as soon as it is computed: few values are alive together.
  while (!left.empty()) {
    const size_t before = left.size();
    const UOp next = left[0];
    UOPD_TRY(Emit(next.srcs()));
    for (UOp s : left) {
      if (IsMade(s.src(1))) UOPD_TRY(Emit(s.srcs().first(1)));
    }
    store_all_made();
    if (left.size() == before) return UOPD_BUG("a store has no place among the lines");
  }
  Close(depth, done);
  return absl::OkStatus();
}

bool Lineariser::LoadsWhatItStores(std::span<const UOp> values, std::span<const UOp> stores) const {
  absl::flat_hash_set<uint32_t> stored;
  for (UOp s : stores) stored.insert(ir::MaybeBaseOf(s.src(0).src(0)).id());
  for (UOp u : ir::Toposort(ctx_, values)) {
    if (!u.Is(Op::LOAD)) continue;
    const UOp base = ir::MaybeBaseOf(u.src(0).src(0));
    if (base && stored.contains(base.id())) return true;
  }
  return false;
}

std::span<const UOp> Lineariser::LoopsOf(UOp u) {
  if (u.Is(Op::REDUCE)) return u.closed();
  return u.src(1).Is(Op::END) ? u.src(1).closed() : std::span<const UOp>();
}

absl::StatusOr<UOp> Linearise(ir::UOpContext& ctx, UOp sink, const Target& target,
                              std::span<const std::string> variables, LaunchSize& grid_x) {
  return Lineariser(ctx, target, variables, grid_x).Run(sink);
}

}  // namespace uopd::codegen
