// SPDX-License-Identifier: MIT
#include "core/codegen/passes/vectors/vectorise.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/codegen/passes/vectors/join_lanes.h"
#include "core/codegen/passes/vectors/scans.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::Op;
using ir::UOp;

bool IsVectorRange(UOp u) { return u.Is(Op::RANGE) && u.axis_type() == AxisType::VECTOR; }

class Vectoriser {
 public:
  explicit Vectoriser(ir::UOpContext& ctx) : ctx_(ctx) {}

  absl::StatusOr<UOp> Run(UOp sink) {
    bool any = false;
    for (UOp u : ir::Toposort(ctx_, sink)) any |= IsVectorRange(u) || u.Is(Op::SCAN);
    if (!any) return sink;
    UOPD_ASSIGN(const UOp out, Map(sink));
    return JoinLanes(ctx_, out);
  }

 private:
  // The vector form of a graph. Recursion (for the indices of single lanes) is as deep as loads
  // nest in indices.
  absl::StatusOr<UOp> Map(UOp root) {
    for (UOp u : ir::Toposort(ctx_, std::span<const UOp>(&root, 1),
                              [&](UOp n) { return !done_.contains(n.id()); })) {
      if (done_.contains(u.id())) continue;
      if (ctx_.Interrupted(4)) return ctx_.CheckInterrupt();
      NoteRange(u);
      UOPD_ASSIGN(UOp out, MapNode(u));
      done_[u.id()] = out;
    }
    return done_.at(root.id());
  }

  // The VECTOR range that the scalar form of u depends on, or null.
  UOp RangeOf(UOp u) const { return range_.at(u.id()); }

  void NoteRange(UOp u) {
    UOp mine = IsVectorRange(u) ? u : UOp();
    for (UOp s : u.body()) {
      if (const UOp r = RangeOf(s)) mine = r;
    }
    const auto closed = u.closed();
    if (std::find(closed.begin(), closed.end(), mine) != closed.end()) mine = UOp();
    range_[u.id()] = mine;
  }

  int64_t Lanes(UOp range) const { return range.src(0).const_int(); }

  UOp Splat(UOp scalar, int64_t lanes) {
    if (!ctx_.ShapeOf(scalar)->empty()) return scalar;
    return ctx_.Make(Op::STACK, scalar.dtype(),
                     std::vector<UOp>(static_cast<size_t>(lanes), scalar));
  }
  UOp Lane(UOp value, int64_t k) {
    if (ctx_.ShapeOf(value)->empty()) return value;
    if (value.Is(Op::STACK)) return value.src(static_cast<size_t>(k));
    return ctx_.Make(Op::GEP, value.dtype(), {value}, ir::Arg::Int(k));
  }
  // Lane k of the vector form of a SCAN along the range, whose value at k depends on the lanes
  // before. REQUIRES: it is mapped.
  UOp LaneOfScan(UOp scan, int64_t k) {
    const UOp lane = Lane(done_.at(scan.id()), k);
    done_.try_emplace(lane.id(), lane);  // Map does not enter it again
    range_.try_emplace(lane.id(), UOp());
    return lane;
  }
  // The scalar form of u at lane k.
  UOp At(UOp u, UOp range, int64_t k) {
    // Do not enter nodes that do not depend on the range: a loop inside of them may close the
    // range.
    absl::flat_hash_map<uint32_t, UOp> done;
    std::vector<UOp> srcs;
    const auto varies = [&](UOp n) { return RangeOf(n) == range; };
    for (UOp n : ir::Toposort(ctx_, std::span<const UOp>(&u, 1), varies)) {
      srcs.clear();
      if (n == range) {
        done[n.id()] = ctx_.Int(range.dtype(), k);
      } else if (n.Is(Op::SCAN) && varies(n)) {
        done[n.id()] = LaneOfScan(n, k);
      } else if (varies(n)) {
        for (UOp s : n.srcs()) srcs.push_back(done.at(s.id()));
        done[n.id()] = ctx_.WithSources(n, srcs);
      } else {
        done[n.id()] = n;
      }
    }
    return done.at(u.id());
  }

