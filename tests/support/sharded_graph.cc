// SPDX-License-Identifier: MIT
#include "tests/support/sharded_graph.h"

#include <algorithm>
#include <random>

#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"

namespace uopd::test {
namespace {

using ir::Dims;
using ir::Op;
using ir::OpSet;
using ir::SymbolicDims;
using ir::UOp;
using ir::UOpContext;

// The part [begin, begin + length) of an array along an axis.
HostArray Part(const HostArray& a, size_t axis, int64_t begin, int64_t length) {
  Dims dims = a.dims;
  dims[axis] = length;
  HostArray out = HostArray::Zeros(a.dtype, dims);
  int64_t inner = 1, outer = 1;
  for (size_t i = 0; i < a.dims.size(); ++i)
    (i < axis ? outer : inner) *= i == axis ? 1 : a.dims[i];
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t k = 0; k < length * inner; ++k) {
      out.values[static_cast<size_t>(o * length * inner + k)] =
          a.values[static_cast<size_t>((o * a.dims[axis] + begin) * inner + k)];
    }
  }
  return out;
}

void PutPart(HostArray& a, size_t axis, int64_t begin, const HostArray& part) {
  int64_t inner = 1, outer = 1;
  for (size_t i = 0; i < a.dims.size(); ++i)
    (i < axis ? outer : inner) *= i == axis ? 1 : a.dims[i];
  const int64_t length = part.dims[axis];
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t k = 0; k < length * inner; ++k) {
      a.values[static_cast<size_t>((o * a.dims[axis] + begin) * inner + k)] =
          part.values[static_cast<size_t>(o * length * inner + k)];
    }
  }
}

class Sharder {
 public:
  Sharder(UOpContext& ctx, const GeneratedGraph& g, uint64_t seed, int devices)
      : ctx_(ctx), g_(g), random_(seed * 7 + 5), devices_(devices) {}

  ShardedGraph Run() {
    out_.splits.resize(g_.slots.size());
    const std::vector<UOp> order = ir::Toposort(ctx_, g_.sink);
    storage_.resize(ctx_.size());
    value_.resize(ctx_.size());
    for (UOp u : order) {
      if (u.Is(Op::STORE) && Partly(u.src(0))) kept_whole_.push_back(ir::MaybeBaseOf(u.src(0)));
    }
    for (UOp u : order) {
      const uint32_t id = u.id();
      if (u.Is(Op::PARAM)) {
        storage_[id] = value_[id] = Slot(u);
        continue;
      }
      SymbolicDims srcs, targets;
      for (size_t i = 0; i < u.n_src(); ++i) {
        const uint32_t s = u.src(i).id();
        const bool target = i == 0 && u.Is(OpSet{Op::STORE, Op::AFTER});
        srcs.push_back(target ? storage_[s] : value_[s]);
        targets.push_back(i == 0 && storage_[s] ? storage_[s] : value_[s]);
      }
      value_[id] = ctx_.WithSources(u, srcs);
      if (u.Is(ir::kMovementOps | OpSet{Op::AFTER})) storage_[id] = ctx_.WithSources(u, targets);
      const bool moves = u.dtype() != ir::Dtype::Void && u.dtype() != ir::Dtype::Index;
      if (moves && Pick(0, 7) == 0) value_[id] = Moved(value_[id]);
    }
    out_.sink = value_[g_.sink.id()];
    return std::move(out_);
  }

 private:
  int Pick(int lo, int hi) {
    return lo + static_cast<int>(random_() % static_cast<uint64_t>(hi - lo + 1));
  }
  std::string Device() { return Cat("CPU:", Pick(0, devices_ - 1)); }

  // Whether a target begins at a variable or has a symbolic size: then the pieces that it lies in
  // are not known.
  static bool Partly(UOp target) {
    for (; target.Is(ir::kMovementOps) || target.Is(Op::AFTER); target = target.src(0)) {
      if (!target.Is(Op::SHRINK)) continue;
      for (UOp s : target.src(1).srcs()) {
        if (!s.Is(Op::CONST)) return true;
      }
      for (UOp s : target.src(2).srcs()) {
        if (!s.Is(Op::CONST)) return true;
      }
    }
    return false;
  }

