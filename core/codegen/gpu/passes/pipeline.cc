// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/passes/pipeline.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/codegen/gpu/passes/bulk_plan.h"
#include "core/codegen/gpu/passes/role_plan.h"
#include "core/ir/analysis/polynomial.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/group_mma.h"
#include "core/ir/shared_array.h"
#include "core/ir/tensor_map.h"
#include "core/ir/verify/spec.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;

constexpr int64_t kCopiedBytes = 16;

UOp MaybeAnd(ir::UOpContext& ctx, UOp maybe_a, UOp maybe_b) {
  if (!maybe_a || !maybe_b) return maybe_a ? maybe_a : maybe_b;
  return And(ctx, maybe_a, maybe_b);
}

UOp GateOf(UOp index) { return index.n_src() == 3 ? index.src(2) : UOp(); }

class Pipeliner {
 public:
  Pipeliner(ir::UOpContext& ctx, UOp linear, const PipelineWay& way)
      : ctx_(ctx),
        linear_(linear),
        lines_(linear.srcs()),
        way_(way),
        own_(way.own),
        may_bulk_(way.own && way.bulk),
        parts_(way.own ? way.parts : 1) {}

  UOp Run() {
    FindCopies();
    if (copies_.empty() || (!own_ && !FindEnd())) return linear_;
    if (may_bulk_) PlanBulk();
    if (!bulk_.empty() && way_.producers > 0 && MayHaveRoles()) PlanRoles();
    for (size_t i = 0; i < lines_.size(); ++i) Rewrite(i);
    if (roles_) {
      role_lines_.computes = std::move(out_);
      const UOp joined = JoinRoles(ctx_, *roles_, New(thread_), role_lines_);
      out_.assign(joined.srcs().begin(), joined.srcs().end());
    }
    return ctx_.Make(Op::LINEAR, Dtype::Void, WithoutUnused(), linear_.arg(), linear_.tag());
  }

 private:
  struct Array {
    size_t loop = 0;       // the line of the RANGE that its STOREs are in
    bool can = true;       // every STORE is a copy
    UOp made;              // the array with all parts
    int64_t elements = 0;  // of a part
    UOp part;              // where the part of this step begins; null in front of the loop
    bool loaded = false;   // threads load from it, not only products of groups
  };

  // Finds the loop and the STOREs that are copies. The loop is the first one that has any.
  void FindCopies() {
    Params stored;
    for (UOp u : lines_) {
      if (u.Is(Op::STORE) && ir::MaybeBaseOf(u.src(0).src(0)).Is(Op::PARAM))
        stored.insert(ir::MaybeBaseOf(u.src(0).src(0)).id());
    }
    std::vector<size_t> open;
    for (size_t i = 0; i < lines_.size(); ++i) {
      const UOp u = lines_[i];
      if (u.Is(Op::RANGE)) open.push_back(i);
      if (u.Is(Op::END)) open.resize(open.size() - (u.n_src() - 1));
      if (u.Is(Op::GROUP_MMA)) groups_.emplace_back(open.empty() ? 0 : open.back(), u);
      if (u.Is(Op::MMA_WAIT)) ++waits_[open.empty() ? 0 : open.back()];
      if (u.Is({Op::LOAD, Op::MATRIX_LOAD, Op::GROUP_MMA})) NoteReads(u, open);
      if (!u.Is(Op::STORE)) continue;
      const UOp base = ir::MaybeBaseOf(u.src(0).src(0));
      if (!ir::IsShared(base)) continue;
      Array& array = arrays_[base.id()];
      if (open.empty() || (array.loop != 0 && array.loop != open.back()) || !IsCopy(u, stored)) {
        array.can = false;
        continue;
      }
      array.loop = open.back();
      array.elements = (*ctx_.ShapeOf(base))[0].const_int();
      nested_[open.back()] = open.size() > 1;
    }
    for (size_t i = 0; i < lines_.size(); ++i) {
      const UOp u = lines_[i];
      if (!u.Is(Op::STORE)) continue;
      const auto it = arrays_.find(ir::MaybeBaseOf(u.src(0).src(0)).id());
      if (it == arrays_.end() || !it->second.can) continue;
      if (copies_.empty()) loop_ = it->second.loop;
      if (it->second.loop == loop_) copies_.push_back(u);
    }
    absl::erase_if(arrays_, [&](const auto& a) { return !a.second.can || a.second.loop != loop_; });
    const auto reads_parts = [&](UOp index) {
      return arrays_.contains(ir::MaybeBaseOf(index.src(0)).id());
    };
    groups_read_parts_ = !groups_.empty() && std::ranges::all_of(groups_, [&](const auto& g) {
      return g.first == loop_ && reads_parts(g.second.src(1)) && reads_parts(g.second.src(2));
    });
    groups_run_on_ = parts_ > 2 && groups_read_parts_;
    ahead_ = groups_run_on_ ? parts_ - 2 : parts_ - 1;
  }

