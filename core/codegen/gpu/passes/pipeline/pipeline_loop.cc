// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/passes/pipeline/pipeline_loop.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/ir/analysis/polynomial.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/shared_array.h"
#include "core/ir/verify/spec.h"

namespace uopd::codegen {
namespace {

using ir::Op;
using ir::UOp;

constexpr int64_t kCopiedBytes = 16;

using StoredParams = absl::flat_hash_set<uint32_t>;  // the PARAMs that some line stores to

// Whether all lanes share the gate.
bool IsScalarGate(ir::UOpContext& ctx, UOp maybe_gate) {
  return !maybe_gate || ctx.ShapeOf(maybe_gate)->empty();
}

// Whether the STORE may be a copy that runs on its own.
bool IsOwnCopy(ir::UOpContext& ctx, UOp store, const StoredParams& stored) {
  const UOp to = store.src(0), load = store.src(1);
  if (!load.Is(Op::LOAD)) return false;
  const UOp from = load.src(0), base = ir::MaybeBaseOf(from.src(0));
  const int64_t n = to.arg().AsInt();
  if (!base.Is(Op::PARAM) || stored.contains(base.id()) || base.dtype() != to.dtype()) return false;
  if (from.arg().AsInt() != n || n * ir::ByteSize(to.dtype()) != kCopiedBytes) return false;
  for (UOp index : {to, from}) {
    if (!ir::MaybeDivided(ctx, index.src(1), n) || !IsScalarGate(ctx, MaybeGateOf(index)))
      return false;
  }
  return true;
}

// Whether a value is computed from loads of buffers that nothing stores to.
bool IsOfLoads(ir::UOpContext& ctx, UOp value, const StoredParams& stored) {
  bool loads = false;
  for (UOp u : ir::Toposort(ctx, value)) {
    if (u.Is({Op::BUFFER, Op::AFTER, Op::MMA, Op::WMMA, Op::SHUFFLE, Op::MATRIX_LOAD}))
      return false;
    if (!u.Is(Op::LOAD)) continue;
    const UOp base = ir::MaybeBaseOf(u.src(0).src(0));
    if (!base.Is(Op::PARAM) || stored.contains(base.id()) ||
        !IsScalarGate(ctx, MaybeGateOf(u.src(0))))
      return false;
    loads = true;
  }
  return loads;
}

// What the lines do with shared arrays, loop by loop. A loop is the number of the line of its
// RANGE; 0: none.
class PipelineScan {
 public:
  PipelineScan(ir::UOpContext& ctx, std::span<const UOp> lines, bool own)
      : ctx_(ctx), lines_(lines), own_(own) {
    for (UOp u : lines) {
      if (u.Is(Op::STORE) && ir::MaybeBaseOf(u.src(0).src(0)).Is(Op::PARAM))
        stored_.insert(ir::MaybeBaseOf(u.src(0).src(0)).id());
    }
    std::vector<size_t> open;
    for (size_t i = 0; i < lines.size(); ++i) {
      const UOp u = lines[i];
      if (u.Is(Op::RANGE)) open.push_back(i);
      if (u.Is(Op::END)) open.resize(open.size() - (u.n_src() - 1));
      if (u.Is(Op::GROUP_MMA)) groups_.emplace_back(open.empty() ? 0 : open.back(), u);
      if (u.Is(Op::MMA_WAIT)) waits_.push_back(open.empty() ? 0 : open.back());
      if (u.Is({Op::LOAD, Op::MATRIX_LOAD, Op::GROUP_MMA})) NoteReads(u, open);
      if (u.Is(Op::STORE)) NoteStore(u, open);
    }
  }