  // An axis of a fixed size; -1 if there is none, or by chance.
  int64_t Axis(ir::Shape shape) {
    std::vector<int64_t> axes;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i].Is(Op::CONST)) axes.push_back(static_cast<int64_t>(i));
    }
    if (axes.empty() || Pick(0, 3) == 0) return -1;
    return axes[static_cast<size_t>(Pick(0, static_cast<int>(axes.size()) - 1))];
  }

  // Random sizes that add up to n: seldom equal, sometimes 0.
  Dims Sizes(int64_t n, int pieces) {
    Dims cuts = {0, n}, out;
    for (int i = 1; i < pieces; ++i)
      cuts.push_back(Pick(0, 9) ? n * i / pieces : Pick(0, static_cast<int>(n)));
    std::sort(cuts.begin(), cuts.end());
    for (size_t i = 1; i < cuts.size(); ++i) out.push_back(cuts[i] - cuts[i - 1]);
    return out;
  }

  UOp NewSlot(UOp like, const SymbolicDims& dims, std::string_view device, HostArray array) {
    const auto slot = static_cast<int64_t>(out_.slots.size());
    out_.slots.push_back(std::move(array));
    return ir::Param(ctx_, slot, like.dtype(), ir::ShapeArg(ctx_, ir::Shape(dims)), device);
  }

  UOp Multi(std::span<const UOp> pieces, int64_t axis) {
    const Dims arg = axis < 0 ? Dims{} : Dims{axis};
    return ctx_.Make(Op::MULTI, pieces[0].dtype(), pieces, ctx_.Data(arg, ""));
  }

  UOp Slot(UOp param) {
    const auto number = static_cast<size_t>(param.slot());
    ShardedGraph::Split& split = out_.splits[number];
    const HostArray& whole = g_.slots[number];
    const ir::Shape shape = *ctx_.ShapeOf(param);
    SymbolicDims dims(shape.begin(), shape.end());
    if (Pick(0, 4) == 0) {
      split.slots = {out_.slots.size()};
      return NewSlot(param, dims, "", whole);
    }
    const bool keep = std::find(kept_whole_.begin(), kept_whole_.end(), param) != kept_whole_.end();
    split.axis = keep ? -1 : Axis(shape);
    const int n = Pick(1, devices_);
    std::vector<UOp> pieces;
    if (split.axis < 0) {
      for (int i = 0; i < n; ++i) {
        split.slots.push_back(out_.slots.size());
        pieces.push_back(NewSlot(param, dims, Cat("CPU:", i), whole));
      }
      return Multi(pieces, -1);
    }
    const auto axis = static_cast<size_t>(split.axis);
    int64_t at = 0;
    for (int64_t size : Sizes(whole.dims[axis], n)) {
      dims[axis] = ctx_.Idx(size);
      split.slots.push_back(out_.slots.size());
      pieces.push_back(NewSlot(param, dims, Device(), Part(whole, axis, at, size)));
      at += size;
    }
    return Multi(pieces, split.axis);
  }

  UOp Copy(UOp x, std::string_view device) {
    return ctx_.Make(Op::COPY, x.dtype(), {x}, ctx_.Data(std::span<const int64_t>(), device));
  }

  // The same value, on another device or in other pieces.
  UOp Moved(UOp x) {
    if (Pick(0, 2) == 0) return Copy(x, "CPU:0");
    const ir::Shape shape = *ctx_.ShapeOf(x);
    const int64_t axis = Axis(shape);
    const int n = Pick(1, devices_);
    std::vector<UOp> pieces;
    if (axis < 0) {
      for (int i = 0; i < n; ++i) pieces.push_back(Copy(x, Device()));
      return Multi(pieces, -1);
    }
    SymbolicDims starts(shape.size(), ctx_.Idx(0)), box(shape.begin(), shape.end());
    int64_t at = 0;
    const auto a = static_cast<size_t>(axis);
    for (int64_t size : Sizes(shape[a].const_int(), n)) {
      starts[a] = ctx_.Idx(at);
      box[a] = ctx_.Idx(size);
      pieces.push_back(Copy(ir::Shrink(ctx_, x, ir::ShapeArg(ctx_, ir::Shape(starts)),
                                       ir::ShapeArg(ctx_, ir::Shape(box))),
                            Device()));
      at += size;
    }
    return Multi(pieces, axis);
  }

  UOpContext& ctx_;
  const GeneratedGraph& g_;
  std::mt19937_64 random_;
  const int devices_;
  ShardedGraph out_;
  std::vector<UOp> kept_whole_;  // PARAMs
  std::vector<UOp> storage_;     // by id: as the target of a store; null if it cannot be one
  std::vector<UOp> value_;       // by id: as a value
};

}  // namespace

ShardedGraph ShardGraph(UOpContext& ctx, const GeneratedGraph& g, uint64_t seed, int devices) {
  return Sharder(ctx, g, seed, devices).Run();
}

absl::StatusOr<std::vector<HostArray>> JoinSlots(const GeneratedGraph& g, const ShardedGraph& graph,
                                                 const std::vector<HostArray>& slots) {
  std::vector<HostArray> out;
  for (size_t i = 0; i < graph.splits.size(); ++i) {
    const ShardedGraph::Split& split = graph.splits[i];
    HostArray& whole = out.emplace_back();
    if (split.slots.empty()) continue;  // not used
    whole = slots[split.slots[0]];
    if (split.axis < 0) {
      for (size_t s : split.slots) {
        for (size_t at : g.visible[i]) {
          if (slots[s].values[at] != whole.values[at])
            return absl::InternalError(Cat("slots ", split.slots[0], " and ", s, " differ"));
        }
      }
      continue;
    }
    const auto axis = static_cast<size_t>(split.axis);
    Dims dims = whole.dims;
    dims[axis] = 0;
    for (size_t s : split.slots) dims[axis] += slots[s].dims[axis];
    whole = HostArray::Zeros(whole.dtype, dims);
    int64_t at = 0;
    for (size_t s : split.slots) {
      PutPart(whole, axis, at, slots[s]);
      at += slots[s].dims[axis];
    }
  }
  return out;
}

}  // namespace uopd::test