  // Finds the boxes that fill the arrays, if all arrays consist of some.
  void PlanBulk() {
    if (nested_.at(loop_)) return;  // the phases of the barriers would run on
    int64_t slot = 0, bytes = 0;
    absl::flat_hash_map<uint32_t, int64_t> spans;  // of arrays that products read
    for (UOp u : lines_) {
      if (u.Is(Op::SPECIAL) && static_cast<ir::AxisType>(u.ints()[0]) == ir::AxisType::LOCAL)
        thread_ = u;
      if (u.Is(Op::BUFFER)) slot = std::max(slot, u.slot() + 1);
      if (!u.Is(Op::GROUP_MMA)) continue;
      const ir::GroupMma mma = ir::GroupMma::Of(u);
      spans[ir::MaybeBaseOf(u.src(1).src(0)).id()] = mma.a_matrix.span;
      spans[ir::MaybeBaseOf(u.src(2).src(0)).id()] = mma.b_matrix.span;
    }
    if (!thread_ || !thread_.src(0).Is(Op::CONST)) return;
    std::vector<std::pair<uint32_t, BulkPlan>> plans;
    for (UOp line : lines_) {
      if (!arrays_.contains(line.id())) continue;
      std::vector<UOp> stores;
      for (UOp store : copies_) {
        if (ir::MaybeBaseOf(store.src(0).src(0)) == line) stores.push_back(store);
      }
      const auto span = spans.find(line.id());
      auto plan = span == spans.end() || line.dtype() != Dtype::U32
                      ? std::nullopt
                      : MaybeBulkPlan(ctx_, stores, thread_, span->second);
      if (!plan) return;
      bytes += plan->bytes();
      plans.emplace_back(line.id(), *std::move(plan));
    }
    if (bytes >= TensorMap::kMostBytes) return;
    bulk_ = std::move(plans);
    bulk_bytes_ = bytes;
    first_thread_ = Lt(ctx_, thread_, ctx_.Idx(1));
    const auto barriers = [&] {
      return ir::Buffer(ctx_, slot++, Dtype::U64, ir::ShapeArg(ctx_, ir::Dims{parts_}),
                        ir::AddrSpace::LOCAL);
    };
    barriers_ = barriers();
    free_ = barriers();
  }

  // Whether nothing but the products of a step reads its part, and the copies need no value that only some threads have.
  bool MayHaveRoles() {
    const int64_t threads = thread_.src(0).const_int();
    const auto waits = waits_.find(loop_);
    if (!groups_read_parts_ || waits_.size() != 1 || waits == waits_.end() || waits->second != 1 ||
        threads + way_.producers > way_.most_threads)
      return false;
    for (const auto& [loop, mma] : groups_) {
      if (threads % ir::GroupMma::Of(mma).lanes != 0) return false;
    }
    if (std::ranges::any_of(arrays_, [](const auto& a) { return a.second.loaded; })) return false;
    std::vector<UOp> needs = {lines_[loop_].src(0)};
    for (const auto& [id, plan] : bulk_) {
      for (const BulkBox& box : plan.boxes) needs.insert(needs.end(), {box.x, box.y});
    }
    return std::ranges::none_of(ir::Toposort(ctx_, needs), [](UOp u) { return u.Is(Op::LOAD); });
  }

