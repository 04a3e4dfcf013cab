// SPDX-License-Identifier: MIT
#include "core/ir/analysis/polynomial.h"

#include <algorithm>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "core/ir/build.h"

namespace uopd::ir {
namespace {

constexpr size_t kMostTerms = 48;          // terms of a polynomial
constexpr size_t kMostDegree = 8;          // atoms of a term
constexpr int kMostSteps = 96;             // substitutions for one Question
constexpr Int128 kMost = Int128{1} << 96;  // magnitude of a factor

bool Fits(Int128 v) { return v > -kMost && v < kMost; }
bool Multiply(Int128 a, Int128 b, Int128& out) {
  return !__builtin_mul_overflow(a, b, &out) && Fits(out);
}

// factor * product of atoms, which are sorted by id.
struct Monomial {
  absl::InlinedVector<UOp, 2> atoms;
  Int128 factor = 0;
};

bool Before(const Monomial& a, const Monomial& b) {
  return std::lexicographical_compare(a.atoms.begin(), a.atoms.end(), b.atoms.begin(),
                                      b.atoms.end(), [](UOp x, UOp y) { return x.id() < y.id(); });
}

// Terms are sorted, their atoms distinct, their factors not zero.
struct Polynomial {
  absl::InlinedVector<Monomial, 4> terms;

  // False if the result has too many terms or too large numbers.
  bool Add(const Monomial& m) {
    if (m.factor == 0) return true;
    auto at = std::lower_bound(terms.begin(), terms.end(), m, Before);
    if (at == terms.end() || at->atoms != m.atoms) {
      terms.insert(at, m);
      return terms.size() <= kMostTerms;
    }
    at->factor += m.factor;
    if (!Fits(at->factor)) return false;
    if (at->factor == 0) terms.erase(at);
    return true;
  }
  bool Add(const Polynomial& p, Int128 factor) {
    for (Monomial m : p.terms) {
      if (!Multiply(m.factor, factor, m.factor) || !Add(m)) return false;
    }
    return true;
  }
};

std::optional<Polynomial> Product(const Polynomial& a, const Polynomial& b) {
  std::optional<Polynomial> out(std::in_place);
  for (const Monomial& x : a.terms) {
    for (const Monomial& y : b.terms) {
      Monomial m;
      if (x.atoms.size() + y.atoms.size() > kMostDegree || !Multiply(x.factor, y.factor, m.factor))
        return std::nullopt;
      m.atoms.resize(x.atoms.size() + y.atoms.size());
      std::merge(x.atoms.begin(), x.atoms.end(), y.atoms.begin(), y.atoms.end(), m.atoms.begin(),
                 [](UOp l, UOp r) { return l.id() < r.id(); });
      if (!out->Add(m)) return std::nullopt;
    }
  }
  return out;
}

Polynomial Number(Int128 v) {
  Polynomial out;
  if (v != 0) out.terms.push_back({{}, v});
  return out;
}
Polynomial Atom(UOp u) {
  Polynomial out;
  out.terms.push_back({{u}, 1});
  return out;
}

// p with every u replaced by `by`.
std::optional<Polynomial> Substituted(const Polynomial& p, UOp u, const Polynomial& by) {
  std::optional<Polynomial> out(std::in_place);
  for (const Monomial& m : p.terms) {
    Polynomial term = Number(m.factor);
    for (UOp atom : m.atoms) {
      auto product = Product(term, atom == u ? by : Atom(atom));
      if (!product) return std::nullopt;
      term = *std::move(product);
    }
    if (!out->Add(term, 1)) return std::nullopt;
  }
  return out;
}

// Answers one question about a polynomial; counts the steps that it takes.
class Question {
 public:
  explicit Question(UOpContext& ctx) : ctx_(ctx) {}

  // p with sums and products multiplied out. The atom that was made last is expanded first. So an
  // atom of several terms cancels before it is expanded, and is expanded only once.
  Polynomial Expanded(Polynomial p) {
    constexpr OpSet kTaken = {Op::ADD, Op::SUB, Op::MUL, Op::NEG, Op::CONST};
    for (uint32_t below = UINT32_MAX; steps_ < kMostSteps; ++steps_) {
      UOp next;
      for (const Monomial& m : p.terms) {
        for (UOp u : m.atoms) {
          if (u.Is(kTaken) && u.id() < below && (!next || u.id() > next.id())) next = u;
        }
      }
      if (!next) break;
      below = next.id();
      const auto parts = Parts(next);
      auto out = parts ? Substituted(p, next, *parts) : std::nullopt;
      if (out) p = *std::move(out);  // else `next` stays an atom
    }
    return p;
  }