  absl::StatusOr<UOp> MapNode(UOp u) {
    if (IsVectorRange(u)) {
      std::vector<UOp> lanes;
      for (int64_t k = 0; k < Lanes(u); ++k) lanes.push_back(ctx_.Int(u.dtype(), k));
      return ctx_.Make(Op::STACK, u.dtype(), lanes);
    }
    const UOp range = RangeOf(u);
    if (u.Is(Op::LOAD) && range) return MapLoad(u, range);
    if (u.Is(Op::STORE) && range) return MapStore(u, range);
    if (u.Is(Op::INDEX) && range) return u;  // its LOAD or STORE decides
    if (u.Is(Op::REDUCE)) return MapReduce(u);
    if (u.Is(Op::SCAN)) return MapScan(u);
    std::vector<UOp> srcs;
    for (size_t i = 0; i < u.n_src(); ++i) {
      if (u.Is(Op::END) && i > 0 && IsVectorRange(u.src(i))) continue;
      srcs.push_back(done_.at(u.src(i).id()));
    }
    if (u.Is(Op::END) && srcs.size() == 1) return srcs[0];
    return ctx_.WithSources(u, srcs);
  }

  absl::StatusOr<UOp> MapReduce(UOp u) {
    std::vector<UOp> srcs = {done_.at(u.src(0).id())};
    UOp over;
    for (UOp r : u.srcs().subspan(1)) {
      if (IsVectorRange(r)) {
        over = r;
      } else {
        srcs.push_back(done_.at(r.id()));
      }
    }
    if (over) srcs[0] = Splat(srcs[0], Lanes(over));
    UOp out = srcs.size() == 1 ? srcs[0] : ctx_.Make(Op::REDUCE, u.dtype(), srcs, u.arg(), u.tag());
    return over ? JoinOf(ctx_, u.reduce_op(), out) : out;
  }

  UOp MapScan(UOp u) {
    if (u.tag() == kBefore) {  // over threads
      std::vector<UOp> srcs;
      for (UOp s : u.srcs()) srcs.push_back(done_.at(s.id()));
      return ctx_.WithSources(u, srcs);
    }
    std::vector<UOp> loops;
    int64_t lanes = 0;
    for (UOp r : RangesOf(u)) {
      if (IsVectorRange(r)) {
        lanes = Lanes(r);
      } else {
        loops.push_back(done_.at(r.id()));
      }
    }
    const UOp x = done_.at(u.src(0).id());
    const UOp start = MaybeStartOf(u) ? done_.at(MaybeStartOf(u).id()) : UOp();
    return lanes > 0 ? ScanOfLanes(ctx_, u.reduce_op(), Splat(x, lanes), loops, start)
                     : ScanOfLoops(ctx_, u.reduce_op(), x, loops, start);
  }

  // The INDEX of the element at lane k.
  absl::StatusOr<UOp> IndexAt(UOp index, UOp range, int64_t k) {
    UOPD_ASSIGN(UOp at, Map(At(index.src(1), range, k)));
    UOp gate;
    if (index.n_src() == 3) {
      UOPD_ASSIGN(gate, Map(At(index.src(2), range, k)));
    }
    return ir::Index(ctx_, done_.at(index.src(0).id()), at, gate);
  }
  // The INDEX of all lanes in one access. `first`: the lane with the lowest address, 0 or the last
  // lane; for the last lane the gate is reversed.
  absl::StatusOr<UOp> IndexAll(UOp index, UOp range, int64_t first) {
    UOPD_ASSIGN(UOp at, Map(At(index.src(1), range, first)));
    UOp gate = index.n_src() == 3 ? done_.at(index.src(2).id()) : UOp();
    if (gate && first != 0) gate = Reverse(gate, Lanes(range));
    return ir::Index(ctx_, done_.at(index.src(0).id()), at, gate, Lanes(range));
  }
  UOp Reverse(UOp value, int64_t lanes) {
    if (ctx_.ShapeOf(value)->empty()) return value;
    std::vector<UOp> out;
    for (int64_t k = lanes; k-- > 0;) out.push_back(Lane(value, k));
    return ctx_.Make(Op::STACK, value.dtype(), out);
  }

  absl::StatusOr<UOp> MapLoad(UOp u, UOp range) {
    const UOp index = u.src(0);
    const auto stride = StrideAlong(ctx_, index.src(1), range);
    if (stride == 1) {
      UOPD_ASSIGN(UOp all, IndexAll(index, range, 0));
      return ctx_.Make(Op::LOAD, u.dtype(), {all}, u.arg(), u.tag());
    }
    if (stride == -1) {
      UOPD_ASSIGN(UOp all, IndexAll(index, range, Lanes(range) - 1));
      return Reverse(ir::Load(ctx_, all), Lanes(range));
    }
    if (stride == 0 && (index.n_src() < 3 || RangeOf(index.src(2)) != range)) {
      UOPD_ASSIGN(UOp one, IndexAt(index, range, 0));
      return ir::Load(ctx_, one);
    }
    if (stride && *stride > 1 && *stride <= kSmallStride && Lanes(range) > *stride) {
      return LoadStrided(index, range, *stride);
    }
    std::vector<UOp> lanes;
    for (int64_t k = 0; k < Lanes(range); ++k) {
      UOPD_ASSIGN(UOp one, IndexAt(index, range, k));
      lanes.push_back(ir::Load(ctx_, one));
    }
    return ctx_.Make(Op::STACK, u.dtype(), lanes);
  }

