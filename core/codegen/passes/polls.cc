// SPDX-License-Identifier: MIT
#include "core/codegen/passes/polls.h"

#include <algorithm>
#include <bit>

#include "core/ir/graph.h"
#include "core/ir/spec.h"

namespace uopd::codegen {
namespace {

using ir::Op;
using ir::UOp;

// Nanoseconds of a slow core: an instruction; an access that may miss the nearest cache; a division
// or root; a call of the math library.
constexpr double kInstruction = 1, kAccess = 4, kDivision = 20, kCall = 100;

double LineNs(ir::UOpContext& ctx, UOp u, const Target& target) {
  if (!u.Is(ir::kElementwiseOps) && !u.Is({Op::LOAD, Op::STORE, Op::GEP, Op::STACK})) return 0;
  const UOp value = u.Is(Op::STORE) ? u.src(1) : u;
  const ir::Shape* shape = ctx.ShapeOf(value);
  const int64_t lanes = shape == nullptr || shape->empty() ? 1 : (*shape)[0].const_int();
  const double registers =
      std::max(1.0, static_cast<double>(lanes * std::max<int64_t>(1, ir::ByteSize(value.dtype()))) /
                        target.vector_bytes);
  switch (u.op()) {
    case Op::LOAD:
    case Op::STORE: {
      const bool in_memory = ir::MaybeBaseOf(u.src(0).src(0)).Is(Op::PARAM);
      return registers * (in_memory ? kAccess : kInstruction);
    }
    case Op::CDIV:
    case Op::CMOD:
    case Op::FDIV:
    case Op::SQRT:
      return registers * kDivision;
    case Op::EXP2:
    case Op::LOG2:
    case Op::SIN:
    case Op::POW:
      return static_cast<double>(lanes) * kCall;
    default:
      return registers * kInstruction;
  }
}

struct Loop {
  UOp range;
  double body_ns = 0;
  bool polls_inside = false;
};

double MostIterations(ir::UOpContext& ctx, UOp range) {
  return std::max(0.0, static_cast<double>(ctx.BoundsOf(range).max) + 1);
}

// How many iterations lie between two polls: a power of two, so that it divides many loops.
int64_t Interval(const Loop& loop) {
  const double wanted = kPollNs / std::max(loop.body_ns, kInstruction);
  return wanted < 2 ? 1 : static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(wanted)));
}

// Walks the loops; `visit` sees each with what its body costs, inner ones first, and says whether
// it polls. Returns what the whole program costs.
template <class Visit>
double Walk(ir::UOpContext& ctx, UOp linear, const Target& target, const Visit& visit) {
  std::vector<Loop> open(1);
  for (UOp u : linear.srcs()) {
    if (ctx.Interrupted()) return 0;
    if (u.Is(Op::RANGE)) {
      open.push_back({u});
    } else if (u.Is(Op::END)) {
      for (size_t i = 1; i < u.n_src(); ++i) {
        const Loop loop = open.back();
        open.pop_back();
        const double all = (loop.body_ns + kInstruction) * MostIterations(ctx, loop.range);
        open.back().body_ns += all;
        open.back().polls_inside |= visit(loop, all);
      }
    } else {
      open.back().body_ns += LineNs(ctx, u, target);
    }
  }
  return open[0].body_ns;
}

}  // namespace

double ProgramNs(ir::UOpContext& ctx, UOp linear, const Target& target) {
  return Walk(ctx, linear, target, [](const Loop&, double) { return false; });
}

UOp AddPolls(ir::UOpContext& ctx, UOp linear, const Target& target) {
  if (ProgramNs(ctx, linear, target) <= kLongNs) return linear;
  absl::flat_hash_map<uint32_t, int64_t> tags;
  Walk(ctx, linear, target, [&](const Loop& loop, double all) {
    if (all <= kPollNs || loop.polls_inside) return loop.polls_inside;
    tags[loop.range.id()] = Interval(loop);
    return true;
  });
  absl::flat_hash_map<uint32_t, UOp> made;
  std::vector<UOp> lines, srcs;
  for (UOp u : linear.srcs()) {
    if (ctx.Interrupted()) return linear;
    srcs.clear();
    for (UOp s : u.srcs()) {
      const auto it = made.find(s.id());
      srcs.push_back(it == made.end() ? s : it->second);  // constants and shapes stand in no line
    }
    const auto tag = tags.find(u.id());
    lines.push_back(
        ctx.Make(u.op(), u.dtype(), srcs, u.arg(), tag == tags.end() ? u.tag() : tag->second));
    made[u.id()] = lines.back();
  }
  return ctx.Make(Op::LINEAR, ir::Dtype::Void, lines);
}

}  // namespace uopd::codegen
