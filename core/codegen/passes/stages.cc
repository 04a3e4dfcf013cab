// SPDX-License-Identifier: MIT
#include "core/codegen/passes/stages.h"

#include <algorithm>
#include <cmath>

#include "core/base/target/machine_facts.h"
#include "core/codegen/attention/online/online.h"
#include "core/codegen/passes/combine.h"
#include "core/codegen/passes/rebuild.h"
#include "core/ir/build.h"
#include "core/ir/shared_array.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::Op;
using ir::UOp;

constexpr int64_t kPanelBits = 8;  // the low bits of a PartialTag: the number of loops over panels

bool IsReplicated(UOp range) {
  return range.axis_type() == AxisType::UPCAST || range.axis_type() == AxisType::UNROLL ||
         range.axis_type() == AxisType::VECTOR;
}

int64_t ElementBytes(ir::Dtype d) {
  return ir::IsFloat(d) ? std::max<int64_t>(4, ir::ByteSize(d)) : ir::ByteSize(d);
}

// The layout of the array of one STAGE: [copy][index][lane].
struct Layout {
  std::vector<UOp> copies;  // UPCAST and UNROLL ranges; the last one varies fastest
  UOp lane;                 // a VECTOR range or null
  int64_t stride = 0;       // from copy to copy, in elements
  int64_t elements = 0;     // of the whole array

  int64_t Lanes() const { return lane ? lane.src(0).const_int() : 1; }
};

// The loops around that over key tiles of states: states are set anew in each of their iterations.
std::vector<UOp> LoopsAroundStates(const ir::UOpContext& ctx, UOp sink) {
  absl::flat_hash_map<uint32_t, std::vector<UOp>> along;
  for (UOp u : ir::Toposort(ctx, sink)) {
    std::vector<UOp>& mine = along[u.id()];
    if (u.Is(Op::RANGE) && !IsReplicated(u)) mine.push_back(u);
    for (UOp s : u.srcs()) {
      for (UOp r : along.at(s.id())) {
        if (std::find(mine.begin(), mine.end(), r) == mine.end()) mine.push_back(r);
      }
    }
    for (UOp r : u.closed()) std::erase(mine, r);
    if (ClosesStates(u)) return mine;
  }
  return {};
}

// Sets all elements of the array of a kThreadStage.
UOp StartOf(ir::UOpContext& ctx, UOp array, bool is_maximum) {
  const UOp value = ctx.Float(array.dtype(), is_maximum ? -INFINITY : 0);
  std::vector<UOp> stores;
  for (int64_t i = 0; i < (*ctx.ShapeOf(array))[0].const_int(); ++i)
    stores.push_back(ir::Store(ctx, ir::Index(ctx, array, ctx.Idx(i)), value));
  return stores.size() == 1 ? stores[0] : ctx.Make(Op::GROUP, ir::Dtype::Void, stores);
}

class Layouts {
 public:
  Layouts(ir::UOpContext& ctx, UOp sink) {
    absl::flat_hash_map<uint32_t, std::vector<UOp>> along;
    for (UOp u : ir::Toposort(ctx, sink)) {
      std::vector<UOp>& mine = along[u.id()];
      if (u.Is(Op::RANGE) && IsReplicated(u)) mine.push_back(u);
      for (UOp s : u.body()) {
        for (UOp r : along.at(s.id())) {
          if (std::find(mine.begin(), mine.end(), r) == mine.end()) mine.push_back(r);
        }
      }
      for (UOp r : u.closed()) std::erase(mine, r);
      if (u.Is(Op::STAGE)) layouts_[u.id()] = Make(u, mine);
    }
  }
  const Layout& Of(UOp stage) const { return layouts_.at(stage.id()); }

 private:
  static Layout Make(UOp stage, std::vector<UOp> open) {
    std::sort(open.begin(), open.end(), [](UOp a, UOp b) {
      return std::pair(a.axis_id(), a.id()) < std::pair(b.axis_id(), b.id());
    });
    Layout out;
    int64_t copies = 1;
    for (UOp r : open) {
      if (r.axis_type() == AxisType::VECTOR) {
        out.lane = r;
      } else {
        out.copies.push_back(r);
        copies *= r.src(0).const_int();
      }
    }
    // Copies are read together. So each starts on a cache line, and one line of padding avoids
    // strides that are a power of two, which would map all copies to the same cache set.
    const int64_t line = std::max<int64_t>(1, kCacheLineBytes / ElementBytes(stage.dtype()));
    out.stride = std::max<int64_t>(1, stage.arg().AsInt()) * out.Lanes();
    if (copies > 1) out.stride = (out.stride + line - 1) / line * line + line;
    out.elements = out.stride * copies;
    return out;
  }

  absl::flat_hash_map<uint32_t, Layout> layouts_;
};

}  // namespace

int64_t PartialTag(Op op, size_t panels) {
  return (static_cast<int64_t>(ir::Info(op).wire) << kPanelBits) + static_cast<int64_t>(panels);
}
Op PartialOp(int64_t tag) { return *ir::OpByWire(static_cast<uint64_t>(tag >> kPanelBits)); }
size_t PartialPanels(int64_t tag) {
  if (tag < 0) return 0;
  return static_cast<size_t>(tag & ((int64_t{1} << kPanelBits) - 1));
}