  void PlanRoles() {
    const int64_t threads = thread_.src(0).const_int();
    roles_ = MakeRolePlan(threads, way_.producers);
    made_[thread_.id()] =
        ctx_.Make(Op::SPECIAL, thread_.dtype(),
                  {ctx_.Int(thread_.src(0).dtype(), threads + way_.producers)}, thread_.arg());
    first_thread_ = Lt(ctx_, New(thread_), ctx_.Idx(1));
    groups_run_on_ = true;
  }

  // An array that lines outside of the loop read has no parts: the loop only fills it.
  void NoteReads(UOp u, std::span<const size_t> open) {
    for (UOp index : u.srcs()) {
      const UOp base = index.Is(Op::INDEX) ? ir::MaybeBaseOf(index.src(0)) : UOp();
      if (!base || !ir::IsShared(base)) continue;
      Array& array = arrays_[base.id()];
      array.loaded |= !u.Is(Op::GROUP_MMA);
      if (std::ranges::find(open, array.loop) == open.end()) array.can = false;
    }
  }

  // Finds the END of the loop. False if it closes loops inside of this one, too: no line comes after those.
  bool FindEnd() {
    const UOp range = lines_[loop_];
    for (size_t i = loop_ + 1; i < lines_.size(); ++i) {
      if (!lines_[i].Is(Op::END)) continue;
      const auto closed = lines_[i].closed();
      if (std::ranges::find(closed, range) == closed.end()) continue;
      end_ = i;
      return std::ranges::none_of(closed, [&](UOp r) {
        return std::find(lines_.begin() + static_cast<std::ptrdiff_t>(loop_) + 1, lines_.end(),
                         r) != lines_.end();
      });
    }
    return false;
  }

  using Params = absl::flat_hash_set<uint32_t>;

  // Whether the STORE may be done ahead; `stored` are the PARAMs that some line stores to.
  bool IsCopy(UOp store, const Params& stored) {
    return own_ ? IsOwnCopy(store, stored) : IsOfLoads(store.src(1), stored);
  }

  bool IsOwnCopy(UOp store, const Params& stored) {
    const UOp to = store.src(0), load = store.src(1);
    if (!load.Is(Op::LOAD)) return false;
    const UOp from = load.src(0), base = ir::MaybeBaseOf(from.src(0));
    const int64_t n = to.arg().AsInt();
    if (!base.Is(Op::PARAM) || stored.contains(base.id()) || base.dtype() != to.dtype())
      return false;
    if (from.arg().AsInt() != n || n * ir::ByteSize(to.dtype()) != kCopiedBytes) return false;
    for (UOp index : {to, from}) {
      if (!ir::MaybeDivided(ctx_, index.src(1), n) || !IsScalar(GateOf(index))) return false;
    }
    return true;
  }

  // Whether a value is computed from loads of buffers that nothing stores to.
  bool IsOfLoads(UOp value, const Params& stored) {
    bool loads = false;
    for (UOp u : ir::Toposort(ctx_, value)) {
      if (u.Is({Op::BUFFER, Op::AFTER, Op::MMA, Op::WMMA, Op::SHUFFLE, Op::MATRIX_LOAD}))
        return false;
      if (!u.Is(Op::LOAD)) continue;
      const UOp base = ir::MaybeBaseOf(u.src(0).src(0));
      if (!base.Is(Op::PARAM) || stored.contains(base.id()) || !IsScalar(GateOf(u.src(0))))
        return false;
      loads = true;
    }
    return loads;
  }

  // Whether all lanes share the gate.
  bool IsScalar(UOp maybe_gate) { return !maybe_gate || ctx_.ShapeOf(maybe_gate)->empty(); }

  void Line(UOp u) {
    if (!u.Is(Op::CONST) && listed_.insert(u.id()).second) out_.push_back(u);
  }
  // A line and whatever it needs that is no line yet.
  UOp LineAll(UOp u) {
    const auto enter = [&](UOp n) {
      return !listed_.contains(n.id()) && !n.Is({Op::PARAM, Op::BUFFER});
    };
    for (UOp n : ir::Toposort(ctx_, std::span<const UOp>(&u, 1), enter)) {
      if (!n.Is({Op::PARAM, Op::BUFFER})) Line(n);
    }
    return u;
  }
  UOp New(UOp u) const {
    const auto it = made_.find(u.id());
    return it == made_.end() ? u : it->second;
  }

