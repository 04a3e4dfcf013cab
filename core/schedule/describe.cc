// SPDX-License-Identifier: MIT
#include "core/schedule/describe.h"

#include <algorithm>

#include "core/base/digest.h"
#include "core/base/text.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::OpSet;
using ir::UOp;

constexpr double kLoadWork = 4;    // of an element from memory, in operations
constexpr double kMaxWork = 1e12;  // chains of reused values double their work at every step
constexpr double kHeavyReuse =
    4;  // uses of an input by a reduction from which it is one of its own

constexpr OpSet kMemory = {Op::PARAM, Op::CONTIGUOUS, Op::COPY, Op::AFTER};

// Operations of one element of an op, relative to an addition.
double OpWork(UOp u) {
  switch (u.op()) {
    case Op::EXP2:
    case Op::LOG2:
      return 8;
    case Op::SIN:
    case Op::POW:
      return 20;
    case Op::SQRT:
    case Op::RECIPROCAL:
    case Op::FDIV:
    case Op::CDIV:
    case Op::CMOD:
    case Op::FLOORDIV:
    case Op::FLOORMOD:
      return 4;
    case Op::THREEFRY:
      return 80;
    default:
      return u.Is(ir::kElementwiseOps) ? 1 : 0;
  }
}

class Describer {
 public:
  Describer(ir::UOpContext& ctx, Fusion& f) : ctx_(ctx), f_(f) {}

  absl::Status Run(const FusionOptions& options) {
    default_device_ = Device(options.default_device);
    f_.info.resize(f_.order.size());
    for (uint32_t i = 0; i < f_.order.size(); ++i) {
      const UOp u = f_.order[i];
      NodeInfo& info = f_.info[i];
      UOPD_TRY(Place(u, info));
      info.elements = Elements(u);
      Weigh(u, info);
      if (options.in_memory != nullptr && (*options.in_memory)[i])
        info.memory_work = std::min(info.work, kLoadWork);
      else
        info.memory_work = info.work;
      Mark(i, u, info);
    }
    return absl::OkStatus();
  }

 private:
  int32_t Device(std::string_view name) {
    const auto it = std::find(f_.devices.begin(), f_.devices.end(), name);
    if (it != f_.devices.end()) return static_cast<int32_t>(it - f_.devices.begin());
    f_.devices.emplace_back(name);
    return static_cast<int32_t>(f_.devices.size()) - 1;
  }

  absl::Status Place(UOp u, NodeInfo& info) {
    if (u.Is(Op::PARAM)) {
      info.device = u.text().empty() ? default_device_ : Device(u.text());
      f_.slot_storage[u.slot()] = static_cast<int32_t>(f_.storages.size());
      f_.storages.push_back({Storage::kArgument, u.slot(), u.dtype(),
                             ir::MaxDims(ctx_, *ctx_.ShapeOf(u)), info.device, u});
      return absl::OkStatus();
    }
    if (u.Is(Op::COPY)) {
      info.device = Device(u.text());
      return absl::OkStatus();
    }
    if (u.Is(Op::STORE)) return absl::OkStatus();
    for (UOp s : ValueSources(u)) {
      const int32_t d = f_.at(s).device;
      if (d < 0) continue;
      if (info.device >= 0 && info.device != d) {
        return absl::InvalidArgumentError(
            Cat(ir::Name(u.op()), " mixes values on ", f_.devices[static_cast<size_t>(info.device)],
                " and ", f_.devices[static_cast<size_t>(d)], "; a COPY moves them to one device"));
      }
      info.device = d;
    }
    return absl::OkStatus();
  }

  double Elements(UOp u) {
    const ir::Shape* shape = ctx_.ShapeOf(u);
    if (shape == nullptr) return 0;
    double n = 1;
    for (UOp d : *shape)
      n *= d.Is(Op::CONST) ? static_cast<double>(d.const_int())
                           : static_cast<double>(ctx_.BoundsOf(d).max);
    return n;
  }

  void Weigh(UOp u, NodeInfo& info) {
    if (u.Is(kMemory)) {
      info.work = kLoadWork, info.leaves = info.elements;
      return;
    }
    double total = info.elements * OpWork(u);
    for (UOp s : ValueSources(u)) {
      const NodeInfo& from = f_.at(s);
      total += from.memory_work * from.elements;
      info.leaves += from.leaves;
    }
    if (u.Is(Op::REDUCE)) {
      total += f_.at(u.src(0)).elements;
      if (IsHeavy(u)) info.leaves = info.elements;
    }
    if (u.Is(ir::kMovementOps)) info.leaves = std::min(info.leaves, info.elements);
    info.work = info.elements > 0 ? std::min(total / info.elements, kMaxWork) : 0;
    info.leaves = std::min(info.leaves, 1e15);
  }

  bool IsHeavy(UOp reduce) const {
    const NodeInfo& from = f_.at(reduce.src(0));
    return from.elements > kHeavyReuse * from.leaves;
  }

  static void Add(NodeInfo& info, uint64_t mark) {
    if (info.reads.size() < kMaxReads &&
        std::find(info.reads.begin(), info.reads.end(), mark) == info.reads.end()) {
      info.reads.push_back(mark);
    }
  }

  // Marks are made of positions in the graph, never of ids.
  void Mark(uint32_t position, UOp u, NodeInfo& info) {
    const uint64_t self = Mix(0x5eed, position);
    if (u.Is(kMemory)) return Add(info, self);
    if (u.Is(Op::REDUCE)) {
      Add(info, self);
      if (IsHeavy(u)) return;
      for (uint64_t mark : f_.at(u.src(0)).reads) {
        for (int64_t a : u.reduce_axes()) mark = Mix(mark, static_cast<uint64_t>(a) + 1);
        Add(info, Mix(mark, 0xadd));
      }
      return;
    }
    if (u.Is(ir::kMovementOps)) {
      if (f_.at(u.src(0)).reads.empty()) return;
      uint64_t way = Mix(static_cast<uint64_t>(u.op()), 0);
      if (u.Is({Op::PERMUTE, Op::FLIP})) {
        for (int64_t v : u.ints()) way = Mix(way, static_cast<uint64_t>(v));
      }
      for (UOp s : u.srcs().subspan(1)) way = Mix(way, f_.position[s.id()]);
      for (uint64_t mark : f_.at(u.src(0)).reads) Add(info, Mix(mark, way));
      return;
    }
    if (!u.Is(ir::kElementwiseOps)) return;
    for (UOp s : u.srcs()) {
      if (f_.at(s).elements != info.elements) continue;  // it broadcasts
      for (uint64_t mark : f_.at(s).reads) Add(info, mark);
    }
  }

  ir::UOpContext& ctx_;
  Fusion& f_;
  int32_t default_device_ = 0;
};

}  // namespace

absl::Status Describe(ir::UOpContext& ctx, const FusionOptions& options, Fusion& f) {
  return Describer(ctx, f).Run(options);
}

}  // namespace uopd::schedule
