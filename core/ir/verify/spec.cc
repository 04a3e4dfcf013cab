// SPDX-License-Identifier: MIT
#include "core/ir/verify/spec.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/container/flat_hash_map.h"
#include "core/base/config/debug_flags.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/ir/graph.h"
#include "core/ir/io/print.h"
#include "core/ir/shape.h"
#include "core/ir/verify/admit.h"
#include "core/ir/verify/op_rules.h"
#include "core/ir/verify/origin.h"

namespace uopd::ir {
namespace {

constexpr OpSet kLoweredOps =
    OpSet{Op::BUFFER,      Op::PARAM,         Op::DEFINE_VAR,   Op::SPECIAL,
          Op::SINK,        Op::AFTER,         Op::GROUP,        Op::STACK,
          Op::LINEAR,      Op::INDEX,         Op::LOAD,         Op::STORE,
          Op::GEP,         Op::BARRIER,       Op::REDUCE,       Op::SCAN,
          Op::STAGE,       Op::WMMA,          Op::WMMA_BLOCK,   Op::MMA,
          Op::MATRIX_LOAD, Op::ASYNC_COPY,    Op::ASYNC_COMMIT, Op::ASYNC_WAIT,
          Op::SHUFFLE,     Op::GROUP_PRODUCT, Op::GROUP_MMA,    Op::MMA_BEGIN,
          Op::MMA_COMMIT,  Op::MMA_WAIT,      Op::SHARED_FENCE, Op::BULK_INIT,
          Op::BULK_EXPECT, Op::BULK_COPY,     Op::BULK_WAIT,    Op::BULK_ARRIVE,
          Op::ROLE,        Op::ROLE_END,      Op::RANGE,        Op::END,
          Op::IF,          Op::ENDIF,         Op::CONST} |
    kElementwiseOps;

// Most pieces of a MULTI. Moving a value between two layouts may take kMaxPieces² copies.
constexpr size_t kMaxPieces = 64;
constexpr int64_t kMaxStage = 1 << 20;  // elements

bool IsIndexLike(Dtype d) { return d == Dtype::Index || d == Dtype::I32 || d == Dtype::I64; }
bool InTensor(Level level) { return level == Level::kTensor || level == Level::kClient; }
bool IsStored(Dtype d) { return d != Dtype::Void && d != Dtype::Index; }

// Data args: right length and every number in its range, so that the typed views of UOp are safe.
absl::Status VerifyArg(UOp u, Level level) {
  const ArgSchema schema = Info(u.op()).arg;
  auto bad = [&](std::string_view what) {
    return Invalid(Cat("arg of ", Name(u.op()), " is wrong: ", what));
  };
  if (schema == ArgSchema::None) return u.arg().bits == 0 ? absl::OkStatus() : bad("it takes none");
  if (schema == ArgSchema::Int) {
    const int64_t v = u.arg().AsInt();
    const int64_t limit = u.Is(Op::IOTA) ? kMaxRank - 1 : u.Is(Op::STAGE) ? kMaxStage : 4096;
    return v >= 0 && v <= limit ? absl::OkStatus() : bad(Cat("integer (", v, ") out of range"));
  }
  if (schema == ArgSchema::Const) {
    if (u.dtype() == Dtype::Void) return bad("void has no values");
    if (IsFloat(u.dtype())) {
      const double v = u.const_float();
      const bool same = Arg::Float(RoundTo(u.dtype(), v)) == u.arg();
      return same ? absl::OkStatus()
                  : bad(Cat("constant (", v, ") is not a value of ", Name(u.dtype())));
    }
    return WrapTo(u.dtype(), u.const_int()) == u.const_int()
               ? absl::OkStatus()
               : bad(Cat("constant (", u.const_int(), ") does not fit ", Name(u.dtype())));
  }
  if (u.arg().bits == 0)
    return schema == ArgSchema::Kernel ? absl::OkStatus() : bad("it is missing");
  const auto ints = u.ints();
  const auto text = u.text();
  const bool takes_text = schema == ArgSchema::Text || schema == ArgSchema::Param ||
                          schema == ArgSchema::Var || schema == ArgSchema::Kernel;
  if (!takes_text && !text.empty()) return bad("it has a text");
  if (text.size() > 256) return bad("its text is over 256 bytes");
  switch (schema) {
    case ArgSchema::Ints:
      if (u.Is(Op::MULTI))
        return ints.empty() || (ints.size() == 1 && ints[0] >= 0) ? absl::OkStatus()
                                                                  : bad("it is an axis or nothing");
      return ints.size() <= kMaxRank ? absl::OkStatus() : bad("it is too long");
    case ArgSchema::Text:
      return ints.empty() && !text.empty() ? absl::OkStatus() : bad("it is one text");
    case ArgSchema::Kernel:
      return ints.size() == 1 && ints[0] == 1 ? absl::OkStatus() : bad("it is a name");
    case ArgSchema::Param:
      if (ints.size() != 2) return bad("it is {slot, address space, device}");
      if (ints[0] < 0 || (u.Is(Op::PARAM) && ints[0] >= 65536))
        return bad(Cat("slot (", ints[0], ") out of range"));
      return ints[1] >= 0 && ints[1] <= 2 ? absl::OkStatus()
                                          : bad(Cat("address space (", ints[1], ") unknown"));
    case ArgSchema::Var:
      if (text.empty()) return bad("the name is empty");
      if (IsFloat(u.dtype()))
        return ints.empty() ? absl::OkStatus() : bad("a float has no bounds: it is {name}");
      if (ints.size() != 2 || ints[0] > ints[1])
        return bad("it is {min, max, name} with min <= max");
      // Only in tensor graphs: rules make variables with other bounds, and variables of kernels may
      // hold the bits of a double.
      if (InTensor(level) && (ints[0] < -(int64_t{1} << 40) || ints[1] > int64_t{1} << 40))
        return bad("a bound is beyond 2^40");
      return absl::OkStatus();
    case ArgSchema::Reduce: {
      if (ints.empty()) return bad("it is {op, axes...}");
      auto op = OpByWire(static_cast<uint64_t>(ints[0]));
      if (!op || (*op != Op::ADD && *op != Op::MUL && *op != Op::MAX))
        return bad("the op is none of ADD, MUL, MAX");
      return ints.size() <= kMaxRank + 1 ? absl::OkStatus() : bad("it has too many axes");
    }
    case ArgSchema::Range:
    case ArgSchema::Special:
      if (ints.size() != 2 || ints[0] < 0) return bad("it is two integers");
      return ints[1] >= 0 && ints[1] < kAxisTypeCount ? absl::OkStatus() : bad("unknown axis type");
    default:
      return absl::OkStatus();
  }
}

absl::Status SameDtype(UOp u, size_t i, Dtype want) {
  if (u.src(i).dtype() == want) return absl::OkStatus();
  return Invalid(Cat("source ", i, " of ", Name(u.op()), " has dtype ", Name(u.src(i).dtype()),
                     ", not ", Name(want)));
}

absl::Status VerifyElementwise(UOp u) {
  const Dtype d = u.dtype();
  const Op op = u.op();
  if (op == Op::CAST)
    return u.src(0).dtype() != Dtype::Void && d != Dtype::Void ? absl::OkStatus()
                                                               : Invalid("CAST of or to void");
  if (op == Op::BITCAST) {
    const Dtype s = u.src(0).dtype();
    const bool fits =
        IsStored(d) && IsStored(s) && Bits(d) == Bits(s) && d != Dtype::Bool && s != Dtype::Bool;
    return fits ? absl::OkStatus()
                : Invalid(Cat("BITCAST from ", Name(s), " to ", Name(d),
                              ": both need the same width and no bool"));
  }
  if (op == Op::WHERE) {
    UOPD_TRY(SameDtype(u, 0, Dtype::Bool));
    UOPD_TRY(SameDtype(u, 1, d));
    return SameDtype(u, 2, d);
  }
  const Dtype operand = u.src(0).dtype();
  for (size_t i = 1; i < u.n_src(); ++i) UOPD_TRY(SameDtype(u, i, operand));
  const Dtype result = u.Is(kComparisonOps) ? Dtype::Bool : operand;
  if (d != result)
    return Invalid(
        Cat(Name(op), " of ", Name(operand), " gives ", Name(result), ", not ", Name(d)));
  if (operand == Dtype::Void) return Invalid(Cat(Name(op), " of a statement"));
  if (u.Is(kFloatOnlyOps) && !IsFloat(operand))
    return Invalid(Cat(Name(op), " takes floats, not ", Name(operand)));
  if (u.Is(kIntOnlyOps) && IsFloat(operand))
    return Invalid(Cat(Name(op), " takes integers, not ", Name(operand)));
  constexpr OpSet kNoBool = {Op::SUB,      Op::NEG, Op::CDIV, Op::CMOD,   Op::FLOORDIV,
                             Op::FLOORMOD, Op::SHL, Op::SHR,  Op::MULACC, Op::POW};
  if (operand == Dtype::Bool && u.Is(kNoBool)) return Invalid(Cat(Name(op), " of bool"));
  if (op == Op::POW && operand == Dtype::Index) return Invalid("POW of index");
  if (op == Op::THREEFRY && operand != Dtype::U64) return Invalid("THREEFRY takes u64");
  return absl::OkStatus();
}

absl::Status HasDtype(UOp u, Dtype wanted) {
  if (u.dtype() == wanted) return absl::OkStatus();
  return Invalid(Cat("dtype of ", Name(u.op()), " is ", Name(u.dtype()), ", not ", Name(wanted)));
}

absl::Status VerifyClosed(UOp u) {
  for (size_t i = u.n_body(); i < u.n_src(); ++i) {
    if (!u.src(i).Is(Op::RANGE))
      return Invalid(Cat("source ", i, " of ", Name(u.op()), " is no RANGE"));
  }
  return absl::OkStatus();
}

// True if two elements of a target may be the same element of memory, or if one may be padding.
bool Repeats(UOpContext& ctx, UOp target) {
  const UOpContext::Way way = ctx.WayOf(target);
  if (way.repeats || !way.from.Is(Op::MULTI)) return way.repeats;
  return std::any_of(way.from.srcs().begin(), way.from.srcs().end(),
                     [&](UOp piece) { return ctx.WayOf(piece).repeats; });
}

absl::Status VerifyStore(UOpContext& ctx, UOp u, Level level) {
  const UOp to = u.src(0);
  if (!InTensor(level) && to.Is(Op::INDEX)) {
    if (to.src(0).Is(Op::STAGE))
      return Invalid("STORE into a STAGE, which nothing but itself stores to");
  } else if ((!InTensor(level) && level != Level::kAny) || BasesOf(ctx, to).empty()) {
    return Invalid(
        Cat("STORE into ", Name(to.op()), ", which is no ", InTensor(level) ? "buffer" : "INDEX"));
  } else if (InTensor(level) && Repeats(ctx, to)) {
    return Invalid(
        "STORE through EXPAND or PAD: the elements of its target are not distinct elements of a "
        "buffer");
  }
  return SameDtype(u, 1, to.dtype());
}

absl::Status VerifyBind(UOp u) {
  const UOp variable = u.src(0);
  const Dtype d = u.dtype();
  if (!variable.Is(Op::DEFINE_VAR)) return Invalid("BIND binds a DEFINE_VAR");
  UOPD_TRY(HasDtype(u, variable.dtype()));
  if (u.n_src() == 1) return absl::OkStatus();
  const UOp value = u.src(1);
  if (!value.Is(Op::CONST) || value.dtype() != d) {
    return Invalid(Cat("BIND of ", Name(d), " binds to a CONST of it"));
  }
  if (IsFloat(d)) return absl::OkStatus();
  const auto range = variable.ints();
  if (value.const_int() < range[0] || value.const_int() > range[1]) {
    return Invalid(Cat("value (", value.const_int(), ") of variable ", variable.text(),
                       " is outside [", range[0], ", ", range[1], "]"));
  }
  return absl::OkStatus();
}

absl::Status VerifyIndex(UOp u) {
  UOPD_TRY(SameDtype(u, 0, u.dtype()));
  if (!IsIndexLike(u.src(1).dtype())) return Invalid(Cat("INDEX by ", Name(u.src(1).dtype())));
  if (MaybeBaseOf(u.src(0)) == UOp() && !u.src(0).Is(Op::STAGE)) {
    return Invalid(Cat("INDEX into ", Name(u.src(0).op()), ", which is no buffer"));
  }
  return u.n_src() == 3 ? SameDtype(u, 2, Dtype::Bool) : absl::OkStatus();
}

absl::Status VerifyReduce(UOp u, Level level) {
  if (!IsStored(u.dtype())) return Invalid(Cat("REDUCE of ", Name(u.dtype())));
  UOPD_TRY(VerifyClosed(u));
  if (InTensor(level) && u.n_src() != 1) return Invalid("REDUCE over ranges");
  if (!u.reduce_axes().empty() && (level == Level::kAny ? u.n_src() != 1 : !InTensor(level))) {
    return Invalid("REDUCE over axes");
  }
  return SameDtype(u, 0, u.dtype());
}

// In a tensor graph a SCAN runs along one axis, in a kernel over the RANGEs of that axis.
absl::Status VerifyScan(UOp u, Level level) {
  if (!IsStored(u.dtype())) return Invalid(Cat("SCAN of ", Name(u.dtype())));
  for (UOp r : u.scanned()) {
    if (!r.Is(Op::RANGE)) return Invalid("SCAN along something that is no RANGE");
  }
  const bool axis = u.reduce_axes().size() == 1 && u.n_src() == 1;
  const bool ranges = u.reduce_axes().empty() && u.n_src() > 1;
  if (!(InTensor(level) ? axis : ranges || (axis && level == Level::kAny)))
    return Invalid(Cat("SCAN runs ", InTensor(level) ? "along one axis" : "over RANGEs"));
  return SameDtype(u, 0, u.dtype());
}

absl::Status VerifyStage(UOp u) {
  if (!IsStored(u.dtype())) return Invalid(Cat("STAGE of ", Name(u.dtype())));
  if (!IsIndexLike(u.src(1).dtype())) {
    return Invalid(Cat("STAGE at an index of dtype ", Name(u.src(1).dtype())));
  }
  UOPD_TRY(SameDtype(u, 2, Dtype::Bool));
  UOPD_TRY(VerifyClosed(u));
  return SameDtype(u, 0, u.dtype());
}

absl::Status VerifyAfter(UOpContext& ctx, UOp u, Level level) {
  if (InTensor(level)) {
    for (size_t i = 1; i < u.n_src(); ++i) {
      if (u.src(i).Is(Op::STORE)) continue;
      return Invalid(Cat("AFTER waits for STOREs, not ", Name(u.src(i).op())));
    }
    if (BasesOf(ctx, u).empty()) return Invalid("AFTER of a value that is no buffer");
  }
  return SameDtype(u, 0, u.dtype());
}

// Sources from the i-th on have the dtype of u.
absl::Status SameDtypes(UOp u, size_t i) {
  for (; i < u.n_src(); ++i) UOPD_TRY(SameDtype(u, i, u.dtype()));
  return absl::OkStatus();
}

absl::Status VerifyDtypes(UOpContext& ctx, UOp u, Level level) {
  const Dtype d = u.dtype();
  if (u.Is(kVoidOps) != (d == Dtype::Void))
    return Invalid(Cat("dtype of ", Name(u.op()), " is ", Name(d)));
  if (u.Is(kElementwiseOps)) return VerifyElementwise(u);
  switch (u.op()) {
    case Op::BUFFER:
    case Op::PARAM:
      return IsStored(d) ? absl::OkStatus() : Invalid(Cat(Name(u.op()), " cannot hold ", Name(d)));
    case Op::CONST:
      return d != Dtype::Void ? absl::OkStatus() : Invalid("CONST of void");
    case Op::IOTA:
      return IsInt(d) && IsStored(d) ? absl::OkStatus()
                                     : Invalid(Cat("IOTA gives integers, not ", Name(d)));
    case Op::DEFINE_VAR:
      // In kernels, a float variable is an integer (core/schedule/prepare/prepare.h).
      if (IsFloat(d) && (InTensor(level) || level == Level::kAny)) return absl::OkStatus();
      return HasDtype(u, Dtype::Index);
    case Op::RANGE:
    case Op::SPECIAL:
      if (!IsIndexLike(d)) return Invalid(Cat("dtype of ", Name(u.op()), " is ", Name(d)));
      return SameDtype(u, 0, d);
    case Op::BIND:
      return VerifyBind(u);
    case Op::STACK:
      return SameDtypes(u, 0);
    case Op::INDEX:
      return VerifyIndex(u);
    case Op::LOAD:
      if (!u.src(0).Is(Op::INDEX)) return Invalid("LOAD of something that is no INDEX");
      return SameDtype(u, 0, d);
    case Op::STORE:
      return VerifyStore(ctx, u, level);
    case Op::REDUCE:
      return VerifyReduce(u, level);
    case Op::SCAN:
      return VerifyScan(u, level);
    case Op::STAGE:
      return VerifyStage(u);
    case Op::MMA:
      return VerifyMma(u);
    case Op::GROUP_PRODUCT:
      return VerifyGroupProduct(u);
    case Op::GROUP_MMA:
      return VerifyGroupMma(u);
    case Op::MMA_BEGIN:
    case Op::MMA_WAIT:
      return VerifyAccumulators(u);
    case Op::ASYNC_COPY:
      return VerifyAsyncCopy(u);
    case Op::BULK_INIT:
    case Op::BULK_EXPECT:
    case Op::BULK_COPY:
    case Op::BULK_WAIT:
    case Op::BULK_ARRIVE:
      return VerifyBulk(u);
    case Op::ROLE:
    case Op::ROLE_END:
      return VerifyRole(u);
    case Op::MATRIX_LOAD:
      return VerifyMatrixLoad(u);
    case Op::WMMA:
      return VerifyWmma(u);
    case Op::WMMA_BLOCK:
      return VerifyWmmaBlock(u);
    case Op::AFTER:
      return VerifyAfter(ctx, u, level);
    case Op::GEP:
    case Op::SHUFFLE:
      return SameDtype(u, 0, d);
    case Op::END:
      return VerifyClosed(u);
    case Op::MULTI:
      if (u.n_src() > kMaxPieces)
        return Invalid(Cat("MULTI of ", u.n_src(), " pieces; it takes up to ", kMaxPieces));
      UOPD_TRY(SameDtypes(u, 1));
      [[fallthrough]];
    case Op::DETACH:
      for (size_t i = 1; u.Is(Op::DETACH) && i < u.n_src(); ++i) UOPD_TRY(SameDtype(u, i, d));
      [[fallthrough]];
    case Op::COPY:
    case Op::CONTIGUOUS:
    case Op::CONTIGUOUS_BACKWARD:
      return IsStored(d) ? SameDtype(u, 0, d) : Invalid(Cat(Name(u.op()), " of ", Name(d)));
    default:
      return u.Is(kMovementOps) ? SameDtype(u, 0, d) : absl::OkStatus();
  }
}

absl::Status VerifyShapes(UOpContext& ctx, UOp u, Level level) {
  UOPD_TRY(ctx.TryShapeOf(u).status());
  if (u.Is(Op::STORE) && InTensor(level)) {
    const Shape target = *ctx.ShapeOf(u.src(0)), *value = ctx.ShapeOf(u.src(1));
    if (value == nullptr || !SameShape(target, *value))
      return Invalid("STORE of a value whose shape is not the target's");
  }
  for (size_t i = 1; u.Is(Op::DETACH) && i < u.n_src(); ++i) {
    if (!SameShape(*ctx.ShapeOf(u.src(0)), *ctx.ShapeOf(u.src(i))))
      return Invalid("DETACH of a value and a way or slope of another shape for its gradient");
  }
  if (u.Is(Op::IOTA) && u.arg().AsInt() >= static_cast<int64_t>(ctx.ShapeOf(u)->size()))
    return Invalid("IOTA along an axis that its shape lacks");
  if (u.Is(Op::SCAN) && InTensor(level)) {
    const int64_t axis = u.reduce_axes()[0];
    if (axis < 0 || axis >= static_cast<int64_t>(ctx.ShapeOf(u)->size()))
      return Invalid(Cat("SCAN along axis ", axis, ", which its source lacks"));
  }
  if (u.Is(Op::FLIP)) {
    int64_t last = -1;
    const auto rank = static_cast<int64_t>(ctx.ShapeOf(u.src(0))->size());
    for (int64_t a : u.ints()) {
      if (a <= last || a >= rank) return Invalid("FLIP of axes that do not ascend or do not exist");
      last = a;
    }
  }
  // Not at kAny: rules may make a node only to find out whether its bounds fit.
  if (u.dtype() == Dtype::Index && !u.Is(Op::STACK) && level != Level::kAny) {
    const Bounds b = ctx.BoundsOf(u);
    const IntRange full = RangeOf(Dtype::Index);
    if (b.min < full.min || b.max > full.max)
      return Invalid("index arithmetic can overflow 64 bits");
  }
  if (level == Level::kLinear && u.Is(Op::INDEX) && u.n_src() == 3) {
    const Shape* gate = ctx.ShapeOf(u.src(2));
    const bool fits = gate != nullptr && (gate->empty() || SameShape(*gate, *ctx.ShapeOf(u)));
    if (!fits) return Invalid("gate of an INDEX has neither one value nor one for each lane");
  }
  const bool ungated = u.Is(Op::STAGE) ? u.src(2).IsConstInt(1) : u.n_src() == 2;
  if (level == Level::kKernel && u.Is(OpSet{Op::INDEX, Op::STAGE}) && ungated &&
      u.src(1).dtype() == Dtype::Index) {
    const Bounds b = ctx.BoundsOf(u.src(1));
    const Shape* size = ctx.ShapeOf(u.Is(Op::STAGE) ? u : u.src(0));
    const Int128 elements = size != nullptr && size->size() == 1 ? ctx.BoundsOf((*size)[0]).max : 0;
    if (b.min < 0 || b.max >= elements) {
      return Invalid(Cat("index in [", b.min, ", ", b.max, "] can leave its buffer of ", elements,
                         " elements"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

UOp MaybeBaseOf(UOp u) {
  while (u.Is(kMovementOps) || u.Is(Op::AFTER)) u = u.src(0);
  return u.Is(Op::PARAM) || u.Is(Op::BUFFER) ? u : UOp();
}

UOp MaybeBaseOf(UOpContext& ctx, UOp target) {
  const UOp base = ctx.WayOf(target).from;
  return base.Is(Op::PARAM) || base.Is(Op::BUFFER) ? base : UOp();
}

absl::InlinedVector<UOp, 1> BasesOf(UOpContext& ctx, UOp target) {
  const UOp from = ctx.WayOf(target).from;
  absl::InlinedVector<UOp, 1> out;
  for (UOp piece : from.Is(Op::MULTI) ? from.srcs() : std::span<const UOp>(&from, 1)) {
    const UOp base = MaybeBaseOf(ctx, piece);
    if (!base) return {};
    out.push_back(base);
  }
  return out;
}

absl::Status VerifyNode(UOpContext& ctx, UOp u, Level level) {
  const OpInfo& info = Info(u.op());
  const OpSet allowed = level == Level::kTensor   ? kAdmittedOps
                        : level == Level::kClient ? kAdmittedOps | OpSet{Op::BUFFER}
                        : level == Level::kAny    ? kAdmittedOps | kLoweredOps
                                                  : kLoweredOps;
  if (!allowed.Has(u.op())) return Invalid(Cat("op ", info.name, " is not allowed here"));
  const auto n = static_cast<int>(u.n_src());
  if (n < info.min_src || n > info.max_src) {
    return Invalid(Cat(info.name, " has ", n, " sources; it takes ", info.min_src,
                       info.max_src == kMany          ? " or more"
                       : info.max_src == info.min_src ? ""
                                                      : Cat(" to ", info.max_src)));
  }
  UOPD_TRY(VerifyArg(u, level));
  UOPD_TRY(VerifyDtypes(ctx, u, level));
  if (InTensor(level)) UOPD_TRY(Admit(u, level == Level::kClient));
  return VerifyShapes(ctx, u, level);
}

absl::Status VerifyRoot(UOpContext& ctx, UOp root, Level level, UOp* culprit) {
  auto blame = [&](UOp u) {
    if (culprit != nullptr) *culprit = u;
  };
  if (level == Level::kLinear) {
    if (!root.Is(Op::LINEAR))
      return Invalid(Cat("root of a linear kernel is ", Name(root.op()), ", not LINEAR"));
    UOPD_TRY(VerifyBulkOrder(root, culprit));
    UOPD_TRY(VerifyRoles(root, culprit));
    return VerifyGroupOrder(root, culprit);
  }
  if (!root.Is(Op::SINK)) return Invalid(Cat("root is ", Name(root.op()), ", not SINK"));
  if (!InTensor(level)) return absl::OkStatus();
  if (root.n_src() == 0) return Invalid("SINK has no roots: there is nothing to compute");
  for (UOp r : root.srcs()) {
    if (!r.Is(Op::STORE) && !(r.Is(Op::AFTER) && !BasesOf(ctx, r).empty())) {
      return Invalid(Cat("SINK of ", Name(r.op()), ": roots are STOREs into PARAMs"));
    }
  }
  UOp highest;
  absl::flat_hash_map<int64_t, UOp> slots;
  absl::flat_hash_map<std::string, UOp> variables;
  for (UOp u : Toposort(ctx, root)) {
    if (u.Is(Op::PARAM)) {
      auto [it, fresh] = slots.try_emplace(u.slot(), u);
      if (!fresh && it->second != u) {
        blame(u);
        return Invalid(
            Cat("slot ", u.slot(), " is declared twice, with different dtype, shape or device"));
      }
      if (!highest || u.slot() > highest.slot()) highest = u;
    } else if (u.Is(Op::DEFINE_VAR)) {
      auto [it, fresh] = variables.try_emplace(std::string(u.text()), u);
      if (!fresh && it->second != u) {
        blame(u);
        return Invalid(Cat("variable ", u.text(), " is declared twice, with different bounds"));
      }
    }
  }
  const int64_t most = kFreeSlots + 2 * static_cast<int64_t>(slots.size());
  if (highest && highest.slot() >= most) {
    blame(highest);
    return Invalid(Cat("slot (", highest.slot(), ") of a graph with ", slots.size(),
                       " PARAMs is not below ", most,
                       "; slots are numbered from 0, with few gaps"));
  }
  return absl::OkStatus();
}

absl::Status Verify(UOpContext& ctx, UOp root, Level level) {
  const std::vector<UOp> order = Toposort(ctx, root);
  for (size_t i = 0; i < order.size(); ++i) {
    if (ctx.Interrupted(4)) return ctx.CheckInterrupt();
    if (absl::Status s = VerifyNode(ctx, order[i], level); !s.ok()) {
      return WithNode(s, {static_cast<int64_t>(i), PrintLine(order[i], order)});
    }
  }
  UOp culprit = root;
  absl::Status s = VerifyRoot(ctx, root, level, &culprit);
  if (s.ok()) return s;
  const auto at = std::find(order.begin(), order.end(), culprit) - order.begin();
  return WithNode(s, {at, PrintLine(culprit, order)});
}

absl::Status VerifyBorder(UOpContext& ctx, UOp root, Level level, std::string_view border) {
  if (Debug().spec < 1) return absl::OkStatus();
  absl::Status s = Verify(ctx, root, level);
  UOPD_TRY(ctx.CheckInterrupt());
  if (s.ok()) return s;
  return WithFrame(absl::InternalError(StatusText(s)), Cat("verifying ", border));
}

void UOpContext::CheckNew(UOp u) {
  absl::Status s;
  {
    // Shapes are made of constants, and need no check of their own.
    const UncheckedNodes unchecked(*this);
    s = VerifyNode(*this, u, Level::kAny);
  }
  if (s.ok()) return;
  auto line = [](UOp v) {
    const std::string arg = PrintArg(v);
    return Cat(PrintHead(v), arg.empty() ? "" : " ", arg, "\n");
  };
  std::string text = Cat("SPEC=2: a new node is wrong: ", StatusText(s), "\n  ", line(u));
  for (UOp v : u.srcs()) Append(text, "  of ", line(v));
  const std::string origin = OriginScope::Describe();
  if (!origin.empty()) Append(text, "  made by ", origin, "\n");
  std::fputs(text.c_str(), stderr);
  std::abort();
}

}  // namespace uopd::ir
