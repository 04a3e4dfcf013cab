// SPDX-License-Identifier: MIT
#include "core/schedule/lowering.h"

#include "core/ir/build.h"
#include "core/ir/eval.h"
#include "core/ir/graph.h"
#include "core/rules/ranges.h"

namespace uopd::schedule {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;
using ir::UOpContext;

class Lowerer {
 public:
  Lowerer(UOpContext& ctx, rewrite::Rewriter& simplify, Fusion& fusion)
      : ctx_(ctx), simplify_(simplify), f_(fusion) {}

  Lowered Run() {
    values_.resize(f_.order.size());
    for (size_t i = 0; i < f_.order.size(); ++i) {
      for (const Demand& d : f_.info[i].demands)
        values_[i].push_back(Value(f_.order[i], d, f_.info[i]));
    }
    for (uint32_t r = 0; r < f_.roots.size(); ++r) {
      if (!f_.roots[r].is_copy && !IsEmpty(f_.roots[r])) out_.kernels.push_back(MakeKernel(r));
    }
    return std::move(out_);
  }

 private:
  static bool IsEmpty(const Root& root) {
    for (UOp range : root.ranges) {
      if (range.src(0).IsConstInt(0)) return true;
    }
    return false;
  }

  uint32_t PlaceholderOf(int32_t storage, UOp after) {
    const auto key = std::pair(storage, after ? static_cast<int64_t>(after.id()) : -1);
    auto [it, fresh] =
        placeholder_.try_emplace(key, static_cast<uint32_t>(out_.placeholders.size()));
    if (fresh) {
      const Storage& s = f_.storages[storage];
      const int64_t elements = ir::Product(s.dims);
      const UOp node =
          ir::Buffer(ctx_, it->second, s.dtype, ir::ShapeArg(ctx_, std::span(&elements, 1)),
                     ir::AddrSpace::GLOBAL);
      out_.placeholders.push_back({storage, after, node});
    }
    return it->second;
  }

  UOp LoadFrom(int32_t storage, UOp after, const IndexList& index, UOp gate) {
    const UOp buffer = out_.placeholders[PlaceholderOf(storage, after)].node;
    return ir::Load(
        ctx_, ir::Index(ctx_, buffer, FlatIndex(ctx_, f_.storages[storage].dims, index), gate));
  }

  UOp SourceValue(UOp source, uint32_t demand) {
    return values_[f_.position.at(source.id())][demand];
  }

  UOp Value(UOp u, const Demand& d, const NodeInfo& info) {
    const bool own = info.realised >= 0 && d.root == static_cast<uint32_t>(info.realised);
    if (info.realised >= 0 && !own && !(u.Is(Op::PARAM) && d.after)) {
      return LoadFrom(f_.roots[info.realised].storage, UOp(), d.index, d.gate);
    }
    switch (u.op()) {
      case Op::PARAM:
        return LoadFrom(f_.slot_storage.at(u.slot()), d.after, d.index, d.gate);
      case Op::CONST:
      case Op::DEFINE_VAR:
        return u;
      case Op::IOTA:
        return ir::Cast(ctx_, d.index[static_cast<size_t>(u.arg().AsInt())], u.dtype());
      case Op::REDUCE:
        return Reduce(u, d);
      case Op::STACK:
        return Stack(u, d);
      case Op::PAD: {
        UOp gate = ctx_.Bool(true);
        SourceIndex(ctx_, u, d.index, gate);
        return ir::Where(ctx_, gate, SourceValue(u.src(0), d.sources[0]), ctx_.Const(u.dtype(), 0));
      }
      default:
        break;
    }
    if (!u.Is(ir::kElementwiseOps)) return SourceValue(u.src(0), d.sources[0]);
    ir::SymbolicDims operands;
    for (size_t i = 0; i < u.n_src(); ++i) operands.push_back(SourceValue(u.src(i), d.sources[i]));
    return ctx_.Make(u.op(), u.dtype(), operands);
  }

  UOp Reduce(UOp u, const Demand& d) {
    const UOp value = SourceValue(u.src(0), d.sources[0]);
    for (UOp range : d.reduce_ranges) {
      if (!range.src(0).IsConstInt(0)) continue;
      const ir::Scalar identity = ir::ReduceIdentity(u.reduce_op(), u.dtype());
      return ir::IsFloat(u.dtype()) ? ctx_.Float(u.dtype(), identity.f)
                                    : ctx_.Int(u.dtype(), identity.wide());
    }
    return d.reduce_ranges.empty() ? value
                                   : ir::ReduceRanges(ctx_, u.reduce_op(), value, d.reduce_ranges);
  }

  UOp Stack(UOp u, const Demand& d) {
    UOp out = SourceValue(u.src(u.n_src() - 1), d.sources.back());
    for (size_t i = u.n_src() - 1; i-- > 0;) {
      const UOp here = ir::Alu(ctx_, Op::CMPEQ, {d.index[0], ctx_.Idx(static_cast<int64_t>(i))});
      out = ir::Where(ctx_, here, SourceValue(u.src(i), d.sources[i]), out);
    }
    return out;
  }