  bool IsNeverNegative(const Polynomial& p) {
    if (steps_++ >= kMostSteps) return false;
    if (const auto least = Least(p); least && *least >= 0) return true;
    // Maxima and choices are taken by cases before quotients are replaced by their bounds:
    // quotients inside of them may cancel then. A quotient that is replaced loses what was rounded
    // off.
    for (const Monomial& m : p.terms) {
      if (m.atoms.size() != 1) continue;
      const UOp u = m.atoms[0];
      if (u.Is(Op::MAX)) {
        // MAX is at least each operand, and equal to one of them.
        if (m.factor > 0) return With(p, m, u.src(0), 1) || With(p, m, u.src(1), 1);
        return With(p, m, u.src(0), 1) && With(p, m, u.src(1), 1);
      }
      if (u.Is(Op::WHERE)) return With(p, m, u.src(1), 1) && With(p, m, u.src(2), 1);
    }
    for (const Monomial& m : p.terms) {
      if (m.atoms.size() != 1) continue;
      const UOp u = m.atoms[0];
      if (u.Is(Op::FLOORDIV) && u.src(1).Is(Op::CONST) && u.src(1).const_int() > 0) {
        // x - (c - 1) <= c * floor(x / c) <= x.
        const int64_t c = u.src(1).const_int();
        return With(p, m, u.src(0), c, m.factor > 0 ? Int128{1} - c : 0);
      }
      if (u.Is(Op::FLOORMOD) && u.src(1).Is(Op::CONST) && u.src(1).const_int() > 0) {
        // x mod c <= x if x is not negative.
        if (m.factor < 0 && ctx_.BoundsOf(u.src(0)).min >= 0) return With(p, m, u.src(0), 1);
      }
    }
    return false;
  }

  // A lower bound of p from the intervals of its atoms: the largest of three. One takes the atoms
  // as they are; the others express p by the distances of the atoms from the lower or upper ends of
  // their intervals, which gives the exact minimum of v * v - v. Nullopt if numbers become too
  // large.
  std::optional<Int128> Least(const Polynomial& p) {
    std::optional<Int128> best =
        Smallest(p, [](UOp u, UOpContext& ctx) { return ctx.BoundsOf(u); });
    for (const bool from_below : {true, false}) {
      const auto moved = Moved(p, from_below);
      if (!moved) continue;
      const auto least = Smallest(*moved, [](UOp u, UOpContext& ctx) {
        const Bounds b = ctx.BoundsOf(u);
        return Bounds{0, b.max - b.min};
      });
      if (least && (!best || *least > *best)) best = least;
    }
    return best;
  }

 private:
  // True if scale * p is never negative after scale * u is replaced by value + more, where u is the
  // atom of the term m.
  bool With(const Polynomial& p, const Monomial& m, UOp value, Int128 scale, Int128 more = 0) {
    Polynomial out;
    for (Monomial other : p.terms) {
      if (other.atoms == m.atoms) continue;
      if (!Multiply(other.factor, scale, other.factor) || !out.Add(other)) return false;
    }
    Polynomial by = Atom(value);
    return by.Add(Number(more), 1) && out.Add(by, m.factor) && IsNeverNegative(Expanded(out));
  }

  // A sum or a product of its sources.
  static std::optional<Polynomial> Parts(UOp u) {
    if (u.Is(Op::CONST)) return Number(u.const_int());
    const Polynomial a = Atom(u.src(0));
    if (u.Is(Op::MUL)) return Product(a, Atom(u.src(1)));
    Polynomial out;
    const bool fits = u.Is(Op::NEG)
                          ? out.Add(a, -1)
                          : out.Add(a, 1) && out.Add(Atom(u.src(1)), u.Is(Op::ADD) ? 1 : -1);
    return fits ? std::optional(out) : std::nullopt;
  }

  template <class BoundsOfAtom>
  std::optional<Int128> Smallest(const Polynomial& p, BoundsOfAtom bounds_of) {
    Int128 sum = 0;
    for (const Monomial& m : p.terms) {
      Int128 lo = 1, hi = 1;
      for (size_t i = 0; i < m.atoms.size(); ++i) {
        const Bounds b = bounds_of(m.atoms[i], ctx_);
        Int128 ends[4];
        if (!Multiply(lo, b.min, ends[0]) || !Multiply(lo, b.max, ends[1]) ||
            !Multiply(hi, b.min, ends[2]) || !Multiply(hi, b.max, ends[3]))
          return std::nullopt;
        lo = *std::min_element(ends, ends + 4);
        hi = *std::max_element(ends, ends + 4);
      }
      Int128 term;
      if (!Multiply(m.factor > 0 ? lo : hi, m.factor, term)) return std::nullopt;
      sum += term;
      if (!Fits(sum)) return std::nullopt;
    }
    return sum;
  }

