// SPDX-License-Identifier: MIT
#include "core/codegen/opt/apply.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/codegen/passes/rebuild.h"
#include "core/codegen/passes/stages.h"
#include "core/ir/build.h"
#include "core/ir/eval.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::Op;
using ir::UOp;
using ir::UOpContext;

constexpr int64_t kMaxUpcast = 64, kMaxUnroll = 64, kMaxVector = 64;

// One axis while opts are applied: the loop that is left, and what was split off, in order.
struct Axis {
  UOp range;
  int64_t size = -1;  // of what is left; -1 when symbolic
  UOp symbolic;       // its size as an expression
  bool is_reduce = false;
  bool padded = false;
  struct Part {
    AxisType type;
    int64_t amount;
    bool outer;
  };
  std::vector<Part> parts;
};

class Applier {
 public:
  Applier(UOpContext& ctx, UOp sink, const Target& target)
      : ctx_(ctx), sink_(sink), target_(target) {
    for (UOp r : Axes(ctx, sink)) {
      Axis a;
      a.range = r, a.symbolic = r.src(0), a.is_reduce = r.axis_type() == AxisType::REDUCE;
      if (r.src(0).Is(Op::CONST)) a.size = r.src(0).const_int();
      axes_.push_back(a);
    }
  }

  absl::Status Apply(const Opt& opt) {
    auto bad = [&](std::string_view why) {
      return absl::InvalidArgumentError(Cat("opt ", Text(opt), " does not apply: ", why));
    };
    if (opt.axis < 0 || opt.axis >= static_cast<int>(axes_.size()))
      return bad(Cat("the kernel has ", axes_.size(), " axes"));
    Axis& axis = axes_[opt.axis];
    const int64_t amount = opt.amount == 0 ? axis.size : opt.amount;
    if (amount < 1)
      return bad(opt.amount == 0 ? "the axis has a symbolic size" : "the amount is negative");
    const bool divides = axis.size >= 0 && axis.size % amount == 0;
    if (axis.size >= 0 && amount > std::max<int64_t>(axis.size, 1) && opt.kind != OptKind::kVector)
      return bad(Cat("the axis has ", axis.size, " iterations left"));
    switch (opt.kind) {
      case OptKind::kUpcast:
        if (axis.is_reduce) return bad("the axis is reduced; UNROLL is for those");
        if (amount > kMaxUpcast) return bad(Cat("more than ", kMaxUpcast));
        return Split(axis, {AxisType::UPCAST, amount, false}, divides);
      case OptKind::kUnroll:
        if (!axis.is_reduce) return bad("the axis is not reduced; UPCAST is for those");
        if (amount > kMaxUnroll) return bad(Cat("more than ", kMaxUnroll));
        return Split(axis, {AxisType::UNROLL, amount, false}, divides);
      case OptKind::kVector:
        if (amount > kMaxVector || (amount & (amount - 1)) != 0)
          return bad(Cat("lanes are a power of two up to ", kMaxVector));
        for (const Axis::Part& p : axis.parts) {
          if (p.type == AxisType::VECTOR) return bad("the axis is a vector already");
          if (p.type != AxisType::THREAD)
            return bad("VECTOR comes before UPCAST and UNROLL of its axis");
        }
        return Split(axis, {AxisType::VECTOR, amount, false}, divides);
      case OptKind::kThread:
        if (axis.is_reduce) return bad("the axis is reduced");
        if (threaded_) return bad("the kernel has THREADs already");
        if (amount > target_.threads)
          return bad(Cat("the target has ", target_.threads, " threads"));
        if (axis.size < 0) return bad("the axis has a symbolic size");
        if (!InEveryEnd(axis.range)) return bad("some store is outside of the axis");
        threaded_ = true;
        return Split(axis, {AxisType::THREAD, amount, true}, divides);
    }
    return bad("unknown kind");
  }