  Kernel MakeKernel(uint32_t r) {
    const Root& root = f_.roots[r];
    Kernel k;
    k.root = r;
    k.write = PlaceholderOf(root.storage, root.node.Is(Op::STORE) ? root.node : UOp());
    const UOp target =
        ir::Index(ctx_, out_.placeholders[k.write].node,
                  FlatIndex(ctx_, f_.storages[root.storage].dims, root.index), root.gate);
    const UOp store = ir::Store(ctx_, target, SourceValue(root.value, root.demand));
    const UOp end = ir::End(ctx_, store, root.ranges);
    k.sink = simplify_.Run(ir::KernelSink(ctx_, std::span(&end, 1), ""));

    const UOp final_end = k.sink.src(0);
    const UOp final_store = final_end.Is(Op::END) ? final_end.src(0) : final_end;
    for (UOp u : ir::Toposort(ctx_, k.sink)) {
      if (!u.Is(Op::LOAD)) continue;
      const UOp index = u.src(0);
      const auto p = static_cast<uint32_t>(index.src(0).slot());
      if (std::find(k.reads.begin(), k.reads.end(), p) == k.reads.end()) k.reads.push_back(p);
      // A STORE whose gate was proven false is gone; then nothing is written.
      if (out_.placeholders[p].storage == root.storage && final_store.Is(Op::STORE) &&
          index.src(1) != final_store.src(0).src(1)) {
        k.hazard = true;
      }
    }
    return k;
  }

  UOpContext& ctx_;
  rewrite::Rewriter& simplify_;
  Fusion& f_;
  Lowered out_;
  std::vector<std::vector<UOp>> values_;  // by position, demand
  absl::flat_hash_map<std::pair<int32_t, int64_t>, uint32_t> placeholder_;
};

int CountDivisions(const UOpContext& ctx, UOp root) {
  int n = 0;
  for (UOp u : ir::Toposort(ctx, root)) n += u.Is(ir::OpSet{Op::FLOORDIV, Op::FLOORMOD});
  return n;
}

// Replaces two nested ranges a, b by one over both, if no index gets harder.
bool MergePair(UOpContext& ctx, rewrite::Rewriter& simplify, UOp& sink, UOp a, UOp b,
               int64_t& next_id) {
  if (!a.src(0).Is(Op::CONST) || !b.src(0).Is(Op::CONST) || a.axis_type() != b.axis_type())
    return false;
  const UOp inner = b.src(0);
  const ir::Int128 size = ir::Int128{a.src(0).const_int()} * inner.const_int();
  if (size >= ir::Int128{1} << 40) return false;
  const UOp merged = ir::Range(ctx, ctx.Int(Dtype::Index, size), next_id, a.axis_type());
  ir::Substitution map;
  map[a.id()] = ir::Alu(ctx, Op::FLOORDIV, {merged, inner});
  map[b.id()] = ir::Alu(ctx, Op::FLOORMOD, {merged, inner});
  // Loops close over ranges, not over expressions: END and REDUCE get the merged range instead of
  // the pair.
  absl::flat_hash_map<uint32_t, UOp> done;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (auto it = map.find(u.id()); it != map.end()) {
      done[u.id()] = it->second;
      continue;
    }
    ir::SymbolicDims srcs;
    const bool closes = u.Is(Op::END) || u.Is(Op::REDUCE);
    for (size_t i = 0; i < u.n_src(); ++i) {
      const UOp s = u.src(i);
      if (closes && i > 0 && s == a)
        srcs.push_back(merged);
      else if (closes && i > 0 && s == b)
        continue;
      else
        srcs.push_back(done.at(s.id()));
    }
    done[u.id()] = ctx.WithSources(u, srcs);
  }
  const UOp candidate = simplify.Run(done.at(sink.id()));
  if (CountDivisions(ctx, candidate) > CountDivisions(ctx, sink)) return false;
  sink = candidate;
  ++next_id;
  return true;
}

// Ranges closed by the same END or REDUCE, neighbours first to last, until nothing merges.
UOp MergeRanges(UOpContext& ctx, rewrite::Rewriter& simplify, UOp sink) {
  int64_t next_id = int64_t{1} << 32;
  for (bool again = true; again;) {
    again = false;
    for (UOp u : ir::Toposort(ctx, sink)) {
      if (!u.Is(Op::END) && !u.Is(Op::REDUCE)) continue;
      for (size_t i = 1; i + 1 < u.n_src() && !again; ++i)
        again = MergePair(ctx, simplify, sink, u.src(i), u.src(i + 1), next_id);
      if (again) break;
    }
  }
  return sink;
}

}  // namespace

Lowered LowerRoots(UOpContext& ctx, rewrite::Rewriter& simplify, Fusion& fusion) {
  return Lowerer(ctx, simplify, fusion).Run();
}

UOp FinishKernel(UOpContext& ctx, rewrite::Rewriter& simplify, const Lowered& lowered,
                 const Fusion& fusion, const Kernel& kernel, std::vector<int32_t>& storages) {
  const UOp tidy = rules::TidyRanges(ctx, simplify, kernel.sink, int64_t{1} << 33);
  const UOp sink = MergeRanges(ctx, simplify, tidy);
  ir::Substitution map;
  // The written buffer is PARAM 0; a buffer read in place is the same PARAM.
  storages = {lowered.placeholders[kernel.write].storage};
  int64_t next_range = 0;
  auto renumber = [&](UOp range) {
    if (map.contains(range.id())) return;
    map[range.id()] = ir::Range(ctx, range.src(0), next_range++, range.axis_type());
  };
  const auto order = ir::Toposort(ctx, sink);
  for (UOp u : order) {
    if (!u.Is(Op::END)) continue;
    for (size_t i = 1; i < u.n_src(); ++i) renumber(u.src(i));
  }
  for (UOp u : order) {
    if (u.Is(Op::RANGE)) renumber(u);
    if (!u.Is(Op::BUFFER)) continue;
    const int32_t storage = lowered.placeholders[static_cast<size_t>(u.slot())].storage;
    auto it = std::find(storages.begin(), storages.end(), storage);
    if (it == storages.end()) it = storages.insert(storages.end(), storage);
    map[u.id()] = ir::Param(ctx, it - storages.begin(), u.dtype(), u.src(0));
  }
  (void)fusion;
  return ir::Substitute(ctx, sink, map);
}

}  // namespace uopd::schedule