  // p expressed by the distances of its atoms from the lower or upper ends of their intervals. In
  // the result, an atom stands for its distance.
  std::optional<Polynomial> Moved(const Polynomial& p, bool from_below) {
    Polynomial out;
    for (const Monomial& m : p.terms) {
      Polynomial term = Number(m.factor);
      for (UOp u : m.atoms) {
        if (steps_++ >= kMostSteps) return std::nullopt;
        const Bounds b = ctx_.BoundsOf(u);
        if (!Fits(b.min) || !Fits(b.max)) return std::nullopt;
        Polynomial atom = Number(from_below ? b.min : b.max);
        if (!atom.Add(Monomial{{u}, from_below ? 1 : -1})) return std::nullopt;
        auto product = Product(term, atom);
        if (!product) return std::nullopt;
        term = *std::move(product);
      }
      if (!out.Add(term, 1)) return std::nullopt;
    }
    return out;
  }

  UOpContext& ctx_;
  int steps_ = 0;
};

}  // namespace

bool IsNeverNegative(UOpContext& ctx, std::initializer_list<IndexTerm> sum) {
  Question q(ctx);
  Polynomial p;
  for (const IndexTerm& t : sum) {
    if (!p.Add(Atom(t.value), t.factor)) return false;
  }
  return q.IsNeverNegative(q.Expanded(p));
}

Bounds DimensionBounds(UOpContext& ctx, UOp dim) {
  Bounds out = ctx.BoundsOf(dim);
  if (!dim.Is(OpSet{Op::ADD, Op::SUB, Op::MUL, Op::NEG})) return out;  // an atom
  // Most values of a graph have one of a few sizes.
  if (const auto known = ctx.dimension_bounds_.find(dim.id()); known != ctx.dimension_bounds_.end())
    return known->second;
  Question q(ctx);
  const Polynomial p = q.Expanded(Atom(dim));
  Polynomial minus;
  if (!minus.Add(p, -1)) return out;
  if (const auto least = q.Least(p)) out.min = std::max(out.min, *least);
  if (const auto least = q.Least(minus)) out.max = std::min(out.max, -*least);
  ctx.dimension_bounds_.emplace(dim.id(), out);
  return out;
}

bool SameProduct(UOpContext& ctx, Shape a, Shape b) {
  Polynomial difference;
  for (const bool second : {false, true}) {
    std::optional<Polynomial> product = Number(1);
    for (UOp d : second ? b : a) {
      product = Product(*product, d.Is(Op::CONST) ? Number(d.const_int()) : Atom(d));
      if (!product) return false;
    }
    if (!difference.Add(*product, second ? -1 : 1)) return false;
  }
  return Question(ctx).Expanded(difference).terms.empty();
}

std::optional<std::vector<SizeTerm>> TermsOf(UOpContext& ctx, UOp dim) {
  constexpr OpSet kTaken = {Op::ADD, Op::SUB, Op::MUL, Op::NEG, Op::CONST};
  std::vector<SizeTerm> out;
  for (const Monomial& m : Question(ctx).Expanded(Atom(dim)).terms) {
    if (m.factor != static_cast<int64_t>(m.factor)) return std::nullopt;
    for (UOp u : m.atoms) {
      if (u.Is(kTaken)) return std::nullopt;  // it was too large to be expanded
    }
    out.push_back({{m.atoms.begin(), m.atoms.end()}, static_cast<int64_t>(m.factor)});
  }
  return out;
}

UOp MaybeDivided(UOpContext& ctx, UOp dim, int64_t n) {
  UOp sum;
  for (const Monomial& m : Question(ctx).Expanded(Atom(dim)).terms) {
    const Int128 factor = m.factor / n;
    if (m.factor % n != 0 || factor != static_cast<int64_t>(factor)) return UOp();
    UOp term;
    for (UOp u : m.atoms) term = term ? Mul(ctx, term, u) : u;
    const UOp number = ctx.Idx(static_cast<int64_t>(factor));
    term = !term ? number : factor == 1 ? term : Mul(ctx, term, number);
    sum = sum ? Add(ctx, sum, term) : term;
  }
  return sum ? sum : ctx.Idx(0);
}

}  // namespace uopd::ir
