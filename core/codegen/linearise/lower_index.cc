// SPDX-License-Identifier: MIT
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/codegen/linearise/linearise.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;

// LowerIndex (linearise.h) in two walks over the lines: Decide chooses dtypes, Emit builds.
class IndexLowering {
 public:
  IndexLowering(ir::UOpContext& ctx, bool narrow) : ctx_(ctx), narrow_all_(narrow) {}

  UOp Run(UOp linear) {
    for (UOp u : linear.srcs()) {
      if (ctx_.Interrupted(4)) return linear;
      Decide(u);
    }
    for (UOp u : linear.srcs()) {
      if (ctx_.Interrupted(4)) return linear;
      Emit(u);
    }
    return ctx_.Make(Op::LINEAR, Dtype::Void, lines_);
  }

 private:
  static bool IsIndex(UOp u) { return u.dtype() == Dtype::Index; }
  static bool IsFixed(UOp u) { return u.Is({Op::PARAM, Op::BUFFER}); }
  bool IsVector(UOp u) {
    const ir::Shape* shape = ctx_.ShapeOf(u);
    return shape != nullptr && !shape->empty();
  }
  bool Fits32(UOp u) { return ctx_.BoundsOf(u).Within({INT32_MIN, INT32_MAX}); }

  // The dtype in which u needs its index operands.
  Dtype Wanted(UOp u) {
    if (u.Is({Op::CAST, Op::GEP}))
      return u.src(0).Is(Op::CONST) ? Dtype::I64 : dtype_.at(u.src(0).id());
    bool narrow = (narrow_all_ || (IsVector(u) && !u.Is(Op::INDEX))) && (!IsIndex(u) || Fits32(u));
    for (UOp s : u.srcs()) narrow = narrow && (!IsIndex(s) || Fits32(s));
    return narrow ? Dtype::I32 : Dtype::I64;
  }

  // First walk: chooses the dtype of each index line and notes which conversions of it other lines
  // need. A conversion directly follows its line, so it is available wherever the line is.
  void Decide(UOp u) {
    if (IsFixed(u)) {
      dtype_[u.id()] = u.dtype();
      return;
    }
    dtype_[u.id()] = u.Is(Op::DEFINE_VAR) ? Dtype::I64 : u.dtype();
    if (u.Is(Op::DEFINE_VAR)) return;
    bool any = IsIndex(u);
    for (UOp s : u.srcs()) any |= IsIndex(s);
    if (!any) return;
    const bool from_value = u.Is(Op::CAST) && !IsIndex(u.src(0));
    const Dtype wanted = from_value ? Dtype::I64 : Wanted(u);
    for (UOp s : u.srcs()) {
      if (!IsIndex(s) || s.Is(Op::CONST) || dtype_.at(s.id()) == wanted) continue;
      (wanted == Dtype::I32 ? narrow_ : wide_).insert(s.id());
    }
    if (IsIndex(u)) dtype_[u.id()] = from_value && IsVector(u) && Fits32(u) ? Dtype::I32 : wanted;
  }

  // The replacement of s in dtype `wanted`.
  UOp Get(UOp s, Dtype wanted) {
    if (s.Is(Op::CONST)) return ctx_.Int(wanted, s.const_int());
    const UOp made = made_.at(s.id());
    return made.dtype() == wanted ? made : cast_.at({s.id(), wanted});
  }

  void Emit(UOp u) {
    UOp made = u;
    if (u.Is(Op::DEFINE_VAR)) {
      // A variable keeps dtype index; all other lines use its conversion to i64.
      Line(u);
      made = ctx_.Make(Op::CAST, Dtype::I64, {u});
    } else if (!IsFixed(u)) {
      bool any = IsIndex(u);
      for (UOp s : u.srcs()) any |= IsIndex(s);
      const Dtype wanted = any && !(u.Is(Op::CAST) && !IsIndex(u.src(0))) ? Wanted(u) : Dtype::I64;
      std::vector<UOp> srcs;
      for (UOp s : u.srcs())
        srcs.push_back(IsIndex(s) ? Get(s, wanted) : s.Is(Op::CONST) ? s : made_.at(s.id()));
      const Dtype d = dtype_.at(u.id());
      made = u.Is(Op::CAST) && srcs[0].dtype() == d ? srcs[0]
                                                    : ctx_.Make(u.op(), d, srcs, u.arg(), u.tag());
    }
    made_[u.id()] = made;
    if (!made.Is(Op::CONST)) Line(made);
    if (narrow_.contains(u.id()))
      Line(cast_[{u.id(), Dtype::I32}] = ctx_.Make(Op::CAST, Dtype::I32, {made}));
    if (wide_.contains(u.id()))
      Line(cast_[{u.id(), Dtype::I64}] = ctx_.Make(Op::CAST, Dtype::I64, {made}));
  }
  void Line(UOp u) {
    if (listed_.insert(u.id()).second) lines_.push_back(u);
  }

  ir::UOpContext& ctx_;
  const bool narrow_all_;  // scalars too, wherever 32 bits hold the value
  absl::flat_hash_map<uint32_t, Dtype> dtype_;
  absl::flat_hash_set<uint32_t> narrow_, wide_;  // lines also needed as I32; also as I64
  absl::flat_hash_map<std::pair<uint32_t, Dtype>, UOp> cast_;
  absl::flat_hash_map<uint32_t, UOp> made_;
  absl::flat_hash_set<uint32_t> listed_;
  std::vector<UOp> lines_;
};

}  // namespace

UOp LowerIndex(ir::UOpContext& ctx, UOp linear, const Target& target) {
  return IndexLowering(ctx, target.narrow_index).Run(linear);
}

}  // namespace uopd::codegen