  // LOADs of the loop -> what stands for them.
  using Loaded = absl::flat_hash_map<uint32_t, UOp>;

  // u in step `step` of the loop, with what `loaded` has for its LOADs.
  UOp InStep(UOp u, UOp step, const Loaded& loaded = {}) {
    const UOp range = lines_[loop_];
    absl::flat_hash_map<uint32_t, UOp> done;
    std::vector<UOp> srcs;
    for (UOp n : ir::Toposort(ctx_, u)) {
      srcs.clear();
      for (UOp s : n.srcs()) srcs.push_back(done.at(s.id()));
      const auto it = loaded.find(n.id());
      done[n.id()] = n == range                      ? step
                     : it != loaded.end()            ? it->second
                     : n.Is({Op::PARAM, Op::BUFFER}) ? n
                                                     : rules::WithIndexSources(ctx_, n, srcs);
    }
    return done.at(u.id());
  }

  // The copies of a step, which is a constant or an expression; none where there is no such step.
  void Copy(UOp step) {
    const UOp size = lines_[loop_].src(0);
    UOp is_step = Lt(ctx_, step, size);
    if (step.Is(Op::CONST) && size.Is(Op::CONST)) {
      if (step.const_int() >= size.const_int()) return;
      is_step = UOp();
    }
    const UOp part = step.Is(Op::CONST) ? ctx_.Idx(step.const_int() % parts_)
                                        : ir::Alu(ctx_, Op::CMOD, {step, ctx_.Idx(parts_)});
    if (!bulk_.empty()) return CopyBoxes(step, part, MaybeAnd(ctx_, first_thread_, is_step));
    for (UOp store : copies_) {
      const UOp to = store.src(0), from = store.src(1).src(0);
      const Array& array = arrays_.at(ir::MaybeBaseOf(to.src(0)).id());
      const auto in_step = [&](UOp maybe) { return maybe ? InStep(maybe, step) : UOp(); };
      const UOp at = rules::IndexSum(ctx_, InStep(to.src(1), step), OfPart(part, array));
      const UOp target = ir::Index(ctx_, array.made, at,
                                   MaybeAnd(ctx_, in_step(GateOf(to)), is_step), to.arg().AsInt());
      const UOp source = ir::Index(ctx_, from.src(0), InStep(from.src(1), step),
                                   in_step(GateOf(from)), from.arg().AsInt());
      LineAll(ctx_.Make(Op::ASYNC_COPY, Dtype::Void, {target, source}));
    }
  }
  void CopyBoxes(UOp step, UOp part, UOp gate) {
    LineAll(ctx_.Make(Op::BULK_EXPECT, Dtype::Void, {ir::Index(ctx_, barriers_, part, gate)},
                      ctx_.Data({bulk_bytes_})));
    const UOp barrier = ir::Index(ctx_, barriers_, part);
    for (const auto& [id, plan] : bulk_) {
      const Array& array = arrays_.at(id);
      for (const BulkBox& box : plan.boxes) {
        const UOp at = rules::IndexSum(ctx_, OfPart(part, array), ctx_.Idx(box.to));
        LineAll(ctx_.Make(Op::BULK_COPY, Dtype::Void,
                          {ir::Index(ctx_, array.made, at, gate), plan.from, barrier,
                           InStep(box.x, step), InStep(box.y, step)},
                          ir::TensorMapArg(ctx_, plan.map)));
      }
    }
  }
  // Loads what the copies of a step need; 0 where there is no such step.
  Loaded Fetch(UOp step) {
    const UOp size = lines_[loop_].src(0);
    const bool is_step = step.Is(Op::CONST) && size.Is(Op::CONST);  // the loop has a first step
    const UOp gate = is_step ? UOp() : Lt(ctx_, step, size);
    Loaded out;
    for (UOp store : copies_) {
      for (UOp u : ir::Toposort(ctx_, store.src(1))) {
        if (!u.Is(Op::LOAD) || out.contains(u.id())) continue;
        const UOp from = u.src(0);
        const UOp own = GateOf(from) ? InStep(GateOf(from), step) : UOp();
        const UOp source = ir::Index(ctx_, from.src(0), InStep(from.src(1), step),
                                     MaybeAnd(ctx_, own, gate), from.arg().AsInt());
        out[u.id()] = LineAll(ctx_.WithSources(u, std::span<const UOp>(&source, 1)));
      }
    }
    return out;
  }
  // Stores what is computed from it. Behind the last step nothing reads it.
  void Deposit(UOp step, const Loaded& loaded) {
    for (UOp store : copies_) LineAll(InStep(store, step, loaded));
  }

