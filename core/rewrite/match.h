// SPDX-License-Identifier: MIT
// Matching of patterns (pattern.h) against nodes, and the summary of a pattern that the candidate
// index of a RuleSet (rule_set.h) is built from.
//
// Continuation-passing style: with both orders of commutative operands backtracking is complete.
// Do<Bound>(pattern, node, match, next) matches one node. It binds the variables that are not in
// the bit set Bound, compares those that are, and calls next() if the node matches. It returns true
// as soon as a call of next() does, and tries another order of operands otherwise.
#pragma once
#include "core/rewrite/pattern.h"

namespace uopd::rewrite {

#define UOPD_INLINE [[gnu::always_inline]] inline

template <uint32_t Bound, int I, class K>
UOPD_INLINE bool Do(const Any<I>&, UOp u, Match& m, K&& next) {
  if constexpr (Bound >> I & 1) {
    return m.v[I] == u && next();
  } else {
    m.v[I] = u;
    return next();
  }
}
template <uint32_t Bound, int I, class K>
UOPD_INLINE bool Do(const Const<I>&, UOp u, Match& m, K&& next) {
  if (!u.Is(Op::CONST) || ir::IsFloat(u.dtype())) return false;
  if constexpr (Bound >> I & 1) {
    return m.v[I] == u && next();
  } else {
    m.v[I] = u;
    return next();
  }
}
template <uint32_t Bound, class K>
UOPD_INLINE bool Do(const Literal& p, UOp u, Match&, K&& next) {
  return u.IsConst(static_cast<double>(p.value)) && next();
}
template <uint32_t Bound, Op O, class A, class B, class K>
UOPD_INLINE bool Do(const Binary<O, A, B>& p, UOp u, Match& m, K&& next);
template <uint32_t Bound, class A, class B, class C, class K>
UOPD_INLINE bool Do(const WherePattern<A, B, C>& p, UOp u, Match& m, K&& next);
template <uint32_t Bound, class A, class B, class K>
UOPD_INLINE bool Do(const AnyOfPattern<A, B>& p, UOp u, Match& m, K&& next);
template <uint32_t Bound, class... P, class K>
UOPD_INLINE bool Do(const NodePattern<P...>& p, UOp u, Match& m, K&& next);

template <uint32_t Bound, class P, class K>
UOPD_INLINE bool Do(const Typed<P>& p, UOp u, Match& m, K&& next) {
  return (p.dtypes >> static_cast<int>(u.dtype()) & 1) != 0 && Do<Bound>(p.p, u, m, next);
}

template <uint32_t Bound, Op O, class A, class B, class K>
UOPD_INLINE bool Do(const Binary<O, A, B>& p, UOp u, Match& m, K&& next) {
  if (!u.Is(O)) return false;
  if (Do<Bound>(p.a, u.src(0), m,
                [&] { return Do < Bound | A::kBinds > (p.b, u.src(1), m, next); }))
    return true;
  if constexpr (ir::kCommutativeOps.Has(O) && !std::is_same_v<A, B>) {
    return Do<Bound>(p.a, u.src(1), m,
                     [&] { return Do < Bound | A::kBinds > (p.b, u.src(0), m, next); });
  } else {
    return false;
  }
}
template <uint32_t Bound, class A, class B, class C, class K>
UOPD_INLINE bool Do(const WherePattern<A, B, C>& p, UOp u, Match& m, K&& next) {
  return u.Is(Op::WHERE) && Do<Bound>(p.a, u.src(0), m, [&] {
           return Do < Bound | A::kBinds > (p.b, u.src(1), m, [&] {
                                 return Do < Bound | A::kBinds |
                                        B::kBinds > (p.c, u.src(2), m, next);
                               });
         });
}
template <uint32_t Bound, class A, class B, class K>
UOPD_INLINE bool Do(const AnyOfPattern<A, B>& p, UOp u, Match& m, K&& next) {
  return Do<Bound>(p.a, u, m, next) || Do<Bound>(p.b, u, m, next);
}

template <class T>
inline constexpr bool kIsEach = false;
template <class P>
inline constexpr bool kIsEach<EachPattern<P>> = true;

template <uint32_t Bound, size_t I, class... P, class K>
UOPD_INLINE bool DoSources(const NodePattern<P...>& p, UOp u, Match& m, K&& next) {
  if constexpr (I == sizeof...(P)) {
    return u.n_src() == I && next();
  } else {
    using T = std::tuple_element_t<I, std::tuple<P...>>;
    if constexpr (std::is_same_v<T, RestPattern>) {
      return next();
    } else if constexpr (kIsEach<T>) {
      for (UOp s : u.srcs()) {
        if (!Do<0>(std::get<I>(p.sources).p, s, m, [] { return true; })) return false;
      }
      return next();
    } else {
      return I < u.n_src() &&
             Do<Bound>(
                 std::get<I>(p.sources), u.src(I), m,
                 [&] { return DoSources<(Bound | T::kBinds), I + 1>(p, u, m, next); });
    }
  }
}
template <uint32_t Bound, class... P, class K>
UOPD_INLINE bool Do(const NodePattern<P...>& p, UOp u, Match& m, K&& next) {
  return p.ops.Has(u.op()) && DoSources<Bound, 0>(p, u, m, next);
}
#undef UOPD_INLINE

// The dtypes that a node matched by a pattern may have; a superset if they are not known exactly.
inline constexpr DtypeSet kAnyDtype = ~DtypeSet{0};
template <class P>
constexpr DtypeSet DtypesOf(const P&) {
  return kAnyDtype;
}
template <int I>
constexpr DtypeSet DtypesOf(const Const<I>&) {
  return kNotFloat;
}
template <class P>
constexpr DtypeSet DtypesOf(const Typed<P>& p) {
  return p.dtypes & DtypesOf(p.p);
}
template <class A, class B, class C>
constexpr DtypeSet DtypesOf(const WherePattern<A, B, C>& p);
template <Op O, class A, class B>
constexpr DtypeSet DtypesOf(const Binary<O, A, B>& p) {
  return ir::kComparisonOps.Has(O) ? kBools : DtypesOf(p.a) & DtypesOf(p.b);
}
template <class A, class B, class C>
constexpr DtypeSet DtypesOf(const WherePattern<A, B, C>& p) {
  return DtypesOf(p.b) & DtypesOf(p.c);
}

// The kinds of nodes that the candidate index distinguishes: the op, and for CONST also the values
// 0, 1 and -1, which are common in patterns.
inline constexpr int kZero = ir::kOpCount, kOne = kZero + 1, kMinusOne = kZero + 2;
inline constexpr int kKindCount = kZero + 3;
inline int KindOf(UOp u) {
  if (!u.Is(Op::CONST)) return static_cast<int>(u.op());
  const int64_t v = u.const_int();  // of a float: its bits
  if (v == 0) return kZero;
  if (!ir::IsFloat(u.dtype()))
    return v == 1 ? kOne : v == -1 ? kMinusOne : static_cast<int>(Op::CONST);
  const double f = u.const_float();
  return f == 0 ? kZero : f == 1 ? kOne : f == -1 ? kMinusOne : static_cast<int>(Op::CONST);
}

// A set of kinds.
struct Kinds {
  OpSet ops = OpSet::All();  // CONST here: constants other than 0, 1 and -1
  bool zero = true, one = true, minus_one = true;
  bool Has(int kind) const {
    return kind == kZero       ? zero
           : kind == kOne      ? one
           : kind == kMinusOne ? minus_one
                               : ops.Has(static_cast<Op>(kind));
  }
  Kinds operator|(const Kinds& o) const {
    return {ops | o.ops, zero || o.zero, one || o.one, minus_one || o.minus_one};
  }
};
template <class P>
Kinds KindsOf(const P& p) {
  const OpSet ops = p.Roots();
  const bool constants = ops.Has(Op::CONST);
  return {ops, constants, constants, constants};
}
inline Kinds KindsOf(const Literal& p) {
  const bool other = p.value < -1 || p.value > 1;
  return {other ? OpSet{Op::CONST} : OpSet{}, p.value == 0, p.value == 1, p.value == -1};
}

// Necessary conditions of a pattern on its root and the sources of the root, for the candidate
// index.
struct SourceOps {
  Kinds at[3];                                           // kinds of source 0, 1 and 2
  Kinds either;                                          // source 0 or source 1 has such a kind
  DtypeSet dtypes = kAnyDtype, root_dtypes = kAnyDtype;  // of source 0; of the root
  bool same = false;                                     // source 0 and source 1 are the same node
};
// The variable that a pattern binds to the node itself; -1 if there is none.
template <class P>
inline constexpr int kVariable = -1;
template <int I>
inline constexpr int kVariable<Any<I>> = I;
template <class P>
inline constexpr int kVariable<Typed<P>> = kVariable<P>;

template <class P>
SourceOps SourcesOf(const P&) {
  return {};
}
template <class P>
SourceOps SourcesOf(const Typed<P>& p) {
  SourceOps s = SourcesOf(p.p);
  s.root_dtypes &= p.dtypes;
  return s;
}
template <Op O, class A, class B>
SourceOps SourcesOf(const Binary<O, A, B>& p) {
  SourceOps s;
  const Kinds a = KindsOf(p.a), b = KindsOf(p.b);
  if (ir::kCommutativeOps.Has(O)) {
    s.at[0] = s.at[1] = a | b;
    // The narrower of the two: a set with SINK is the set of all ops.
    s.either = b.ops.Has(Op::SINK) ? a : b;
  } else {
    s.at[0] = a;
    s.at[1] = b;
  }
  s.same = kVariable<A> >= 0 && kVariable<A> == kVariable<B>;
  if (O != Op::SHL && O != Op::SHR) s.dtypes = DtypesOf(p.a) & DtypesOf(p.b);
  return s;
}
template <class A, class B, class C>
SourceOps SourcesOf(const WherePattern<A, B, C>& p) {
  SourceOps s;
  s.at[0] = KindsOf(p.a);
  s.at[1] = KindsOf(p.b);
  s.at[2] = KindsOf(p.c);
  return s;
}
template <class... P>
SourceOps SourcesOf(const NodePattern<P...>& p) {
  SourceOps s;
  size_t i = 0;
  std::apply([&](const auto&... q) { ((i < 3 ? void(s.at[i++] = KindsOf(q)) : void()), ...); },
             p.sources);
  if constexpr (sizeof...(P) == 1 && (kIsEach<P> || ...)) s.at[1] = s.at[2] = s.at[0];
  if constexpr (sizeof...(P) > 0) s.dtypes = DtypesOf(std::get<0>(p.sources));
  return s;
}

// What a Rewriter passes to its rules besides the node: the object of RewriteOptions::SetUser, and
// a flag that Bound::Final sets.
struct RuleEnv {
  void* user = nullptr;
  const void* user_type = nullptr;
  bool final = false;
};
template <class T>
inline char type_tag = 0;  // the address of type_tag<T> identifies T

// The argument of a lambda on the right-hand side. m[x] is the node bound to x (the value, if x is
// a Const); using a variable that the left-hand side does not bind is a compile error.
template <uint32_t Binds>
class Bound {
 public:
  Bound(const Match& m, UOpContext& context, RuleEnv& env) : ctx(context), match_(m), env_(env) {}
  UOpContext& ctx;
  UOp root() const { return match_.root; }
  template <int I>
  UOp operator[](Any<I>) const {
    static_assert(Binds >> I & 1, "variable is not bound by the left-hand side of this rule");
    return match_.v[I];
  }
  template <int I>
  Int128 operator[](Const<I> c) const {
    static_assert(Binds >> I & 1, "constant is not bound by the left-hand side of this rule");
    return c.Eval(match_);
  }
  template <int I>
  UOp Node(Const<I>) const {
    return match_.v[I];
  }
  // The object passed to RewriteOptions::SetUser. REQUIRES: it is a T.
  template <class T>
  T& User() const {
    UOPD_CHECK(env_.user_type == &type_tag<T>);
    return *static_cast<T*>(env_.user);
  }
  // Returned by a right-hand side: the result is u (which may be the root), and neither u nor its
  // sources are rewritten again.
  UOp Final(UOp u) const {
    env_.final = true;
    return u;
  }

 private:
  const Match& match_;
  RuleEnv& env_;
};

}  // namespace uopd::rewrite