UOp LowerStages(ir::UOpContext& ctx, UOp sink) {
  const Layouts layouts(ctx, sink);
  absl::flat_hash_map<uint32_t, UOp> made;  // id of a RANGE -> its replacement
  // A state may be loaded before its copies are reached; their sizes are constant.
  const auto copy_of = [&](UOp r) {
    const auto it = made.find(r.id());
    return it == made.end() ? r : it->second;
  };
  auto place = [&](const Layout& l, UOp index) {
    UOp copy;
    for (UOp r : l.copies) {
      const UOp mine = copy_of(r);
      copy = copy ? Add(ctx, Mul(ctx, copy, r.src(0)), mine) : mine;
    }
    if (l.lane) index = Add(ctx, Mul(ctx, index, ctx.Idx(l.Lanes())), copy_of(l.lane));
    return copy ? Add(ctx, Mul(ctx, copy, ctx.Idx(l.stride)), index) : index;
  };
  const auto states = StatesOf(ctx, sink);
  // id of the BUFFER of a state -> its array; of a kThreadStage, also the array after it is set
  absl::flat_hash_map<uint32_t, UOp> arrays, starts;
  int64_t slot = 0;
  const auto array_of = [&](UOp stage) {
    const ir::AddrSpace space = IsSharedStage(stage) ? ir::AddrSpace::LOCAL : ir::AddrSpace::REG;
    return ir::Buffer(ctx, slot++, stage.dtype(),
                      ir::ShapeArg(ctx, ir::Dims{layouts.Of(stage).elements}), space);
  };
  absl::flat_hash_map<uint32_t, UOp> array_of_stage;
  const std::vector<UOp> around = LoopsAroundStates(ctx, sink);
  for (UOp u : ir::Toposort(ctx, sink)) {
    const auto it = states.find(u.id());
    if (it == states.end()) continue;
    const UOp array = array_of_stage[it->second.id()] = array_of(it->second);
    arrays[u.id()] = array;
    if (it->second.tag() != kThreadStage) continue;
    std::vector<UOp> after = {StartOf(ctx, array, u.slot() == 0)};
    after.insert(after.end(), around.begin(), around.end());
    starts[u.id()] = ir::After(ctx, array, after);
  }
  return Rebuild(ctx, sink, [&](UOp u, std::span<const UOp> s) -> UOp {
    if (u.Is(Op::RANGE)) return made[u.id()] = ctx.WithSources(u, s);
    if (const auto it = arrays.find(u.id()); it != arrays.end()) return it->second;
    if (u.Is(Op::AFTER) && u.src(1).Is(Op::RANGE) && starts.contains(u.src(0).id()))
      return ir::After(ctx, starts.at(u.src(0).id()), {s[1]});  // in the loop over key tiles
    if (u.Is(Op::INDEX) && MaybeState(u.src(0))) {
      const UOp stage = states.at(MaybeState(u.src(0)).id());
      return ir::Index(ctx, s[0], place(layouts.Of(stage), s[1]), s.size() == 3 ? s[2] : UOp(),
                       u.arg().AsInt());
    }
    if (u.Is(Op::INDEX) && u.src(0).Is(Op::STAGE)) {
      return ir::Index(ctx, s[0], place(layouts.Of(u.src(0)), s[1]), s.size() == 3 ? s[2] : UOp(),
                       u.arg().AsInt());
    }
    if (!u.Is(Op::STAGE)) return ctx.WithSources(u, s);
    const Layout& l = layouts.Of(u);
    const auto state = array_of_stage.find(u.id());
    const UOp buffer = state == array_of_stage.end() ? array_of(u) : state->second;
    const UOp gate = s[2].IsConstInt(1) ? UOp() : s[2];
    UOp value = s[0];
    if (const size_t panels = PartialPanels(u.tag()); panels > 0) {
      UOp later;  // this is not the first panel
      for (UOp r : s.subspan(3, panels)) {
        const UOp mine = ir::Lt(ctx, ctx.Idx(0), r);
        later = later ? ir::Alu(ctx, Op::OR, {later, mine}) : mine;
      }
      const UOp before = ir::Load(ctx, ir::Index(ctx, buffer, place(l, s[1]), later));
      // The gate keeps the load inside of the loops over panels; the array holds nothing before.
      value = ir::Where(ctx, later, Combine(ctx, PartialOp(u.tag()), value, before), value);
    }
    UOp statement = ir::Store(ctx, ir::Index(ctx, buffer, place(l, s[1]), gate), value);
    std::vector<UOp> closed(s.begin() + 3, s.end());
    for (UOp r : l.copies) closed.push_back(copy_of(r));
    if (l.lane) closed.push_back(copy_of(l.lane));
    if (!closed.empty()) statement = ir::End(ctx, statement, closed);
    if (state != array_of_stage.end()) return statement;
    return ir::After(ctx, buffer, {statement});
  });
}

StagedSizes StagedBytes(ir::UOpContext& ctx, UOp sink) {
  const Layouts layouts(ctx, sink);
  StagedSizes out;
  ir::SharedLayout shared;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (!u.Is(Op::STAGE)) continue;
    const int64_t bytes = layouts.Of(u).elements * ElementBytes(u.dtype());
    if (IsSharedStage(u)) {
      shared.PlaceBytes(bytes);
    } else {
      out.thread_bytes += bytes;
    }
  }
  out.shared_bytes = shared.bytes();
  return out;
}

}  // namespace uopd::codegen