  UOp OfPart(UOp part, const Array& array) {
    return rules::IndexProduct(ctx_, part, ctx_.Idx(array.elements));
  }

  // index + offset, with a constant of the index last: it may be part of an access.
  UOp Further(UOp index, UOp offset) {
    if (index.Is(Op::ADD) && index.src(1).Is(Op::CONST))
      return Add(ctx_, Add(ctx_, index.src(0), offset), index.src(1));
    return Add(ctx_, index, offset);
  }

  void Mark(Op op, ir::Arg arg = {}) { Line(ctx_.Make(op, Dtype::Void, {out_.back()}, arg)); }

  void Rewrite(size_t i) {
    const UOp u = lines_[i];
    if (const auto it = arrays_.find(u.id()); own_ && it != arrays_.end()) {
      it->second.made =
          ir::Buffer(ctx_, u.slot(), u.dtype(),
                     ir::ShapeArg(ctx_, ir::Dims{it->second.elements * parts_}), u.addrspace());
      made_[u.id()] = it->second.made;
      return Line(it->second.made);
    }
    if (std::ranges::find(copies_, u) != copies_.end()) {
      gone_.insert(u.id());
      return;
    }
    if (u.Is({Op::GROUP, Op::AFTER})) return RewriteList(u);
    if (i == loop_ && !own_) {
      Deposit(ctx_.Idx(0), Fetch(ctx_.Idx(0)));
      Line(u);
      next_ = LineAll(rules::IndexSum(ctx_, u, ctx_.Idx(1)));
      fetched_ = Fetch(next_);
      return;
    }
    if (i == end_ && !own_) Deposit(next_, fetched_);
    if (u == thread_ && roles_) return Line(New(u));
    if (i == loop_ && roles_) return BeginRoleLoop(u);
    if (i == loop_ && !bulk_.empty()) return BeginBulkLoop(u);
    if (i == loop_) {
      // The parts may still be in use, where the loop runs again.
      if (nested_.at(loop_)) Mark(Op::BARRIER);
      for (int64_t s = 0; s < ahead_; ++s) {
        Copy(ctx_.Idx(s));
        Mark(Op::ASYNC_COMMIT);
      }
      Line(u);
      Mark(Op::ASYNC_WAIT, ir::Arg::Int(ahead_ - 1));
      Mark(Op::BARRIER);
      BeginParts(u);
      Copy(rules::IndexSum(ctx_, u, ctx_.Idx(ahead_)));
      Mark(Op::ASYNC_COMMIT);
      return;
    }
    std::vector<UOp> srcs;
    for (UOp s : u.srcs()) srcs.push_back(New(s));
    UOp made = u.Is({Op::PARAM, Op::BUFFER}) ? u
               : u.Is(Op::MMA_WAIT) && groups_run_on_
                   ? ctx_.Make(u.op(), u.dtype(), srcs, ir::Arg::Int(1))
                   : ctx_.WithSources(u, srcs);
    if (u.Is(Op::INDEX) && own_) {
      const auto it = arrays_.find(ir::MaybeBaseOf(u.src(0)).id());
      if (it != arrays_.end()) {
        if (!it->second.part) return;  // of a copy
        srcs[1] = LineAll(Further(srcs[1], it->second.part));
        made = ctx_.WithSources(u, srcs);
      }
    }
    made_[u.id()] = made;
    Line(made);
    if (roles_ && u.Is(Op::MMA_WAIT)) FreePartBefore();
    if (groups_run_on_ && u.Is(Op::END) && u.closed().back() == lines_[loop_]) EndGroups(made);
  }