  UOp Run() {
    int64_t id = 0;
    for (Axis& a : axes_) {
      const UOp size = a.size >= 0 ? ctx_.Idx(a.size) : a.symbolic;
      std::vector<UOp> made;
      UOp value = ctx_.Idx(0);
      auto add = [&](UOp range, int64_t stride) {
        made.push_back(range);
        value = rules::IndexSum(ctx_, value, rules::IndexProduct(ctx_, range, ctx_.Idx(stride)));
      };
      // What one step of the loop that is left is worth, and of a part: everything inside of it.
      int64_t stride = 1;
      for (const Axis::Part& p : a.parts) stride *= p.outer ? 1 : p.amount;
      if (a.size != 1) add(Range(ctx_, size, id++, a.range.axis_type()), stride);
      // The part split off last lies directly inside the loop that is left.
      for (size_t i = a.parts.size(); i-- > 0;) {
        const Axis::Part& p = a.parts[i];
        if (!p.outer) stride /= p.amount;
        add(Range(ctx_, ctx_.Idx(p.amount), id++, p.type), p.outer ? OuterStride(a, i) : stride);
      }
      values_[a.range.id()] = value;
      ranges_[a.range.id()] = made;
      if (a.padded) valid_[a.range.id()] = Lt(ctx_, value, a.range.src(0));
    }
    for (size_t i = 0; i < axes_.size(); ++i) bit_[axes_[i].range.id()] = i;
    return Rewrite();
  }

 private:
  absl::Status Split(Axis& axis, Axis::Part part, bool divides) {
    if (part.amount == 1) return absl::OkStatus();
    if (divides) {
      axis.size /= part.amount;
    } else {
      axis.padded = true;
      if (axis.size >= 0) {
        axis.size = (axis.size + part.amount - 1) / part.amount;
      } else {
        axis.symbolic =
            ir::Alu(ctx_, Op::FLOORDIV,
                    {Add(ctx_, axis.symbolic, ctx_.Idx(part.amount - 1)), ctx_.Idx(part.amount)});
      }
    }
    axis.parts.push_back(part);
    return absl::OkStatus();
  }

  // What one step of the THREAD part is worth: everything that was split off or left inside of it.
  int64_t OuterStride(const Axis& a, size_t at) const {
    int64_t n = a.size;
    for (size_t i = 0; i < a.parts.size(); ++i) n *= i == at ? 1 : a.parts[i].amount;
    return n;
  }

  bool InEveryEnd(UOp range) const {
    for (UOp root : sink_.srcs()) {
      if (!root.Is(Op::END) ||
          std::find(root.srcs().begin() + 1, root.srcs().end(), range) == root.srcs().end())
        return false;
    }
    return true;
  }

  // Which padded axes the nodes of the old graph depend on (REDUCE and STAGE close their own).
  UOp Rewrite() {
    absl::flat_hash_map<uint32_t, std::vector<bool>> deps;
    const auto order = ir::Toposort(ctx_, sink_);
    for (UOp u : order) {
      std::vector<bool> d(axes_.size(), false);
      for (UOp s : u.srcs()) {
        const auto& from = deps.at(s.id());
        for (size_t i = 0; i < d.size(); ++i) d[i] = d[i] || from[i];
      }
      if (u.Is(Op::RANGE)) d[bit_.at(u.id())] = true;
      for (UOp r : u.closed()) d[bit_.at(r.id())] = false;
      deps[u.id()] = d;
    }
    // Where the address of an INDEX or a STAGE is one of the kernel's. A STAGE stores in no
    // iteration that was added to its own ranges.
    auto valid_of = [&](UOp index) {
      UOp valid;
      std::vector<bool> d = deps.at(index.src(1).id());
      for (UOp r : index.closed()) d[bit_.at(r.id())] = true;
      for (size_t i = 0; i < d.size(); ++i) {
        auto it = valid_.find(axes_[i].range.id());
        if (d[i] && it != valid_.end()) valid = valid ? And(ctx_, valid, it->second) : it->second;
      }
      return valid;
    };
    return Rebuild(ctx_, sink_, [&](UOp u, std::span<const UOp> srcs) -> UOp {
      if (u.Is(Op::RANGE)) return values_.at(u.id());
      if (u.Is(Op::INDEX)) {
        UOp gate = srcs.size() == 3 ? srcs[2] : UOp();
        if (const UOp valid = valid_of(u)) gate = gate ? And(ctx_, gate, valid) : valid;
        return ir::Index(ctx_, srcs[0], srcs[1], gate, u.arg().AsInt());
      }
      if (!u.Is(ir::kClosingOps)) return rules::WithIndexSources(ctx_, u, srcs);
      std::vector<UOp> out(srcs.begin(), srcs.begin() + static_cast<std::ptrdiff_t>(u.n_body()));
      if (u.Is(Op::STAGE)) {
        if (const UOp valid = valid_of(u)) out[2] = And(ctx_, out[2], valid);
      }
      for (UOp r : u.closed()) {
        for (UOp made : ranges_.at(r.id())) out.push_back(made);
        auto it = valid_.find(r.id());
        if (u.Is(Op::REDUCE) && it != valid_.end()) {
          const ir::Scalar identity = ReduceIdentity(u.reduce_op(), u.dtype());
          const UOp otherwise = ir::IsFloat(u.dtype()) ? ctx_.Float(u.dtype(), identity.f)
                                                       : ctx_.Int(u.dtype(), identity.i);
          out[0] = Where(ctx_, it->second, out[0], otherwise);
        }
      }
      if (out.size() == 1) return out[0];
      return ctx_.Make(u.op(), u.dtype(), out, u.arg(), u.tag());
    });
  }

