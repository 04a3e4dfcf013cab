// SPDX-License-Identifier: MIT
// Patterns as values: small constexpr objects built with operators that match UOps and build UOps.
//
//   constexpr Any<0> x;  constexpr Const<4> c;  constexpr Const<5> d;
//   rules.Add("div_div", (x / c) / d, x / (c * d), When(c > 0 && d > 0));
//
// On integers / is FLOORDIV and % is FLOORMOD; on the left-hand side a plain number matches a
// constant of that value in any dtype, on the right it becomes one of the dtype around it. A
// variable used twice must match the same node. Commutative ops are tried in both orders, with full
// backtracking. Matching is inlined per rule; nothing here allocates.
#pragma once
#include <array>
#include <bit>
#include <concepts>
#include <tuple>
#include <type_traits>

#include "core/ir/context.h"

namespace uopd::rewrite {

using ir::Arg;
using ir::Dtype;
using ir::Int128;
using ir::Op;
using ir::OpSet;
using ir::UOp;
using ir::UOpContext;

inline constexpr int kMaxVars = 8;

struct Match {
  std::array<UOp, kMaxVars> v;
  UOp root;
};

// A set of dtypes, one bit each.
using DtypeSet = uint32_t;
constexpr DtypeSet Only(Dtype d) { return DtypeSet{1} << static_cast<int>(d); }
inline constexpr DtypeSet kBools = Only(Dtype::Bool);
inline constexpr DtypeSet kIndexOnly = Only(Dtype::Index);
inline constexpr DtypeSet kFloats = Only(Dtype::F8E4M3) | Only(Dtype::F8E5M2) | Only(Dtype::F16) |
                                    Only(Dtype::BF16) | Only(Dtype::TF32) | Only(Dtype::F32) |
                                    Only(Dtype::F64);
inline constexpr DtypeSet kStoredInts = Only(Dtype::I8) | Only(Dtype::U8) | Only(Dtype::I16) |
                                        Only(Dtype::U16) | Only(Dtype::I32) | Only(Dtype::U32) |
                                        Only(Dtype::I64) | Only(Dtype::U64);
inline constexpr DtypeSet kInts = kStoredInts | kIndexOnly;
inline constexpr DtypeSet kNotFloat = kInts | kBools;

struct PatternTag {};
template <class T>
concept Pattern = std::is_base_of_v<PatternTag, std::remove_cvref_t<T>>;

// Members of a pattern:
//   kBinds     the variables that it binds, one bit each
//   kFoldable  true if it consists of integer constants only
//   Roots()    the ops that it can match
//   Eval       its value, if foldable
//   TypeIn     the dtype of the node that Make builds; Void if only the surrounding pattern knows
//   Make       builds the node; `want` is the dtype that the surrounding pattern needs
template <int I>
struct Any : PatternTag {
  static_assert(I < kMaxVars);
  static constexpr uint32_t kBinds = 1u << I;
  static constexpr bool kFoldable = false;
  constexpr OpSet Roots() const { return OpSet::All(); }
  Dtype TypeIn(const Match& m) const { return m.v[I].dtype(); }
  UOp Make(UOpContext&, const Match& m, Dtype) const { return m.v[I]; }
  constexpr auto Is(DtypeSet dtypes) const;
};

// A constant that is no float.
template <int I>
struct Const : PatternTag {
  static_assert(I < kMaxVars);
  static constexpr uint32_t kBinds = 1u << I;
  static constexpr bool kFoldable = true;
  constexpr OpSet Roots() const { return OpSet{Op::CONST}; }
  Int128 Eval(const Match& m) const {
    const UOp c = m.v[I];
    return c.dtype() == Dtype::U64 ? Int128{static_cast<uint64_t>(c.const_int())}
                                   : Int128{c.const_int()};
  }
  Dtype TypeIn(const Match& m) const { return m.v[I].dtype(); }
  UOp Make(UOpContext&, const Match& m, Dtype) const { return m.v[I]; }
};

struct Literal : PatternTag {
  static constexpr uint32_t kBinds = 0;
  static constexpr bool kFoldable = true;
  int64_t value;
  constexpr explicit Literal(int64_t v) : value(v) {}
  constexpr OpSet Roots() const { return OpSet{Op::CONST}; }
  Int128 Eval(const Match&) const { return value; }
  Dtype TypeIn(const Match&) const { return Dtype::Void; }
  UOp Make(UOpContext& ctx, const Match&, Dtype want) const {
    return ctx.Const(want, static_cast<double>(value));
  }
};

// Exact arithmetic for foldable patterns. The caller refuses a result that does not fit the dtype.
Int128 FoldInts(Op op, Int128 a, Int128 b);
// A constant of dtype `want`, or null if v does not fit it.
UOp FittingConst(UOpContext& ctx, Dtype want, Int128 v);

template <Op O, class A, class B>
struct Binary : PatternTag {
  static constexpr uint32_t kBinds = A::kBinds | B::kBinds;
  static constexpr bool kFoldable = A::kFoldable && B::kFoldable;
  A a;
  B b;
  constexpr Binary(A a_in, B b_in) : a(a_in), b(b_in) {}
  constexpr OpSet Roots() const { return OpSet{O}; }
  Int128 Eval(const Match& m) const
    requires kFoldable
  {
    return FoldInts(O, a.Eval(m), b.Eval(m));
  }
  Dtype OperandType(const Match& m, Dtype want) const {
    const Dtype t = a.TypeIn(m) != Dtype::Void ? a.TypeIn(m) : b.TypeIn(m);
    return t != Dtype::Void ? t : want;
  }
  Dtype TypeIn(const Match& m) const {
    return ir::kComparisonOps.Has(O) ? Dtype::Bool : OperandType(m, Dtype::Void);
  }
  // Null if a constant does not fit its dtype; then the rule does not apply.
  UOp Make(UOpContext& ctx, const Match& m, Dtype want) const {
    const Dtype operand = OperandType(m, want);
    if constexpr (kFoldable) {
      return FittingConst(ctx, ir::kComparisonOps.Has(O) ? Dtype::Bool : operand, Eval(m));
    } else {
      const UOp x = a.Make(ctx, m, operand), y = b.Make(ctx, m, operand);
      if (!x || !y) return UOp();
      return ctx.Make(O, ir::kComparisonOps.Has(O) ? Dtype::Bool : operand, {x, y});
    }
  }
};

template <class A, class B, class C>
struct WherePattern : PatternTag {
  static constexpr uint32_t kBinds = A::kBinds | B::kBinds | C::kBinds;
  static constexpr bool kFoldable = false;
  A a;
  B b;
  C c;
  constexpr WherePattern(A a_in, B b_in, C c_in) : a(a_in), b(b_in), c(c_in) {}
  constexpr OpSet Roots() const { return OpSet{Op::WHERE}; }
  Dtype TypeIn(const Match& m) const {
    return b.TypeIn(m) != Dtype::Void ? b.TypeIn(m) : c.TypeIn(m);
  }
  UOp Make(UOpContext& ctx, const Match& m, Dtype want) const {
    const Dtype t = TypeIn(m) != Dtype::Void ? TypeIn(m) : want;
    const UOp x = a.Make(ctx, m, Dtype::Bool), y = b.Make(ctx, m, t), z = c.Make(ctx, m, t);
    if (!x || !y || !z) return UOp();
    return ctx.Make(Op::WHERE, t, {x, y, z});
  }
};

// p, restricted to some dtypes.
template <class P>
struct Typed : PatternTag {
  static constexpr uint32_t kBinds = P::kBinds;
  static constexpr bool kFoldable = false;
  P p;
  DtypeSet dtypes;
  constexpr Typed(P p_in, DtypeSet d) : p(p_in), dtypes(d) {}
  constexpr OpSet Roots() const { return p.Roots(); }
  Dtype TypeIn(const Match& m) const { return p.TypeIn(m); }
  UOp Make(UOpContext& ctx, const Match& m, Dtype want) const { return p.Make(ctx, m, want); }
};
template <int I>
constexpr auto Any<I>::Is(DtypeSet dtypes) const {
  return Typed<Any<I>>(*this, dtypes);
}
template <Pattern P>
constexpr Typed<P> Is(P p, DtypeSet dtypes) {
  return {p, dtypes};
}

// Any number of further sources.
struct RestPattern : PatternTag {
  static constexpr uint32_t kBinds = 0;
  static constexpr bool kFoldable = false;
  constexpr OpSet Roots() const { return OpSet::All(); }
};
constexpr RestPattern Rest() { return {}; }

// All sources match p; binds nothing.
template <class P>
struct EachPattern : PatternTag {
  static constexpr uint32_t kBinds = 0;
  static constexpr bool kFoldable = false;
  P p;
  constexpr explicit EachPattern(P p_in) : p(p_in) {}
  constexpr OpSet Roots() const { return p.Roots(); }
};
template <Pattern P>
constexpr EachPattern<P> Each(P p) {
  return EachPattern<P>(p);
}

template <class A, class B>
struct AnyOfPattern : PatternTag {
  static constexpr uint32_t kBinds = A::kBinds & B::kBinds;
  static constexpr bool kFoldable = false;
  A a;
  B b;
  constexpr AnyOfPattern(A a_in, B b_in) : a(a_in), b(b_in) {}
  constexpr OpSet Roots() const { return a.Roots() | b.Roots(); }
};
template <Pattern A, Pattern B>
constexpr AnyOfPattern<A, B> AnyOf(A a, B b) {
  return {a, b};
}

// One of a set of ops, with sources in this order. A trailing Rest() accepts further sources; a
// single Each(p) tests all sources.
template <class... P>
struct NodePattern : PatternTag {
  static constexpr uint32_t kBinds = (0u | ... | P::kBinds);
  static constexpr bool kFoldable = false;
  OpSet ops;
  std::tuple<P...> sources;
  constexpr explicit NodePattern(OpSet o, P... p) : ops(o), sources(p...) {}
  constexpr OpSet Roots() const { return ops; }
};
template <Pattern... P>
constexpr NodePattern<P...> Group(OpSet ops, P... p) {
  return NodePattern<P...>(ops, p...);
}
template <Pattern... P>
constexpr NodePattern<P...> Node(Op op, P... p) {
  return NodePattern<P...>(OpSet{op}, p...);
}

template <class T>
constexpr auto Lift(T t) {
  if constexpr (Pattern<T>) {
    return t;
  } else {
    return Literal(t);
  }
}
template <class A, class B>
concept Operands =
    (Pattern<A> && (Pattern<B> || std::is_integral_v<B>)) || (Pattern<B> && std::is_integral_v<A>);

#define UOPD_PATTERN_OP(symbol, name)                                                \
  template <class A, class B>                                                        \
    requires Operands<A, B>                                                          \
  constexpr auto operator symbol(A a, B b) {                                         \
    return Binary<Op::name, decltype(Lift(a)), decltype(Lift(b))>(Lift(a), Lift(b)); \
  }
UOPD_PATTERN_OP(+, ADD)
UOPD_PATTERN_OP(-, SUB)
UOPD_PATTERN_OP(*, MUL)
UOPD_PATTERN_OP(/, FLOORDIV)
UOPD_PATTERN_OP(%, FLOORMOD)
UOPD_PATTERN_OP(&, AND)
UOPD_PATTERN_OP(|, OR)
UOPD_PATTERN_OP(^, XOR)
UOPD_PATTERN_OP(<, CMPLT)
UOPD_PATTERN_OP(!=, CMPNE)
UOPD_PATTERN_OP(==, CMPEQ)
#undef UOPD_PATTERN_OP
template <class A, class B>
  requires Operands<A, B>
constexpr auto operator>(A a, B b) {
  return Lift(b) < Lift(a);
}
template <Pattern A, Pattern B>
constexpr auto operator&&(A a, B b) {
  return Binary<Op::AND, A, B>(a, b);
}
template <class A, class B>
  requires Operands<A, B>
constexpr auto Max(A a, B b) {
  return Binary<Op::MAX, decltype(Lift(a)), decltype(Lift(b))>(Lift(a), Lift(b));
}
template <Pattern A, class B, class C>
constexpr auto Where(A a, B b, C c) {
  return WherePattern<A, decltype(Lift(b)), decltype(Lift(c))>(a, Lift(b), Lift(c));
}
template <Pattern A>
constexpr auto Not(A a) {
  return Is(a, kBools) != 1;
}

// A condition over constants. Any other condition is a lambda that takes a Bound (match.h).
template <Pattern P>
constexpr P When(P p) {
  static_assert(P::kFoldable, "a condition may use only constants; use a lambda for anything else");
  return p;
}

}  // namespace uopd::rewrite