  // The lanes lie `stride` elements apart: loads all elements from the first lane's to the last
  // lane's, as `stride` contiguous vectors, and picks the lanes. The last vector ends with the last
  // lane, so nothing beyond it is loaded. Elements between two valid lanes are inside of the
  // buffer; next to a gated lane they are gated too.
  absl::StatusOr<UOp> LoadStrided(UOp index, UOp range, int64_t stride) {
    const int64_t n = Lanes(range);
    UOPD_ASSIGN(const UOp first, Map(At(index.src(1), range, 0)));
    const UOp gate = index.n_src() == 3 ? done_.at(index.src(2).id()) : UOp();
    const auto start = [&](int64_t j) { return j < stride - 1 ? j * n : (n - 1) * stride + 1 - n; };
    std::vector<UOp> parts;
    for (int64_t j = 0; j < stride; ++j) {
      UOp part_gate = gate;
      if (gate && !ctx_.ShapeOf(gate)->empty()) {
        std::vector<UOp> lane, wanted;
        for (int64_t e = start(j); e < start(j) + n; ++e) {
          lane.push_back(Lane(gate, e / stride));
          wanted.push_back(ctx_.Int(ir::Dtype::Bool, e % stride == 0 ? 1 : 0));
        }
        part_gate = And(ctx_, ctx_.Make(Op::STACK, gate.dtype(), lane),
                        ctx_.Make(Op::STACK, gate.dtype(), wanted));
      }
      parts.push_back(
          ir::Load(ctx_, ir::Index(ctx_, done_.at(index.src(0).id()),
                                   Add(ctx_, first, ctx_.Idx(start(j))), part_gate, n)));
    }
    // A shuffle takes two vectors: first the lanes of each pair of parts, then those of both pairs.
    const auto part_of = [&](int64_t k) { return std::min(k * stride / n, stride - 1); };
    const auto pick = [&](int64_t a, int64_t b) {
      std::vector<UOp> lanes;
      for (int64_t k = 0; k < n; ++k) {
        const int64_t j = std::clamp(part_of(k), a, b);
        lanes.push_back(Lane(parts[static_cast<size_t>(j)],
                             std::clamp<int64_t>(k * stride - start(j), 0, n - 1)));
      }
      return ctx_.Make(Op::STACK, parts[0].dtype(), lanes);
    };
    const UOp low = pick(0, std::min<int64_t>(1, stride - 1));
    if (stride <= 2) return low;
    const UOp high = stride == 3 ? parts[2] : pick(2, stride - 1);
    std::vector<UOp> lanes;
    for (int64_t k = 0; k < n; ++k) {
      if (part_of(k) < 2) {
        lanes.push_back(Lane(low, k));
      } else {
        lanes.push_back(Lane(high, stride == 3 ? k * stride - start(2) : k));
      }
    }
    return ctx_.Make(Op::STACK, low.dtype(), lanes);
  }

  absl::StatusOr<UOp> MapStore(UOp u, UOp range) {
    const UOp index = u.src(0), value = done_.at(u.src(1).id());
    const int64_t lanes = Lanes(range);
    if (RangeOf(index) == range) {
      const auto stride = StrideAlong(ctx_, index.src(1), range);
      if (stride == 1 || stride == -1) {
        UOPD_ASSIGN(UOp all, IndexAll(index, range, stride == 1 ? 0 : lanes - 1));
        const UOp vector = Splat(value, lanes);
        return ctx_.Make(Op::STORE, ir::Dtype::Void,
                         {all, stride == 1 ? vector : Reverse(vector, lanes)}, u.arg(), u.tag());
      }
    }
    std::vector<UOp> stores;
    for (int64_t k = 0; k < lanes; ++k) {
      UOPD_ASSIGN(UOp one, IndexAt(index, range, k));
      stores.push_back(ir::Store(ctx_, one, Lane(value, k)));
    }
    return ctx_.Make(Op::GROUP, ir::Dtype::Void, stores);
  }

  ir::UOpContext& ctx_;
  absl::flat_hash_map<uint32_t, UOp> done_, range_;
};

}  // namespace

absl::StatusOr<UOp> Vectorise(ir::UOpContext& ctx, UOp sink) { return Vectoriser(ctx).Run(sink); }

}  // namespace uopd::codegen