  UOpContext& ctx_;
  const UOp sink_;
  const Target& target_;
  std::vector<Axis> axes_;
  bool threaded_ = false;
  absl::flat_hash_map<uint32_t, UOp> values_, valid_;
  absl::flat_hash_map<uint32_t, std::vector<UOp>> ranges_;
  absl::flat_hash_map<uint32_t, size_t> bit_;
};

// No value may vary along two vectors: there is one lane dimension.
absl::Status CheckVectors(UOpContext& ctx, UOp sink) {
  absl::flat_hash_map<uint32_t, std::vector<UOp>> along;
  for (UOp u : ir::Toposort(ctx, sink)) {
    std::vector<UOp> mine;
    for (UOp s : u.srcs()) {
      for (UOp v : along.at(s.id())) {
        if (std::find(mine.begin(), mine.end(), v) == mine.end()) mine.push_back(v);
      }
    }
    if (u.Is(Op::RANGE) && u.axis_type() == AxisType::VECTOR) mine.push_back(u);
    if (!u.Is({Op::END, Op::SINK, Op::GROUP}) && mine.size() > 1) {
      return absl::InvalidArgumentError(
          "opts do not apply: some value would vary along two VECTOR axes");
    }
    for (UOp r : u.closed()) std::erase(mine, r);
    along[u.id()] = mine;
  }
  return absl::OkStatus();
}

absl::Status CheckStages(UOpContext& ctx, UOp sink, const Target& target, bool for_opts) {
  const int64_t bytes = StagedBytes(ctx, sink);
  if (bytes <= target.private_bytes) return absl::OkStatus();
  const std::string text = Cat("the kernel would stage ", bytes,
                               " bytes; a thread of the target has ", target.private_bytes);
  if (for_opts) return absl::InvalidArgumentError(Cat("opts do not apply: ", text));
  return absl::ResourceExhaustedError(text);
}

}  // namespace

std::vector<UOp> Axes(const UOpContext& ctx, UOp sink) {
  std::vector<UOp> out;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is(Op::RANGE)) out.push_back(u);
  }
  std::sort(out.begin(), out.end(), [](UOp a, UOp b) {
    return std::pair(a.axis_id(), a.id()) < std::pair(b.axis_id(), b.id());
  });
  return out;
}

absl::StatusOr<UOp> ApplyOpts(UOpContext& ctx, UOp sink, const Target& target,
                              std::span<const Opt> opts) {
  Applier applier(ctx, sink, target);
  for (const Opt& opt : opts) UOPD_TRY(applier.Apply(opt));
  const UOp out = applier.Run();
  UOPD_TRY(CheckVectors(ctx, out));
  UOPD_TRY(CheckStages(ctx, out, target, !opts.empty()));
  return out;
}

}  // namespace uopd::codegen
