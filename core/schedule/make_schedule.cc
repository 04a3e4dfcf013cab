// SPDX-License-Identifier: MIT
// The pipeline of scheduling (docs/schedule.md lists its steps).
//
// Fusing, lowering and ordering are attempted again while an attempt fails. A failed attempt adds
// constraints on some nodes, and the next attempt keeps to them.
#include <algorithm>
#include <optional>

#include "core/base/telemetry/log.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"
#include "core/rewrite/rewrite_trace.h"
#include "core/rules/rules.h"
#include "core/schedule/fusion/describe.h"
#include "core/schedule/fusion/fusion.h"
#include "core/schedule/limits/limits.h"
#include "core/schedule/lowering/lowering.h"
#include "core/schedule/multi/multi_device.h"
#include "core/schedule/multi/place.h"
#include "core/schedule/plan/plan.h"
#include "core/schedule/prepare/forward_states.h"
#include "core/schedule/prepare/prepare.h"
#include "core/schedule/prepare/round_products.h"
#include "core/schedule/prepare/softmax_exp.h"
#include "core/schedule/prepare/softmax_product.h"
#include "core/schedule/prepare/split_softmax.h"
#include "core/schedule/prepare/strided_operands.h"
#include "core/schedule/schedule.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::UOp;
using ir::UOpContext;

// Rounds that may cut large kernels. One round is nearly always enough: a part exceeds the limits
// again only through values that several parts recompute.
constexpr int kMaxCutRounds = 8;

std::vector<Slot> DescribeSlots(UOpContext& ctx, const std::vector<UOp>& order,
                                const std::string& default_device) {
  std::vector<Slot> slots;
  for (UOp u : order) {
    if (!u.Is(Op::PARAM)) continue;
    if (slots.size() <= static_cast<size_t>(u.slot()))
      slots.resize(static_cast<size_t>(u.slot()) + 1);
    Slot& s = slots[static_cast<size_t>(u.slot())];
    const ir::Dims dims = ir::MaxDims(ctx, *ctx.ShapeOf(u));
    s = {u.dtype(),
         {dims.begin(), dims.end()},
         ir::Product(dims) * ir::ByteSize(u.dtype()),
         true,
         false,
         false,
         u.text().empty() ? default_device : std::string(u.text())};
  }
  return slots;
}

class Builder {
 public:
  Builder(UOpContext& ctx, const Options& options)
      : ctx_(ctx),
        options_(options),
        simplify_(ctx, rules::SymbolicRules()),
        accesses_(ctx, simplify_),
        lowering_(ctx, simplify_, accesses_) {}

  absl::StatusOr<Schedule> Run(UOp sink) {
    std::vector<UOp> order = ir::Toposort(ctx_, sink);
    DescribeArguments(order);
    auto replace = [&](UOp by) {
      if (by != order.back()) order = ir::Toposort(ctx_, by);
    };
    if (!variables_.empty()) replace(LowerFloatVariables(ctx_, order));
    UOPD_ASSIGN(const UOp resolved,
                ResolveMulti(ctx_, order, {options_.default_device, options_.ring_threshold}));
    replace(resolved);
    UOPD_TRY(ctx_.CheckInterrupt());
    replace(SeparateDevices(ctx_, order, options_.default_device));
    UOPD_TRY(ctx_.CheckInterrupt());
    replace(LowerSoftmaxExponentials(ctx_, order));
    replace(RoundProducts(ctx_, order, options_));
    UOPD_TRY(ctx_.CheckInterrupt());
    replace(SplitSoftmaxes(ctx_, order, options_));
    UOPD_TRY(ctx_.CheckInterrupt());
    replace(CopyStridedOperands(ctx_, accesses_, order));
    UOPD_TRY(ctx_.CheckInterrupt());
    replace(Prepare(ctx_, accesses_, order, options_));
    UOPD_TRY(ctx_.CheckInterrupt());
    UOPD_ASSIGN(std::optional<Schedule> made, Solve(order));
    if (made) return *std::move(made);
    UOPD_ASSIGN(const UOp forwarded, ForwardStates(ctx_, order));
    replace(forwarded);
    UOPD_ASSIGN(made, Solve(order));
    if (made) return *std::move(made);
    return UOPD_BUG("scheduling found no order for the graph's stores");
  }

