// SPDX-License-Identifier: MIT
#include "core/schedule/fusion/describe.h"

#include <algorithm>

#include "core/base/digest.h"
#include "core/base/text.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::OpSet;
using ir::UOp;

constexpr double kMaxWork = 1e12;  // work is capped: it can double at every node of a chain
constexpr double kMaxLeaves = 1e15;
// A reduction whose terms are more than this many times its leaves is heavy.
constexpr double kHeavyReuse = 4;

constexpr OpSet kMemory = {Op::PARAM, Op::CONTIGUOUS, Op::SCAN, Op::COPY, Op::AFTER};

// Calls f once for every distinct value source of u.
template <class F>
void ForEachSource(UOp u, F f) {
  const auto sources = ValueSources(u);
  for (size_t i = 0; i < sources.size(); ++i) {
    bool again = false;
    for (size_t k = 0; k < i; ++k) again |= sources[k] == sources[i];
    if (!again) f(sources[i]);
  }
}

class Describer {
 public:
  Describer(ir::UOpContext& ctx, Fusion& f) : ctx_(ctx), f_(f) {}

  absl::Status Run(std::string_view default_device) {
    default_device_ = Device(default_device);
    for (size_t i = 0; i < f_.order.size(); ++i) {
      if (ctx_.Interrupted()) return ctx_.CheckInterrupt();
      const UOp u = f_.order[i];
      NodeInfo& info = f_.info[i];
      info.shape = ctx_.ShapeOf(u);
      UOPD_TRY(Place(u, info));
      FindBase(u, info);
      info.elements = Elements(info.shape);
      info.leaves = std::min(Leaves(u, info), kMaxLeaves);
    }
    PlaceTheRest();
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
      f_.storages.push_back({Storage::kArgument, u.slot(), u.dtype(), info.shape,
                             ir::Product(ir::MaxDims(ctx_, *info.shape)), info.device, u});
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

  void FindBase(UOp u, NodeInfo& info) const {
    if (u.Is(Op::PARAM)) {
      info.base = u;
      info.is_whole_base = true;
    }
    if (!u.Is(ir::kMovementOps) && !u.Is(Op::AFTER)) return;
    const NodeInfo& from = f_.at(u.src(0));
    info.base = from.base;
    if (!u.Is(Op::AFTER)) return;
    info.is_whole_base = from.is_whole_base;
    info.under = u.src(0).Is(Op::AFTER) ? from.under : u.src(0);
  }

  // Gives every value that needs no device the device of its users, which all have the same one
  // (place.h).
  void PlaceTheRest() {
    for (size_t i = f_.order.size(); i-- > 0;) {
      const UOp u = f_.order[i];
      const int32_t device = u.Is(Op::STORE) ? f_.at(u.src(0)).device : f_.info[i].device;
      for (UOp s : ValueSources(u)) {
        if (f_.at(s).device < 0 && !IsUniform(s)) f_.at(s).device = device;
      }
    }
  }

  double Elements(const ir::Shape* shape) {
    if (shape == nullptr) return 0;
    double n = 1;
    for (UOp d : *shape)
      n *= d.Is(Op::CONST) ? static_cast<double>(d.const_int())
                           : static_cast<double>(ctx_.BoundsOf(d).max);
    return n;
  }

  double Leaves(UOp u, NodeInfo& info) const {
    if (u.Is(kMemory)) return info.elements;
    if (u.Is(Op::REDUCE)) {
      const NodeInfo& from = f_.at(u.src(0));
      info.heavy = from.elements > kHeavyReuse * from.leaves;
      return info.heavy ? info.elements : from.leaves;
    }
    if (u.Is(ir::kMovementOps)) return std::min(f_.at(u.src(0)).leaves, info.elements);
    double leaves = 0;
    ForEachSource(u, [&](UOp s) { leaves += f_.at(s).leaves; });
    return leaves;
  }

  ir::UOpContext& ctx_;
  Fusion& f_;
  int32_t default_device_ = 0;
};

class Weigher {
 public:
  Weigher(ir::UOpContext& ctx, const Picks& picks, Fusion& f) : ctx_(ctx), picks_(picks), f_(f) {}

  void Run(const std::vector<bool>* in_memory) {
    for (uint32_t i = 0; i < f_.order.size() && !ctx_.Interrupted(); ++i) {
      NodeInfo& info = f_.info[i];
      info.rest = info.hoisted = 0;
      info.reads.resize(0);  // clear() would give the memory back
      FindProducts(i, f_.order[i], info);
      Weigh(i, f_.order[i], info);
      info.work = Total(info);
      info.hoisted = std::min(info.hoisted, info.work);
      info.in_memory = in_memory != nullptr && (*in_memory)[i];
      info.memory_work = info.in_memory ? std::min(info.work, kLoadWork) : info.work;
    }
  }

 private:
  static double Total(const NodeInfo& info) {
    double total = info.rest;
    for (const Read& r : info.reads) total += r.work;
    return std::min(total, kMaxWork);
  }

  // The mark of a node. It is made of the node's position, since ids differ between contexts.
  static uint64_t Self(uint32_t position) { return Mix(0x5eed, position); }

