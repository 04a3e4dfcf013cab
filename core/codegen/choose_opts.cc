// SPDX-License-Identifier: MIT
#include "core/codegen/choose_opts.h"

#include <algorithm>

#include "core/base/digest.h"
#include "core/base/text.h"
#include "core/codegen/estimate.h"
#include "core/codegen/opts/choose/draft_opts.h"
#include "core/codegen/opts/choose/heuristic.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/codegen/pass_table.h"
#include "core/ir/graph.h"
#include "core/ir/shape.h"
#include "core/rewrite/rewrite_trace.h"

namespace uopd::codegen {
namespace {

using ir::Op;
using ir::UOp;
using ir::UOpContext;

// The buffers of the kernel, by slot. A slot without a PARAM keeps dtype void.
absl::StatusOr<std::vector<BufferUse>> Buffers(UOpContext& ctx, UOp sink) {
  std::vector<BufferUse> out;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is(Op::PARAM)) {
      const auto slot = static_cast<size_t>(u.slot());
      if (slot >= out.size()) out.resize(slot + 1);
      if (out[slot].dtype != ir::Dtype::Void)
        return absl::InvalidArgumentError(Cat("kernel declares slot ", slot, " twice"));
      out[slot].dtype = u.dtype();
      out[slot].elements = ir::Product(ir::MaxDims(ctx, *ctx.ShapeOf(u)));
    } else if (u.Is({Op::LOAD, Op::STORE})) {
      const UOp base = u.src(0).src(0);
      if (!base.Is(Op::PARAM)) continue;
      BufferUse& use = out[static_cast<size_t>(base.slot())];
      (u.Is(Op::LOAD) ? use.read : use.written) = true;
    }
  }
  return out;
}

// "e" (elementwise) or "r" (has a reduction), the sizes of the axes and a hash of the kernel and
// its opts: r_512_512_512_1a2b3c4d. A C identifier.
std::string KernelName(const UOpContext& ctx, UOp sink, std::span<const Opt> opts) {
  bool reduces = false;
  std::string sizes;
  for (UOp r : Axes(ctx, sink)) {
    reduces |= r.axis_type() == ir::AxisType::REDUCE;
    Append(sizes, "_", r.src(0).Is(Op::CONST) ? Cat(r.src(0).const_int()) : std::string("n"));
  }
  // Sources are hashed as positions in this walk, not as node ids: ids depend on the other nodes of
  // the context.
  absl::flat_hash_map<uint32_t, uint64_t> position;
  uint64_t h = 0;
  for (UOp u : ir::Toposort(ctx, sink)) {
    h = Mix(h, uint64_t(ir::Info(u.op()).wire) << 8 | uint64_t(u.dtype()));
    const ir::ArgSchema schema = Info(u.op()).arg;
    const bool data = schema != ir::ArgSchema::None && schema != ir::ArgSchema::Const &&
                      schema != ir::ArgSchema::Int;
    if (!data) {
      h = Mix(h, u.arg().bits);
    } else if (u.arg().bits != 0) {
      for (int64_t v : u.ints()) h = Mix(h, static_cast<uint64_t>(v));
      for (char c : u.text()) h = Mix(h, static_cast<uint8_t>(c));
    }
    for (UOp s : u.srcs()) h = Mix(h, position.at(s.id()));
    const uint64_t at = position.size();
    position[u.id()] = at;
  }
  for (const Opt& opt : opts) {
    const StoredOpt o = Stored(opt);
    h = Mix(Mix(h, o.kind << 32 | uint64_t(uint32_t(o.axis))), static_cast<uint64_t>(o.amount));
  }
  std::string digits;
  for (int i = 0; i < 8; ++i) digits += "0123456789abcdef"[h >> (4 * i) & 15];
  if (sizes.size() > 60) sizes = Cat("_", Axes(ctx, sink).size(), "d");
  return Cat(reduces ? "r" : "e", sizes, "_", digits);
}

}  // namespace

std::vector<Opt> OptsOf(KernelWork& work) {
  const Options& options = work.options;
  if (options.opts != nullptr) return *options.opts;
  if (!options.noopt) {
    std::vector<Opt> chosen = HeuristicOpts(work.ctx, work.given, work.target);
    if (!options.draft) return chosen;
    std::vector<Opt> draft = DraftOpts(work.ctx, work.given, work.target, chosen);
    if (rewrite::TracesNotes())
      rewrite::TraceNote(Cat("a draft is compiled quickly with ", Text(draft)));
    return draft;
  }
  const auto choose_threads = MachineOf(work.target).maybe_choose_threads;
  return choose_threads ? choose_threads(work.ctx, work.given, work.target) : std::vector<Opt>();
}

void UseOpts(KernelWork& work, std::vector<Opt> opts) {
  work.kernel.name = KernelName(work.ctx, work.given, opts);
  work.kernel.opts = std::move(opts);
}

absl::Status ChooseOpts(KernelWork& work) {
  LoweredKernel& out = work.kernel;
  UOPD_ASSIGN(out.buffers, Buffers(work.ctx, work.root));
  out.variables.clear();
  work.largest.clear();
  for (const UOp v : ir::Variables(work.ctx, work.root)) {
    out.variables.emplace_back(v.text());
    work.largest.push_back(static_cast<int64_t>(work.ctx.BoundsOf(v).max));
  }
  const Estimate estimate = EstimateKernel(work.ctx, work.root);
  out.flops = estimate.flops;
  out.bytes = estimate.bytes;
  out.dtype = estimate.dtype;
  work.given = work.root;
  std::vector<Opt> opts = OptsOf(work);
  UOPD_TRY(work.ctx.CheckInterrupt());
  UseOpts(work, std::move(opts));
  return absl::OkStatus();
}

}  // namespace uopd::codegen