 private:
  // Nullopt: no order of the kernels satisfies all reads and STOREs of the same slots.
  absl::StatusOr<std::optional<Schedule>> Solve(const std::vector<UOp>& order) {
    Constraints constraints;
    UOPD_ASSIGN(Fusion fusion, Describe(ctx_, order, options_.default_device));
    const Picks picks(ctx_, fusion.order);
    UOPD_TRY(ctx_.CheckInterrupt());
    FusionOptions fuse;
    fuse.realise_cost = options_.realise_cost;
    fuse.launch_cost = options_.launch_cost;
    fuse.stage_bytes = options_.stage_bytes;
    for (const std::string& device : fusion.devices)
      fuse.limits.push_back(options_.LimitsOf(device));
    fuse.constraints = &constraints;
    fuse.picks = &picks;
    const OnlineNodes online = FindOnlineNodes(ctx_, order, options_);
    fuse.online_rows = &online.rows;
    UOPD_TRY(Fuse(ctx_, accesses_, fuse, fusion));
    std::vector<bool> in_memory;
    for (const NodeInfo& info : fusion.info)
      in_memory.push_back(info.realised >= 0 || info.staged >= 0);
    fuse.in_memory = &in_memory;
    constraints.AddCuts(fusion);
    // Terminates: every further round adds a constraint on a node, and nodes are finitely many.
    for (int cuts = 0;;) {
      UOPD_TRY(Fuse(ctx_, accesses_, fuse, fusion));
      const size_t before = constraints.size();
      constraints.AddCuts(fusion);
      if (constraints.size() > before) continue;
      if (cuts++ < kMaxCutRounds) LimitSizes(fusion, fuse.limits, constraints);
      if (constraints.size() > before) continue;
      const std::vector<Kernel> kernels = lowering_.Run(fusion);
      UOPD_TRY(ctx_.CheckInterrupt());
      for (const Kernel& k : kernels) {
        const auto device = static_cast<size_t>(fusion.roots[k.root].device);
        const bool blocks = fuse.limits[device].units > 0;
        if (k.hazard) Separate(fusion, k, constraints);
        if (blocks && k.block_hazard) ReadCopies(fusion, k, constraints);
        LimitBuffers(fusion, k, static_cast<size_t>(fuse.limits[device].max_buffers), constraints);
      }
      if (constraints.size() > before) continue;
      const Ordering ordering = OrderRoots(fusion, kernels);
      UOPD_TRY(ctx_.CheckInterrupt());
      if (ordering.complete) return Assemble(fusion, kernels, ordering);
      constraints.realise.insert(ordering.missing.realise.begin(), ordering.missing.realise.end());
      constraints.alone.insert(ordering.missing.alone.begin(), ordering.missing.alone.end());
      if (constraints.size() == before) return std::nullopt;
    }
  }

  // Slots and variables of the graph as it was given, also those that passes remove from it.
  void DescribeArguments(const std::vector<UOp>& order) {
    slots_ = DescribeSlots(ctx_, order, options_.default_device);
    for (UOp v : order) {
      if (!v.Is(Op::DEFINE_VAR)) continue;
      const bool is_float = ir::IsFloat(v.dtype());
      variables_.push_back({std::string(v.text()), is_float ? INT64_MIN : v.ints()[0],
                            is_float ? INT64_MAX : v.ints()[1], v.dtype()});
    }
  }

  // For a kernel with a hazard: it reads a buffer that it stores, at another element. If the kernel
  // has several outputs, each gets a kernel of its own. If it has one, the states of the slot that
  // the kernel reads are realised, so that it reads copies of them.
  void Separate(const Fusion& fusion, const Kernel& kernel, Constraints& constraints) {
    const Root& root = fusion.roots[kernel.root];
    if (root.outputs.size() == 1) return ReadCopies(fusion, kernel, constraints);
    for (const Output& out : root.outputs) constraints.alone.insert(out.node.id());
  }

  // Realises the states that the kernel reads of slots that it stores, so that it reads copies of
  // them.
  void ReadCopies(const Fusion& fusion, const Kernel& kernel, Constraints& constraints) {
    for (const Output& out : fusion.roots[kernel.root].outputs) {
      for (uint32_t p : kernel.reads) {
        const Placeholder& read = kernel.placeholders[p];
        if (read.storage != out.storage) continue;
        const UOp node =
            read.after ? read.after : fusion.storages[static_cast<size_t>(out.storage)].param;
        constraints.realise.insert(node.id());
      }
    }
  }

  static BufferRef RefOf(const Fusion& fusion, int32_t storage) {
    const Storage& s = fusion.storages[static_cast<size_t>(storage)];
    return {s.kind == Storage::kArgument ? BufferRef::kArgument : BufferRef::kTemporary, s.index};
  }

