// SPDX-License-Identifier: MIT
// PatternTree: the left-hand side of a rule as data, for tools that print it or build samples of it
// (the rule fuzz test). Not used for matching.
#pragma once
#include <vector>

#include "core/rewrite/pattern.h"

namespace uopd::rewrite {

struct PatternTree {
  enum Kind : uint8_t {
    kAny,      // any node; the same one wherever `variable` occurs
    kConst,    // a constant that is no float, bound to `variable`
    kLiteral,  // a constant of this value
    kNode,     // one of `ops`, with `children` as its first sources
    kAnyOf,    // one of `children`
  };
  Kind kind = kAny;
  int variable = -1;
  int64_t literal = 0;
  DtypeSet dtypes = ~DtypeSet{0};
  ir::OpSet ops;
  bool rest = false;  // further sources may follow
  bool each = false;  // the one child describes every source
  std::vector<PatternTree> children;
};

template <int I>
PatternTree Describe(const Any<I>&) {
  PatternTree t;
  t.variable = I;
  return t;
}
template <int I>
PatternTree Describe(const Const<I>&) {
  PatternTree t;
  t.kind = PatternTree::kConst;
  t.variable = I;
  t.dtypes = kNotFloat;
  return t;
}
inline PatternTree Describe(const Literal& p) {
  PatternTree t;
  t.kind = PatternTree::kLiteral;
  t.literal = p.value;
  return t;
}
PatternTree DescribeNode(ir::OpSet ops, std::vector<PatternTree> children);

template <Op O, class A, class B>
PatternTree Describe(const Binary<O, A, B>& p);
template <class A, class B, class C>
PatternTree Describe(const WherePattern<A, B, C>& p);
template <class A, class B>
PatternTree Describe(const AnyOfPattern<A, B>& p);
template <class... P>
PatternTree Describe(const NodePattern<P...>& p);

template <class P>
PatternTree Describe(const Typed<P>& p) {
  PatternTree t = Describe(p.p);
  t.dtypes &= p.dtypes;
  return t;
}
template <class P>
PatternTree Describe(const EachPattern<P>& p) {
  PatternTree t = Describe(p.p);
  t.each = true;  // DescribeNode moves the mark to the parent
  return t;
}
inline PatternTree Describe(const RestPattern&) {
  PatternTree t;
  t.rest = true;  // as above
  return t;
}
template <Op O, class A, class B>
PatternTree Describe(const Binary<O, A, B>& p) {
  return DescribeNode(ir::OpSet{O}, {Describe(p.a), Describe(p.b)});
}
template <class A, class B, class C>
PatternTree Describe(const WherePattern<A, B, C>& p) {
  return DescribeNode(ir::OpSet{Op::WHERE}, {Describe(p.a), Describe(p.b), Describe(p.c)});
}
template <class A, class B>
PatternTree Describe(const AnyOfPattern<A, B>& p) {
  PatternTree t;
  t.kind = PatternTree::kAnyOf;
  t.children = {Describe(p.a), Describe(p.b)};
  return t;
}
template <class... P>
PatternTree Describe(const NodePattern<P...>& p) {
  return std::apply([&](const auto&... q) { return DescribeNode(p.ops, {Describe(q)...}); },
                    p.sources);
}

}  // namespace uopd::rewrite