  // Where the parts of this step begin. Returns their number.
  UOp BeginParts(UOp step) {
    const UOp part = LineAll(ir::Alu(ctx_, Op::CMOD, {step, ctx_.Idx(parts_)}));
    for (auto& [id, array] : arrays_) array.part = OfPart(part, array);
    for (UOp line : lines_) {  // in their order, not that of the table
      if (const auto it = arrays_.find(line.id()); it != arrays_.end()) LineAll(it->second.part);
    }
    return part;
  }

  void BeginBulkLoop(UOp range) {
    Line(barriers_);
    LineAll(ctx_.Make(Op::BULK_INIT, Dtype::Void,
                      {ir::Index(ctx_, barriers_, ctx_.Idx(0), first_thread_, parts_)},
                      ir::Arg::Int(1)));
    Mark(Op::BARRIER);
    for (int64_t s = 0; s < ahead_; ++s) Copy(ctx_.Idx(s));
    Line(range);
    Mark(Op::BARRIER);
    const UOp part = BeginParts(range);
    Copy(rules::IndexSum(ctx_, range, ctx_.Idx(ahead_)));
    Wait(barriers_, part, Turn(range));
  }

  // How often the ring was filled before the step.
  UOp Turn(UOp step) { return ir::Alu(ctx_, Op::CDIV, {step, ctx_.Idx(parts_)}); }
  void Wait(UOp barriers, UOp part, UOp phase) {
    LineAll(ctx_.Make(
        Op::BULK_WAIT, Dtype::Void,
        {ir::Index(ctx_, barriers, part), ir::Alu(ctx_, Op::CMOD, {phase, ctx_.Idx(2)})}));
  }

  void BeginRoleLoop(UOp range) {
    role_lines_.before = std::move(out_);
    // Each list of lines has what it needs; JoinRoles takes a line once.
    const absl::flat_hash_set<uint32_t> before = listed_;
    Begin();
    Line(barriers_);
    Line(free_);
    const int64_t warps = thread_.src(0).const_int() / way_.warp_lanes;
    for (const auto& [barriers, arrivals] :
         {std::pair(barriers_, int64_t{1}), std::pair(free_, warps)})
      LineAll(ctx_.Make(Op::BULK_INIT, Dtype::Void,
                        {ir::Index(ctx_, barriers, ctx_.Idx(0), first_thread_, parts_)},
                        ir::Arg::Int(arrivals)));
    Mark(Op::BARRIER);
    role_lines_.init = std::move(out_);
    Begin();
    int64_t axis = 0;
    for (UOp u : lines_) axis = u.Is(Op::RANGE) ? std::max(axis, u.axis_id() + 1) : axis;
    const UOp step =
        LineAll(ir::Range(ctx_, range.src(0), axis, static_cast<ir::AxisType>(range.ints()[1])));
    const UOp part = LineAll(ir::Alu(ctx_, Op::CMOD, {step, ctx_.Idx(parts_)}));
    // A part that was never filled is free: the wait for a phase before the first one is over at once.
    Wait(free_, part, rules::IndexSum(ctx_, Turn(step), ctx_.Idx(1)));
    CopyBoxes(step, part, UOp());
    Line(ir::End(ctx_, out_.back(), std::array<UOp, 1>{step}));
    role_lines_.copies = std::move(out_);
    out_.clear();
    listed_ = before;
    Line(range);
    Wait(barriers_, BeginParts(range), Turn(range));
  }
  // Begins a list of lines.
  void Begin() {
    out_.clear();
    listed_.clear();
  }
  // The part of the step before, whose products are done, may be filled again.
  void FreePartBefore() {
    const UOp step = lines_[loop_];
    const UOp lane = ir::Alu(ctx_, Op::CMOD, {New(thread_), ctx_.Idx(way_.warp_lanes)});
    const UOp gate =
        And(ctx_, ir::Alu(ctx_, Op::CMPEQ, {lane, ctx_.Idx(0)}), Lt(ctx_, ctx_.Idx(0), step));
    const UOp part = ir::Alu(ctx_, Op::CMOD,
                             {rules::IndexSum(ctx_, step, ctx_.Idx(parts_ - 1)), ctx_.Idx(parts_)});
    LineAll(ctx_.Make(Op::BULK_ARRIVE, Dtype::Void, {ir::Index(ctx_, free_, part, gate)}));
  }