  absl::StatusOr<Schedule> Assemble(const Fusion& fusion, const std::vector<Kernel>& kernels,
                                    const Ordering& ordering) {
    Schedule out;
    out.slots = slots_;
    out.variables = variables_;
    for (const Storage& s : fusion.storages) {
      if (s.kind == Storage::kTemporary)
        out.temporaries.push_back(
            {fusion.devices[static_cast<size_t>(s.device)], s.elements * ir::ByteSize(s.dtype), 0});
    }
    std::vector<const Kernel*> kernel_of(fusion.roots.size(), nullptr);
    for (const Kernel& k : kernels) kernel_of[k.root] = &k;
    const std::vector<bool> gaps = CopiedWithGaps(fusion);
    out.items.reserve(ordering.roots.size());
    for (uint32_t r : ordering.roots) {
      const Root& root = fusion.roots[r];
      for (const Output& o : root.outputs) {
        const auto storage = static_cast<size_t>(o.storage);
        if (!gaps[storage]) continue;
        out.items.push_back({Item::kClear,
                             fusion.devices[static_cast<size_t>(root.device)],
                             "",
                             {RefOf(fusion, o.storage)}});
      }
      Item item;
      item.device = fusion.devices[static_cast<size_t>(root.device)];
      if (root.is_copy) {
        const Placeholder from = CopySource(fusion, root);
        item.kind = Item::kCopy;
        item.buffers = {RefOf(fusion, root.outputs[0].storage), RefOf(fusion, from.storage)};
        item.from =
            root.copy_from * ir::ByteSize(fusion.storages[static_cast<size_t>(from.storage)].dtype);
        MarkRead(out, fusion, from);
      } else {
        const Kernel& kernel = *kernel_of[r];
        UOPD_ASSIGN(const FinishedKernel* finished, lowering_.Finish(kernel));
        item.graph = finished->graph;
        item.buffers.reserve(finished->placeholders.size());
        for (uint32_t p : finished->placeholders)
          item.buffers.push_back(RefOf(fusion, kernel.placeholders[p].storage));
        for (uint32_t p : kernel.reads) MarkRead(out, fusion, kernel.placeholders[p]);
      }
      for (const Output& o : root.outputs) MarkWritten(out, fusion, o);
      out.items.push_back(std::move(item));
    }
    PlanMemory(out);
    return out;
  }

  // The temporaries, by storage, that a copy reads and whose values have a variable size. A copy
  // takes all bytes, also the gaps that a run of a smaller size leaves in them.
  std::vector<bool> CopiedWithGaps(const Fusion& fusion) {
    std::vector<bool> out(fusion.storages.size(), false);
    for (const Root& root : fusion.roots) {
      if (!root.is_copy) continue;
      const auto from = static_cast<size_t>(CopySource(fusion, root).storage);
      const Storage& s = fusion.storages[from];
      out[from] = s.kind == Storage::kTemporary && !ir::StaticDims(*s.shape);
    }
    return out;
  }

  static Slot* SlotOf(Schedule& out, const Fusion& fusion, int32_t storage) {
    const Storage& s = fusion.storages[static_cast<size_t>(storage)];
    return s.kind == Storage::kArgument ? &out.slots[static_cast<size_t>(s.index)] : nullptr;
  }

  // Marks the slot as read, unless a STORE of this run has overwritten all of it before: only then
  // the contents before the run do not matter.
  static void MarkRead(Schedule& out, const Fusion& fusion, const Placeholder& from) {
    Slot* slot = SlotOf(out, fusion, from.storage);
    if (slot == nullptr) return;
    const UOp store = !from.after                ? UOp()
                      : from.after.Is(Op::STORE) ? from.after
                                                 : fusion.MaybeOnlyStore(from.after);
    bool overwritten = false;
    if (store) {
      const auto [r, o] = fusion.stores.at(store.id());
      overwritten = fusion.roots[r].outputs[o].covers;
    }
    slot->read |= !overwritten;
  }
  void MarkWritten(Schedule& out, const Fusion& fusion, const Output& o) {
    Slot* slot = SlotOf(out, fusion, o.storage);
    if (slot == nullptr) return;
    slot->written = true;
    // A STORE of a part keeps the rest of the old contents. So does a STORE of a value of variable
    // size: the slot's memory has the largest size, and a run of a smaller one leaves gaps.
    const Storage& s = fusion.storages[static_cast<size_t>(o.storage)];
    const auto dims = ir::StaticDims(*ctx_.ShapeOf(o.node.src(1)));
    slot->read |= !dims || ir::Product(*dims) != s.elements;
  }

  UOpContext& ctx_;
  const Options& options_;
  rewrite::Rewriter simplify_;
  Accesses accesses_;
  Lowering lowering_;
  std::vector<Slot> slots_;
  std::vector<Variable> variables_;
};

}  // namespace

absl::StatusOr<Schedule> MakeSchedule(UOpContext& ctx, UOp sink, const Options& options) {
  const rewrite::TraceGroup group("schedule");
  UOPD_TRY(ir::VerifyBorder(ctx, sink, ir::Level::kTensor, "the graph given to the scheduler"));
  return Builder(ctx, options).Run(sink);
}

}  // namespace uopd::schedule
