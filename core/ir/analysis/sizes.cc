// SPDX-License-Identifier: MIT
#include "core/ir/analysis/sizes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "core/ir/analysis/polynomial.h"
#include "core/ir/build.h"

namespace uopd::ir {
namespace {

constexpr int kMostDepth = 64;  // of an expression that is looked at

std::optional<Int128> ValueOf(UOp u, const VariableValues& values, int depth);

std::optional<Int128> Combined(UOp u, const VariableValues& values, int depth) {
  const auto a = ValueOf(u.src(0), values, depth), b = ValueOf(u.src(1), values, depth);
  if (!a || !b) return std::nullopt;
  const Int128 quotient = *b == 0 ? 0 : *a / *b - (*a % *b != 0 && (*a < 0) != (*b < 0) ? 1 : 0);
  switch (u.op()) {
    case Op::ADD:
      return *a + *b;
    case Op::SUB:
      return *a - *b;
    case Op::MUL: {
      Int128 out;
      if (__builtin_mul_overflow(*a, *b, &out)) return std::nullopt;
      return out;
    }
    case Op::MAX:
      return std::max(*a, *b);
    case Op::FLOORDIV:
      return quotient;
    case Op::FLOORMOD:
      return *b == 0 ? Int128{0} : *a - quotient * *b;
    case Op::CMPLT:
      return Int128{*a < *b};
    default:
      return std::nullopt;
  }
}

std::optional<Int128> ValueOf(UOp u, const VariableValues& values, int depth) {
  if (depth-- == 0) return std::nullopt;
  if (u.Is(Op::CONST)) return Int128{u.const_int()};
  if (u.Is(OpSet{Op::BIND, Op::DEFINE_VAR})) {
    if (values != nullptr) return values(u.Is(Op::BIND) ? u.src(0) : u);
    if (u.n_src() != 2 || u.tag() != kBound) return std::nullopt;
    return Int128{u.src(1).const_int()};
  }
  if (u.Is(Op::NEG)) {
    const auto a = ValueOf(u.src(0), values, depth);
    return a ? std::optional(-*a) : std::nullopt;
  }
  if (u.Is(Op::WHERE)) {
    const auto c = ValueOf(u.src(0), values, depth);
    return c ? ValueOf(u.src(*c != 0 ? 1 : 2), values, depth) : std::nullopt;
  }
  return u.n_src() == 2 ? Combined(u, values, depth) : std::nullopt;
}

std::string_view SignOf(Op op) {
  return op == Op::FLOORDIV ? "//" : op == Op::FLOORMOD ? "%" : op == Op::CMPLT ? " < " : "";
}

// Sums are in brackets within products.
std::string Spelled(UOp u, bool within, int depth) {
  if (depth-- == 0) return "...";
  if (u.Is(Op::CONST)) return Cat(u.const_int());
  if (u.Is(Op::BIND)) return Spelled(u.src(0), within, depth);
  if (u.Is(Op::DEFINE_VAR)) return std::string(u.text());
  const auto brackets = [&](std::string text) { return within ? Cat("(", text, ")") : text; };
  if (u.Is(Op::NEG)) return brackets(Cat("-", Spelled(u.src(0), true, depth)));
  if (u.Is(Op::WHERE)) {
    return brackets(Cat(Spelled(u.src(1), true, depth), " if ", Spelled(u.src(0), true, depth),
                        " else ", Spelled(u.src(2), true, depth)));
  }
  if (u.n_src() != 2) return Cat("%", u.id());
  if (u.Is(Op::ADD) && u.src(1).Is(Op::CONST) && u.src(1).const_int() < 0)
    return brackets(Cat(Spelled(u.src(0), false, depth), " - ", -u.src(1).const_int()));
  if (u.Is(OpSet{Op::ADD, Op::SUB})) {
    return brackets(Cat(Spelled(u.src(0), false, depth), u.Is(Op::ADD) ? " + " : " - ",
                        Spelled(u.src(1), u.Is(Op::SUB), depth)));
  }
  if (u.Is(Op::MUL) && u.src(1).Is(Op::CONST))
    return Cat(Spelled(u.src(1), true, depth), "*", Spelled(u.src(0), true, depth));
  if (u.Is(Op::MUL))
    return Cat(Spelled(u.src(0), true, depth), "*", Spelled(u.src(1), true, depth));
  if (u.Is(Op::MAX)) {
    return Cat("max(", Spelled(u.src(0), false, depth), ", ", Spelled(u.src(1), false, depth), ")");
  }
  return brackets(
      Cat(Spelled(u.src(0), true, depth), SignOf(u.op()), Spelled(u.src(1), true, depth)));
}

void AddValues(UOp u, std::vector<std::pair<std::string, int64_t>>& out, int depth) {
  if (depth-- == 0) return;
  if (u.Is(Op::BIND)) {
    if (u.n_src() == 2) out.emplace_back(u.src(0).text(), u.src(1).const_int());
    return;
  }
  for (UOp s : u.srcs()) AddValues(s, out, depth);
}

}  // namespace

std::optional<int64_t> BoundValue(UOp size) { return BoundValue(size, nullptr); }

std::optional<int64_t> BoundValue(UOp size, const VariableValues& values) {
  const auto v = ValueOf(size, values, kMostDepth);
  if (!v || *v < INT64_MIN || *v > INT64_MAX) return std::nullopt;
  return static_cast<int64_t>(*v);
}

std::string SizeText(UOp size) { return Spelled(size, false, kMostDepth); }

std::vector<std::pair<std::string, int64_t>> BoundVariables(UOp size) {
  std::vector<std::pair<std::string, int64_t>> out;
  AddValues(size, out, kMostDepth);
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::string BoundText(UOp size) {
  std::string out;
  for (const auto& [name, value] : BoundVariables(size))
    Append(out, out.empty() ? "" : ", ", name, " = ", value);
  return out;
}

UOp CanonicalSize(UOpContext& ctx, UOp size) {
  if (size.Is(Op::CONST) || size.Is(Op::BIND) || size.Is(Op::DEFINE_VAR)) return size;
  const auto terms = TermsOf(ctx, size);
  if (!terms) return size;
  struct Term {
    std::string name;
    UOp product;  // null: the number
    int64_t factor;
  };
  std::vector<Term> named;
  for (const SizeTerm& t : *terms) {
    // Atoms in the order of their names, which does not change with their values.
    std::vector<std::pair<std::string, UOp>> atoms;
    for (UOp u : t.atoms) {
      UOp atom = u;
      if (u.n_src() == 2 && !u.Is(Op::BIND)) {
        const UOp a = CanonicalSize(ctx, u.src(0)), b = CanonicalSize(ctx, u.src(1));
        if (a != u.src(0) || b != u.src(1)) atom = ctx.WithSources(u, SymbolicDims{a, b});
      }
      std::string name = SizeText(atom);
      const auto at =
          std::ranges::upper_bound(atoms, name, {}, [](const auto& a) { return a.first; });
      atoms.emplace(at, std::move(name), atom);
    }
    Term term{"", UOp(), t.factor};
    for (const auto& [name, atom] : atoms) {
      Append(term.name, name, "*");
      term.product = term.product ? Mul(ctx, term.product, atom) : atom;
    }
    // The number comes last.
    const auto order = [](const Term& t) { return std::pair(!t.product, t.name); };
    named.insert(std::ranges::upper_bound(named, order(term), {}, order), std::move(term));
  }
  UOp sum;
  for (const Term& t : named) {
    const UOp number = ctx.Idx(t.factor);
    const UOp term = !t.product ? number : t.factor == 1 ? t.product : Mul(ctx, t.product, number);
    sum = sum ? Add(ctx, sum, term) : term;
  }
  return sum ? sum : ctx.Idx(0);
}

bool BoxFits(UOpContext& ctx, UOp start, UOp size, UOp whole) {
  if (start.IsConstInt(0) && size == whole) return true;
  const auto bounds = [&](UOp u) {
    return u.Is(Op::CONST) ? Bounds{u.const_int(), u.const_int()} : DimensionBounds(ctx, u);
  };
  if (bounds(start).max + bounds(size).max <= bounds(whole).min) return true;
  return IsNeverNegative(ctx, {{whole, 1}, {start, -1}, {size, -1}});
}

bool BoxFitsNow(UOp start, UOp size, UOp whole) {
  const auto at = BoundValue(start), n = BoundValue(size), all = BoundValue(whole);
  return at && n && all && *at >= 0 && *n >= 0 && *n <= *all && *at <= *all - *n;
}

}  // namespace uopd::ir
