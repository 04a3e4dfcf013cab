// SPDX-License-Identifier: MIT
#include "core/codegen/opts/kinds/prefetch.h"

#include <algorithm>
#include <cstdlib>

#include "core/codegen/opts/opt_row.h"
#include "core/codegen/passes/vectors/vectorise.h"

namespace uopd::codegen {
namespace {

using ir::UOp;

constexpr int64_t kMostPrefetched = int64_t{1} << 40;  // limit of a stride, in elements
constexpr int64_t kAheadBytes =
    8192;  // a prefetch along a reduced axis is so far ahead in its rows
constexpr int64_t kFewestRows = 2, kMostRows = 32;
constexpr int64_t kNearStep = 256;     // steps of fewer bytes read neighbouring lines
constexpr int kMostPrefetchMoves = 3;  // only the first loads are tried
constexpr int kMostPrefetchAxes = 2;   // only the inner axes are tried

// The steps of a reduced axis that `load` prefetches ahead: more if its rows are short.
int64_t RowsAhead(const PlanView& view, UOp load) {
  int64_t row = ir::ByteSize(load.dtype());
  for (const PlanAxis& a : view.state.axes) {
    if (a.is_reduce || StrideAlong(view.ctx, load.src(0).src(1), a.range) != 1) continue;
    for (const PlanAxis::Part& part : a.parts) row *= part.outer ? 1 : part.amount;
  }
  return std::clamp<int64_t>(kAheadBytes / row, kFewestRows, kMostRows);
}

absl::Status AddPrefetch(Adding& adding, const Opt& opt) {
  const UOp load = adding.kernel().reads[static_cast<size_t>(opt.axis)];
  const auto axis = static_cast<size_t>(opt.amount);
  if (PrefetchDistance(adding.view(), load) != 0) return Bad(opt, "the load prefetches already");
  const PlanAxis& along = adding.state.axes[axis];
  const auto stride = StrideAlong(adding.ctx, load.src(0).src(1), along.range);
  // Processors foresee what lies near.
  if (along.is_reduce && std::abs(stride.value_or(0)) * ir::ByteSize(load.dtype()) < kNearStep)
    return Bad(opt, "the axis is reduced, and its steps lie together");
  if (!stride || *stride == 0 || std::abs(*stride) > kMostPrefetched)
    return Bad(opt, "the load has no stride along the axis");
  adding.state.prefetched.push_back({load, axis, *stride});
  return absl::OkStatus();
}

// The next row, of kernels that go over rows: along one of the inner output axes.
std::vector<Opt> PrefetchMoves(const MoveSource& from) {
  std::vector<Opt> out;
  if (std::ranges::none_of(from.kernel.axes, &AxisInfo::is_reduce)) return out;
  int tried = 0;
  for (size_t axis = from.axes.size(); axis-- > 0 && tried < kMostPrefetchAxes;) {
    if (from.axes[axis].is_reduce) continue;
    for (int load = 0; load < std::min(from.kernel.reads, kMostPrefetchMoves); ++load)
      out.push_back({OptKind::kPrefetch, load, static_cast<int64_t>(axis)});
    ++tried;
  }
  return out;
}

}  // namespace

int64_t PrefetchDistance(const PlanView& view, UOp load) {
  for (const PlanState::Prefetched& p : view.state.prefetched) {
    if (p.load != load) continue;
    const PlanAxis& axis = view.state.axes[p.axis];
    if (axis.is_reduce) return p.stride * RowsAhead(view, load);
    int64_t tile = 1, threads = 1;
    for (const PlanAxis::Part& part : axis.parts) {
      tile *= part.outer ? 1 : part.amount;
      threads = part.outer ? part.amount : threads;
    }
    // Neighbouring chunks belong to other threads; this one's next chunk lies beyond them.
    if (axis.is_scanned && threads > 1)
      return p.stride * tile * axis.size * std::min<int64_t>(view.target.threads, threads);
    return p.stride * tile;
  }
  return 0;
}

extern const OptRow kPrefetchRow;

const OptRow kPrefetchRow = {
    .kind = OptKind::kPrefetch,
    .name = "PREFETCH",
    .machines = Machines::kCpus,
    .axis = {Operand::Names::kRead, "load"},
    .amount = {Operand::Names::kAxis, "axis"},
    .length = OptRow::Length::kNot,
    .axes_prose = "any",
    .effect =
        "the load prefetches what the next iteration along the output axis reads, or later steps "
        "of the reduced axis",
    .limits = "see below",
    .add = AddPrefetch,
    .moves = PrefetchMoves,
};

}  // namespace uopd::codegen
