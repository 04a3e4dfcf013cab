// SPDX-License-Identifier: MIT
// The pipeline of scheduling: fuse, lower, order, and again with more values materialised while
// something is in the way.
#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/spec.h"
#include "core/ir/wire.h"
#include "core/rewrite/rewrite_trace.h"
#include "core/rules/rules.h"
#include "core/schedule/fusion.h"
#include "core/schedule/lowering.h"
#include "core/schedule/memory_plan.h"
#include "core/schedule/ordering.h"
#include "core/schedule/schedule.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::UOp;
using ir::UOpContext;

// Bound variables are variables here; markers for gradients mean nothing any more; a STORE of a
// CONTIGUOUS writes memory anyway.
UOp Prepare(UOpContext& ctx, UOp sink) {
  absl::flat_hash_map<uint32_t, UOp> done;
  ir::SymbolicDims srcs;
  for (UOp u : ir::Toposort(ctx, sink)) {
    srcs.clear();
    for (UOp s : u.srcs()) srcs.push_back(done.at(s.id()));
    if (u.Is(ir::OpSet{Op::BIND, Op::DETACH, Op::CONTIGUOUS_BACKWARD}))
      done[u.id()] = srcs[0];
    else
      done[u.id()] = ctx.WithSources(u, srcs);
  }
  return done.at(sink.id());
}

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
      : ctx_(ctx), options_(options), simplify_(ctx, rules::SymbolicRules()) {}

  absl::StatusOr<Schedule> Run(UOp sink) {
    sink = Prepare(ctx_, sink);
    absl::flat_hash_set<uint32_t> force;
    // Every round materialises at least one more PARAM or AFTER, of which there are finitely many.
    for (size_t round = 0; round < ctx_.size() + 1; ++round) {
      UOPD_ASSIGN(Fusion fusion, Fuse(ctx_, simplify_, sink,
                                      {options_.default_device, options_.realise_cost, &force}));
      Lowered lowered = LowerRoots(ctx_, simplify_, fusion);
      const size_t before = force.size();
      for (const Kernel& k : lowered.kernels) {
        if (k.hazard) ForceReads(fusion, lowered, k, force);
      }
      if (force.size() > before) continue;
      const Ordering ordering = OrderRoots(ctx_, fusion, lowered);
      if (ordering.snapshot.empty()) return Assemble(sink, fusion, lowered, ordering);
      force.insert(ordering.snapshot.begin(), ordering.snapshot.end());
      if (force.size() == before) break;
    }
    return absl::InternalError("scheduling found no order for the graph's stores");
  }

 private:
  // Copies of the states of the stored slot that the kernel reads elsewhere than where it writes.
  void ForceReads(Fusion& fusion, const Lowered& lowered, const Kernel& kernel,
                  absl::flat_hash_set<uint32_t>& force) {
    const int32_t storage = fusion.roots[kernel.root].storage;
    for (uint32_t p : kernel.reads) {
      const Placeholder& read = lowered.placeholders[p];
      if (read.storage != storage) continue;
      if (read.after) {
        force.insert(read.after.id());
        continue;
      }
      for (UOp u : fusion.order) {
        if (u.Is(Op::PARAM) && fusion.slot_storage.at(u.slot()) == storage) force.insert(u.id());
      }
    }
  }

  BufferRef RefOf(const Fusion& fusion, int32_t storage) {
    const Storage& s = fusion.storages[static_cast<size_t>(storage)];
    return {s.kind == Storage::kArgument ? BufferRef::kArgument : BufferRef::kTemporary, s.index};
  }

  absl::StatusOr<Schedule> Assemble(UOp sink, Fusion& fusion, const Lowered& lowered,
                                    const Ordering& ordering) {
    Schedule out;
    out.slots = DescribeSlots(ctx_, fusion.order, options_.default_device);
    for (UOp v : ir::Variables(ctx_, sink))
      out.variables.push_back({std::string(v.text()), v.ints()[0], v.ints()[1]});
    for (const Storage& s : fusion.storages) {
      if (s.kind == Storage::kTemporary)
        out.temporaries.push_back({s.device, ir::Product(s.dims) * ir::ByteSize(s.dtype), 0});
    }
    absl::flat_hash_map<uint32_t, const Kernel*> kernel_of;
    for (const Kernel& k : lowered.kernels) kernel_of[k.root] = &k;
    for (uint32_t r : ordering.roots) {
      const Root& root = fusion.roots[r];
      Item item;
      item.device = root.device;
      if (root.is_copy) {
        const NodeInfo& source = fusion.at(root.value);
        const int32_t from = source.realised >= 0 ? fusion.roots[source.realised].storage
                                                  : fusion.slot_storage.at(root.value.slot());
        item.kind = Item::kCopy;
        item.buffers = {RefOf(fusion, root.storage), RefOf(fusion, from)};
      } else {
        std::vector<int32_t> storages;
        const UOp kernel =
            FinishKernel(ctx_, simplify_, lowered, fusion, *kernel_of.at(r), storages);
        if (absl::Status s = ir::Verify(ctx_, kernel, ir::Stage::kKernel); !s.ok()) {
          return absl::InternalError(
              Cat("scheduling made a kernel that does not verify: ", StatusText(s)));
        }
        item.graph = ir::Encode(ctx_, kernel);
        for (int32_t s : storages) item.buffers.push_back(RefOf(fusion, s));
      }
      MarkUse(out, item, root, fusion, lowered, root.is_copy ? nullptr : kernel_of.at(r));
      out.items.push_back(std::move(item));
    }
    PlanMemory(out);
    return out;
  }

  // buffers[0] is written. It is read too when the kernel loads it, or when the STORE leaves some
  // of its elements as they were.
  void MarkUse(Schedule& out, const Item& item, const Root& root, const Fusion& fusion,
               const Lowered& lowered, const Kernel* kernel) {
    for (size_t i = 0; i < item.buffers.size(); ++i) {
      const BufferRef& b = item.buffers[i];
      if (b.kind != BufferRef::kArgument) continue;
      Slot& slot = out.slots[static_cast<size_t>(b.index)];
      (i == 0 ? slot.written : slot.read) = true;
    }
    if (kernel == nullptr || item.buffers[0].kind != BufferRef::kArgument) return;
    const Storage& s = fusion.storages[static_cast<size_t>(root.storage)];
    bool read = ir::Product(ir::MaxDims(ctx_, *ctx_.ShapeOf(root.value))) != ir::Product(s.dims);
    for (uint32_t p : kernel->reads) read |= lowered.placeholders[p].storage == root.storage;
    if (read) out.slots[static_cast<size_t>(s.index)].read = true;
  }

  UOpContext& ctx_;
  const Options& options_;
  rewrite::Rewriter simplify_;
};

}  // namespace

absl::StatusOr<Schedule> MakeSchedule(UOpContext& ctx, UOp sink, const Options& options) {
  const rewrite::TraceGroup group("schedule");
  UOPD_TRY(ir::VerifyBorder(ctx, sink, ir::Stage::kTensor, "the graph given to the scheduler"));
  return Builder(ctx, options).Run(sink);
}

}  // namespace uopd::schedule
