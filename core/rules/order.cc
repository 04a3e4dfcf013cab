// SPDX-License-Identifier: MIT
#include "core/rules/order.h"

#include <algorithm>

namespace uopd::rules {
namespace {

using ir::ArgSchema;
using ir::UOp;

int Sign(auto a, auto b) { return a < b ? -1 : a > b ? 1 : 0; }

// REQUIRES: a and b have the same op.
int CompareArgs(UOp a, UOp b) {
  switch (ir::Info(a.op()).arg) {
    case ArgSchema::None:
      return 0;
    case ArgSchema::Const:
    case ArgSchema::Int:
      return Sign(a.arg().AsInt(), b.arg().AsInt());
    default:
      break;
  }
  if (a.arg() == b.arg()) return 0;
  if (a.arg().bits == 0 || b.arg().bits == 0) return Sign(a.arg().bits != 0, b.arg().bits != 0);
  const auto x = a.ints(), y = b.ints();
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (x[i] != y[i]) return Sign(x[i], y[i]);
  }
  if (x.size() != y.size()) return Sign(x.size(), y.size());
  return a.text().compare(b.text());
}

// Compares two nodes with the same op; 0 if they are equal down to `depth` levels of sources.
int CompareAlike(UOp a, UOp b, int depth) {
  if (int c = CompareArgs(a, b)) return c;
  if (int c = Sign(a.dtype(), b.dtype())) return c;
  if (int c = Sign(a.n_src(), b.n_src())) return c;
  if (depth == 0) return 0;
  for (size_t i = 0; i < a.n_src(); ++i) {
    const UOp x = a.src(i), y = b.src(i);
    if (x == y) continue;
    if (x.op() != y.op()) return Sign(x.op(), y.op());
    if (int c = CompareAlike(x, y, depth - 1)) return c;
  }
  return 0;
}

constexpr int kDepth = 6;

}  // namespace

int Compare(UOp a, UOp b) {
  if (a == b) return 0;
  if (a.op() != b.op()) return Sign(a.op(), b.op());
  const int c = CompareAlike(a, b, kDepth);
  return c != 0 ? c : Sign(a.id(), b.id());
}

}  // namespace uopd::rules
