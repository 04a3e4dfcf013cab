// SPDX-License-Identifier: MIT
#include "core/ir/verify/admit.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::ir {
namespace {

template <class F>
constexpr uint32_t DtypesThat(F holds) {
  uint32_t out = 0;
  for (int i = 0; i < kDtypeCount; ++i) out |= holds(static_cast<Dtype>(i)) ? uint32_t{1} << i : 0;
  return out;
}

// The names that admit.def uses.
namespace names {
constexpr uint32_t Nothing = Bit(Dtype::Void), Number = Bit(Dtype::Index), Bool = Bit(Dtype::Bool);
constexpr uint32_t Stored =
    DtypesThat([](Dtype d) { return d != Dtype::Void && d != Dtype::Index; });
constexpr uint32_t Ints =
    DtypesThat([](Dtype d) { return Info(d).kind == kSigned || Info(d).kind == kUnsigned; });
constexpr uint32_t Floats = DtypesThat([](Dtype d) { return Info(d).kind == kFloat; });
constexpr uint16_t None = kNone, Tensor = kTensorKind, Scalar = kScalarKind, Shape = kShapeKind,
                   Truth = kTruthKind, Variable = kVariableKind, Constant = kConstantKind,
                   Statement = kStatementKind, Written = kWrittenKind;

constexpr AdmitLine kLines[] = {
#define UOPD_ADMIT(op, dtypes, first, second, others, reason) \
  {Op::op, dtypes, {first, second, others}, reason},
#include "core/ir/verify/admit.def"
#undef UOPD_ADMIT
};
}  // namespace names
using names::kLines;

// The lines of one op, which are consecutive.
struct Lines {
  uint8_t first = 0, count = 0;
};
constexpr std::array<Lines, kOpCount> kLinesOf = [] {
  std::array<Lines, kOpCount> out{};
  for (size_t i = 0; i < std::size(kLines); ++i) {
    Lines& of = out[static_cast<size_t>(kLines[i].op)];
    if (of.count++ == 0) of.first = static_cast<uint8_t>(i);
  }
  return out;
}();
static_assert(std::size(kLines) < 256);
static_assert(
    [] {
      for (size_t i = 0; i < std::size(kLines); ++i) {
        const Lines of = kLinesOf[static_cast<size_t>(kLines[i].op)];
        if (i < of.first || i >= size_t{of.first} + of.count) return false;
      }
      return true;
    }(),
    "lines of one op do not follow each other");

// KindOf without kTruthKind: [1 if the dtype is index, else 0][op].
constexpr std::array<std::array<uint16_t, kOpCount>, 2> kKinds = [] {
  std::array<std::array<uint16_t, kOpCount>, 2> out{};
  constexpr OpSet kWritten = kMovementOps | OpSet{Op::PARAM, Op::BUFFER, Op::MULTI, Op::AFTER};
  for (int i = 0; i < kOpCount; ++i) {
    const auto op = static_cast<Op>(i);
    const uint16_t more = op == Op::CONST        ? kConstantKind
                          : op == Op::DEFINE_VAR ? kVariableKind
                                                 : 0;
    out[0][i] = op == Op::STORE    ? kStatementKind
                : kVoidOps.Has(op) ? 0
                                   : kTensorKind | more | (kWritten.Has(op) ? kWrittenKind : 0);
    out[1][i] = op == Op::STACK ? kShapeKind : kScalarKind | more;
  }
  return out;
}();
uint16_t QuickKind(UOp u) {
  return kKinds[u.dtype() == Dtype::Index ? 1 : 0][static_cast<size_t>(u.op())];
}
bool IsTruth(UOp u) {
  if (u.Is(Op::CONST)) return u.dtype() == Dtype::Bool;
  return u.Is(kComparisonOps) && u.src(0).dtype() == Dtype::Index;
}

bool Takes(const AdmitLine& line, UOp u) {
  if ((line.dtypes & Bit(u.dtype())) == 0) return false;
  size_t i = 0;
  for (UOp s : u.srcs()) {
    const uint16_t wanted = line.sources[i];
    if ((QuickKind(s) & wanted) == 0 && ((wanted & kTruthKind) == 0 || !IsTruth(s))) return false;
    if (i < 2) ++i;
  }
  return true;
}

// Ops that AdmitMore checks: their args have names, or mean something else in lower levels.
constexpr OpSet kWithMore = {Op::SINK,       Op::PARAM, Op::BUFFER, Op::COPY,
                             Op::DEFINE_VAR, Op::STACK, Op::DETACH};

absl::Status AdmitMore(UOp u, bool buffers) {
  if (u.Is(Op::SINK) && u.arg().bits != 0) return Invalid("SINK of a tensor graph takes no arg");
  if (u.Is(OpSet{Op::PARAM, Op::BUFFER}) && u.addrspace() != AddrSpace::GLOBAL)
    return Invalid(Cat("memory of a tensor graph is GLOBAL, not ", Name(u.addrspace())));
  if (u.Is(OpSet{Op::PARAM, Op::BUFFER, Op::COPY, Op::DEFINE_VAR}) && !u.text().empty() &&
      !IsName(u.text())) {
    return Invalid(Cat("name in the arg of ", Name(u.op()),
                       " is not made of up to 256 letters, digits and _ . : / -"));
  }
  if (u.Is(Op::STACK) && u.n_src() == 0 && u.dtype() != Dtype::Index)
    return Invalid("STACK of no tensors");
  if (u.Is(Op::DETACH) && u.n_src() > 1 && !buffers)
    return Invalid("DETACH of several sources: the others are for gradients, which a client makes");
  return absl::OkStatus();
}

std::string_view WhatIs(UOp u) {
  const uint16_t kind = KindsOf(u);
  return kind & kShapeKind       ? "a shape"
         : kind & kScalarKind    ? "an index value"
         : kind & kStatementKind ? "a statement"
         : kind & kTensorKind    ? "a tensor"
                                 : "neither a tensor nor an index value";
}

absl::Status Refused(UOp u) {
  if (u.Is(Op::SINK)) {
    for (UOp s : u.srcs()) {
      if ((KindsOf(s) & kLines[kLinesOf[static_cast<size_t>(Op::SINK)].first].sources[0]) == 0)
        return Invalid(Cat("SINK of ", Name(s.op()), ": roots are STOREs into PARAMs"));
    }
  }
  if (u.dtype() == Dtype::Index && u.Is(Op::CAST))
    return Invalid("CAST to index of what a tensor holds: sizes are known before a run");
  std::string what;
  for (size_t i = 0; i < std::min<size_t>(u.n_src(), 4); ++i)
    Append(what, i == 0 ? " of " : ", ", WhatIs(u.src(i)));
  if (u.n_src() > 4) what += ", ...";
  return Invalid(
      Cat(Name(u.op()), "<", Name(u.dtype()), ">", what, " is not what a tensor graph is made of"));
}

}  // namespace

uint16_t KindsOf(UOp u) {
  return static_cast<uint16_t>(QuickKind(u) | (IsTruth(u) ? kTruthKind : 0));
}

std::span<const AdmitLine> AdmitLines() { return kLines; }

absl::Status Admit(UOp u, bool buffers) {
  if (u.Is(kWithMore)) UOPD_TRY(AdmitMore(u, buffers));
  const Op op = buffers && u.Is(Op::BUFFER) ? Op::PARAM : u.op();
  const Lines of = kLinesOf[static_cast<size_t>(op)];
  for (size_t i = of.first; i < size_t{of.first} + of.count; ++i) {
    if (Takes(kLines[i], u)) return absl::OkStatus();
  }
  return Refused(u);
}

bool IsName(std::string_view text) {
  constexpr auto kLetters = [] {
    std::array<bool, 256> out{};
    for (char c :
         std::string_view("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:/-"))
      out[static_cast<uint8_t>(c)] = true;
    return out;
  }();
  return !text.empty() && text.size() <= kMaxName &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return kLetters[static_cast<uint8_t>(c)]; });
}

}  // namespace uopd::ir