  // Behind the loop: waits for the products of its last step.
  void EndGroups(UOp end) {
    std::vector<UOp> sums;
    for (const auto& [loop, mma] : groups_) {
      const UOp index = mma.src(0);
      const UOp after = ir::After(ctx_, ir::MaybeBaseOf(index.src(0)), {end});
      const UOp at = LineAll(ir::Index(ctx_, after, index.src(1), UOp(), index.arg().AsInt()));
      if (std::ranges::find(sums, at) == sums.end()) sums.push_back(at);
    }
    Line(ctx_.Make(Op::MMA_WAIT, Dtype::Void, sums, ir::Arg::Int(0)));
  }

  // A list of statements without the copies.
  void RewriteList(UOp u) {
    std::vector<UOp> srcs;
    for (UOp s : u.srcs()) {
      if (!gone_.contains(s.id())) srcs.push_back(New(s));
    }
    if (srcs.empty()) {
      gone_.insert(u.id());
    } else if (u.Is(Op::AFTER) && srcs.size() == 1) {
      made_[u.id()] = srcs[0];
    } else {
      Line(made_[u.id()] = ctx_.Make(u.op(), u.dtype(), srcs, u.arg(), u.tag()));
    }
  }

  // The lines without those whose values nothing needs any more.
  std::vector<UOp> WithoutUnused() const {
    absl::flat_hash_set<uint32_t> used;
    for (size_t i = out_.size(); i-- > 0;) {
      const UOp u = out_[i];
      const bool keeps = u.dtype() == Dtype::Void ||
                         u.Is({Op::PARAM, Op::BUFFER, Op::DEFINE_VAR, Op::SPECIAL, Op::RANGE});
      if (!keeps && !used.contains(u.id())) continue;
      used.insert(u.id());
      for (UOp s : u.srcs()) used.insert(s.id());
    }
    std::vector<UOp> out;
    std::ranges::copy_if(out_, std::back_inserter(out),
                         [&](UOp u) { return used.contains(u.id()); });
    return out;
  }

  ir::UOpContext& ctx_;
  const UOp linear_;
  const std::span<const UOp> lines_;
  const PipelineWay way_;
  const bool own_, may_bulk_;                   // see Pipeline
  const int64_t parts_;                         // of an array
  size_t loop_ = 0;                             // the line of its RANGE
  size_t end_ = 0;                              // the line of its END; unless own_
  UOp next_;                                    // the step after this one, and
  Loaded fetched_;                              // what its copies need; unless own_
  std::vector<UOp> copies_;                     // STOREs
  std::vector<std::pair<size_t, UOp>> groups_;  // GROUP_MMAs, with the loops that they are in
  absl::flat_hash_map<size_t, int> waits_;      // MMA_WAITs in each loop
  bool groups_read_parts_ = false;              // all of them are in the loop, and read parts only
  bool groups_run_on_ = false;                  // while the next step begins
  int64_t ahead_ = 1;                           // steps that are copied before the loop
  // Of copies of boxes, in the order of the arrays; empty: there are none.
  std::vector<std::pair<uint32_t, BulkPlan>> bulk_;
  int64_t bulk_bytes_ = 0;  // of a step
  UOp first_thread_;        // whether this is the thread that begins them
  UOp thread_;              // its number, of dtype index
  UOp barriers_, free_;     // one of each for each part: it is filled; it may be filled
  std::optional<RolePlan> roles_;
  RoleLines role_lines_;
  absl::flat_hash_map<uint32_t, Array> arrays_;
  absl::flat_hash_map<size_t, bool> nested_;  // loops with copies -> they are in another loop
  std::vector<UOp> out_;
  absl::flat_hash_set<uint32_t> listed_, gone_;
  absl::flat_hash_map<uint32_t, UOp> made_;
};

}  // namespace

UOp Pipeline(ir::UOpContext& ctx, UOp linear, const PipelineWay& way) {
  return Pipeliner(ctx, linear, way).Run();
}

}  // namespace uopd::codegen