  static void Add(NodeInfo& info, Read read) {
    for (const Read& known : info.reads) {
      if (known.mark == read.mark) return;
    }
    if (info.reads.size() < kMaxReads)
      info.reads.push_back(read);
    else
      info.rest += read.work;
  }

  // Calls `add` for the reads of a consumer of u. If u is in memory, that is u itself; the reads of
  // u then cost nothing, but their marks still tell which values have them in common.
  template <class F>
  void ForReads(UOp u, F add) const {
    const NodeInfo& info = f_.at(u);
    if (info.in_memory) add(Read{Self(f_.position[u.id()]), info.memory_work});
    for (const Read& r : info.reads) add(info.in_memory ? Read{r.mark, 0} : r);
  }

  void FindProducts(uint32_t position, UOp u, NodeInfo& info) const {
    info.products.resize(0);
    if (u.Is(Op::REDUCE) && info.heavy) return info.products.push_back(position);
    if (u.Is(Op::STORE) || u.Is(Op::AFTER)) return;
    for (UOp s : ValueSources(u)) {
      const NodeInfo& from = f_.at(s);
      if (s.Is(kMemory) || from.in_memory) continue;
      for (uint32_t p : from.products) {
        if (info.products.size() == kMaxProducts) return;
        if (std::ranges::find(info.products, p) == info.products.end()) info.products.push_back(p);
      }
    }
  }

  // Computes rest, hoisted and reads.
  void Weigh(uint32_t position, UOp u, NodeInfo& info) {
    if (u.Is(kMemory)) return Add(info, {Self(position), kLoadWork});
    if (u.Is(Op::REDUCE)) {
      WeighReduce(position, u, info);
    } else if (u.Is(ir::kMovementOps)) {
      WeighMovement(u, info);
    } else {
      info.rest = OpWork(u);
      ForEachSource(u, [&](UOp s) {
        const NodeInfo& from = f_.at(s);
        if (from.elements == info.elements && u.Is(ir::kElementwiseOps)) {
          ForReads(s, [&](Read r) { Add(info, r); });
          if (!from.in_memory) {
            info.rest += from.rest;
            info.hoisted += from.hoisted;
          }
        } else if (info.elements > 0) {  // s is broadcast
          const double share = from.memory_work * std::min(1.0, from.elements / info.elements);
          info.rest += share;
          if (from.elements < info.elements) info.hoisted += share;
        }
      });
    }
    info.rest = std::min(info.rest, kMaxWork);
  }

  void WeighReduce(uint32_t position, UOp u, NodeInfo& info) {
    const NodeInfo& from = f_.at(u.src(0));
    const double terms = picks_.TermsOf(ctx_, position, u);
    Add(info, {Self(position), std::min((from.memory_work + 1) * terms, kMaxWork)});
    if (info.heavy) return;
    ForReads(u.src(0), [&](Read r) {
      for (int64_t a : u.reduce_axes()) r.mark = Mix(r.mark, static_cast<uint64_t>(a) + 1);
      Add(info, {Mix(r.mark, 0xadd), 0});
    });
  }

  void WeighMovement(UOp u, NodeInfo& info) {
    const NodeInfo& from = f_.at(u.src(0));
    const double used = info.elements > 0 ? std::min(1.0, from.elements / info.elements) : 0;
    if (!from.in_memory) {
      info.rest = from.rest * used;
      info.hoisted = from.hoisted * used;
    }
    if (from.reads.empty()) return;
    uint64_t way = Mix(static_cast<uint64_t>(u.op()), 0);
    if (u.Is({Op::PERMUTE, Op::FLIP})) {
      for (int64_t v : u.ints()) way = Mix(way, static_cast<uint64_t>(v));
    }
    for (UOp s : u.srcs().subspan(1)) way = Mix(way, f_.position[s.id()]);
    ForReads(u.src(0), [&](Read r) { Add(info, {Mix(r.mark, way), r.work * used}); });
  }

  ir::UOpContext& ctx_;
  const Picks& picks_;
  Fusion& f_;
};

}  // namespace

double OpWork(UOp u) {
  switch (u.op()) {
    case Op::EXP2:
    case Op::LOG2:
    case Op::EXP:
    case Op::LOG:
      return 8;
    case Op::POW:
      if (!ir::IsFloat(u.dtype())) return 3 * ir::Bits(u.dtype());  // by squaring
      [[fallthrough]];
    case Op::SIN:
    case Op::COS:
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

absl::StatusOr<Fusion> Describe(ir::UOpContext& ctx, std::vector<UOp> order,
                                std::string_view default_device) {
  Fusion f;
  f.order = std::move(order);
  f.position.resize(ctx.size());
  for (uint32_t i = 0; i < f.order.size(); ++i) f.position[f.order[i].id()] = i;
  f.info.resize(f.order.size());
  UOPD_TRY(Describer(ctx, f).Run(default_device));
  return f;
}

void Weigh(ir::UOpContext& ctx, const FusionOptions& options, Fusion& f) {
  Weigher(ctx, *options.picks, f).Run(options.in_memory);
}

}  // namespace uopd::schedule