  // The first loop that has copies; nothing if there is none.
  std::optional<PipelineLoop> MaybeLoop() const {
    PipelineLoop out;
    for (UOp u : lines_) {
      if (!u.Is(Op::STORE)) continue;
      const auto it = arrays_.find(ir::MaybeBaseOf(u.src(0).src(0)).id());
      if (it == arrays_.end() || !it->second.can) continue;
      if (out.copies.empty()) out.begin = it->second.loop;
      if (it->second.loop == out.begin) out.copies.push_back(u);
    }
    if (out.copies.empty()) return std::nullopt;
    out.range = lines_[out.begin];
    out.nested = nested_.at(out.begin);
    for (UOp u : lines_) {
      if (u.Is(Op::RANGE)) out.free_axis = std::max(out.free_axis, u.axis_id() + 1);
      const auto it = arrays_.find(u.id());
      if (it == arrays_.end() || !it->second.can || it->second.loop != out.begin) continue;
      out.arrays.push_back({u, it->second.elements, it->second.loaded});
    }
    out.one_wait = waits_.size() == 1 && waits_[0] == out.begin;
    out.groups_read_parts = !groups_.empty();
    for (const auto& [loop, mma] : groups_) {
      out.groups.push_back(mma);
      out.groups_read_parts &= loop == out.begin && out.MaybeArray(mma.src(1).src(0)) &&
                               out.MaybeArray(mma.src(2).src(0));
    }
    return out;
  }

 private:
  struct Use {
    size_t loop = 0;  // the line of the RANGE that its STOREs are in
    bool can = true;  // every STORE is a copy
    int64_t elements = 0;
    bool loaded = false;  // as PipelineArray::loaded
  };

  // An array that lines outside of the loop read has no parts: the loop only fills it.
  void NoteReads(UOp u, std::span<const size_t> open) {
    for (UOp index : u.srcs()) {
      const UOp base = index.Is(Op::INDEX) ? ir::MaybeBaseOf(index.src(0)) : UOp();
      if (!base || !ir::IsShared(base)) continue;
      Use& use = arrays_[base.id()];
      use.loaded |= !u.Is(Op::GROUP_MMA);
      if (std::ranges::find(open, use.loop) == open.end()) use.can = false;
    }
  }

  void NoteStore(UOp u, std::span<const size_t> open) {
    const UOp base = ir::MaybeBaseOf(u.src(0).src(0));
    if (!ir::IsShared(base)) return;
    Use& use = arrays_[base.id()];
    if (open.empty() || (use.loop != 0 && use.loop != open.back()) || !IsCopy(u)) {
      use.can = false;
      return;
    }
    use.loop = open.back();
    use.elements = (*ctx_.ShapeOf(base))[0].const_int();
    nested_[open.back()] = open.size() > 1;
  }

  // Whether the STORE may be done ahead.
  bool IsCopy(UOp store) {
    return own_ ? IsOwnCopy(ctx_, store, stored_) : IsOfLoads(ctx_, store.src(1), stored_);
  }

  ir::UOpContext& ctx_;
  const std::span<const UOp> lines_;
  const bool own_;
  StoredParams stored_;
  absl::flat_hash_map<uint32_t, Use> arrays_;
  absl::flat_hash_map<size_t, bool> nested_;    // loops with copies -> they are in another loop
  std::vector<std::pair<size_t, UOp>> groups_;  // GROUP_MMAs, with the loops that they are in
  std::vector<size_t> waits_;                   // the loops that MMA_WAITs are in
};

// Finds the END of the loop. 0 if that END closes loops inside of this one, too.
size_t MaybeEndOf(std::span<const UOp> lines, const PipelineLoop& loop) {
  const auto inside = lines.subspan(loop.begin + 1);
  for (size_t i = loop.begin + 1; i < lines.size(); ++i) {
    if (!lines[i].Is(Op::END)) continue;
    const auto closed = lines[i].closed();
    if (std::ranges::find(closed, loop.range) == closed.end()) continue;
    const bool alone = std::ranges::none_of(
        closed, [&](UOp r) { return std::ranges::find(inside, r) != inside.end(); });
    return alone ? i : 0;
  }
  return 0;
}

}  // namespace

UOp MaybeGateOf(UOp index) { return index.n_src() == 3 ? index.src(2) : UOp(); }

const PipelineArray* PipelineLoop::MaybeArray(UOp array) const {
  const auto it = std::ranges::find(arrays, ir::MaybeBaseOf(array), &PipelineArray::buffer);
  return it == arrays.end() ? nullptr : &*it;
}

std::optional<PipelineLoop> MaybePipelineLoop(ir::UOpContext& ctx, std::span<const UOp> lines,
                                              bool own) {
  auto out = PipelineScan(ctx, lines, own).MaybeLoop();
  if (!out || own) return out;
  out->end = MaybeEndOf(lines, *out);
  return out->end == 0 ? std::nullopt : out;
}

}  // namespace uopd::codegen
