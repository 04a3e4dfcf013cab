// SPDX-License-Identifier: MIT
#include "core/ir/shape.h"

#include <algorithm>

#include "core/base/status.h"
#include "core/base/text.h"
#include "core/ir/analysis/polynomial.h"
#include "core/ir/analysis/sizes.h"
#include "core/ir/group_mma.h"
#include "core/ir/mma.h"

namespace uopd::ir {
namespace {

const Shape kNoShape;  // its address says "no shape"; distinct from the shape () of a scalar

Int128 LargestOf(UOpContext& ctx, UOp dim) {
  return dim.Is(Op::CONST) ? dim.const_int() : DimensionBounds(ctx, dim).max;
}
Int128 LeastOf(UOpContext& ctx, UOp dim) {
  return dim.Is(Op::CONST) ? dim.const_int() : DimensionBounds(ctx, dim).min;
}

std::string Text(UOp dim) { return SizeText(dim); }
std::string Text(Shape shape) {
  std::string out = "(";
  for (size_t i = 0; i < shape.size(); ++i) Append(out, i ? ", " : "", Text(shape[i]));
  return out + ")";
}
// ", where n = 3" for the variables that have values.
std::string Values(std::initializer_list<Shape> shapes) {
  std::string out;
  for (Shape s : shapes) {
    for (UOp d : s) {
      const std::string values = BoundText(d);
      if (!values.empty() && out.find(values) == std::string::npos)
        Append(out, out.empty() ? ", where " : ", ", values);
    }
  }
  return out;
}

class Inference {
 public:
  Inference(UOpContext& ctx, UOp u, ShapeTable& shapes, Arena& arena, uint64_t key)
      : ctx_(ctx), u_(u), shapes_(shapes), arena_(arena), key_(key) {}

  absl::StatusOr<const Shape*> Run() {
    switch (u_.op()) {
      case Op::CONST:
      case Op::DEFINE_VAR:
      case Op::BIND:
      case Op::SPECIAL:
      case Op::RANGE:
      case Op::GEP:
        return New({});
      case Op::BUFFER:
      case Op::PARAM:
      case Op::IOTA:
        return FromOperand(u_.src(0));
      case Op::STACK:
        return Stack();
      case Op::INDEX:
        return u_.arg().AsInt() > 0 ? New({ctx_.Idx(u_.arg().AsInt())}) : Source(1);
      case Op::LOAD:
      case Op::SHUFFLE:
      case Op::AFTER:
      case Op::COPY:
      case Op::CONTIGUOUS:
      case Op::CONTIGUOUS_BACKWARD:
      case Op::DETACH:
      case Op::CAST:
      case Op::BITCAST:
        return Source(0);
      case Op::STAGE:
        return New({ctx_.Idx(u_.arg().AsInt())});
      case Op::MMA:
        if (u_.ints().size() != 8 || Mma::Of(u_).results() < 1)
          return Invalid("the arg of MMA is wrong");
        return New({ctx_.Idx(Mma::Of(u_).results())});
      case Op::GROUP_PRODUCT:
        if (u_.ints().size() != GroupMma::kNumbers || GroupMma::Of(u_).results() < 1)
          return Invalid("the arg of GROUP_PRODUCT is wrong");
        return New({ctx_.Idx(GroupMma::Of(u_).results())});
      case Op::MATRIX_LOAD:
        if (u_.ints().size() != 2 || u_.ints()[0] < 1)
          return Invalid("the arg of MATRIX_LOAD is wrong");
        return New({ctx_.Idx(u_.ints()[0])});
      case Op::MULTI:
        return Multi();
      case Op::REDUCE:
        return Reduce();
      case Op::RESHAPE:
        return Reshape();
      case Op::EXPAND:
        return Expand();
      case Op::PERMUTE:
        return Permute();
      case Op::PAD:
        return Pad();
      case Op::SHRINK:
        return Shrink();
      case Op::FLIP:
      case Op::SCAN:
        return Source(0);
      default:
        if (u_.Is(kUnaryOps)) return Source(0);
        if (u_.Is(kElementwiseOps) || u_.Is(Op::WMMA)) return Broadcast();
        return &kNoShape;
    }
  }

 private:
  const Shape* New(std::initializer_list<UOp> dims) {
    return New(std::span<const UOp>(dims.begin(), dims.size()));
  }
  const Shape* New(std::span<const UOp> dims) { return shapes_.Intern(dims, arena_, key_); }

  absl::StatusOr<const Shape*> Source(size_t i) {
    const Shape* s = ctx_.ShapeOf(u_.src(i));
    if (s == nullptr)
      return Invalid(
          Cat(Name(u_.op()), " needs a value as source ", i, ", not ", Name(u_.src(i).op())));
    return s;
  }

  // Shape operands: a STACK of index scalars, none of which can be negative.
  absl::StatusOr<std::span<const UOp>> Operand(UOp stack, std::string_view what) {
    if (!stack.Is(Op::STACK) || stack.dtype() != Dtype::Index) {
      return Invalid(Cat(Name(u_.op()), " needs a STACK of index values as ", what, ", not ",
                         Name(stack.op())));
    }
    if (stack.n_src() > kMaxRank)
      return Invalid(Cat("rank (", stack.n_src(), ") is over ", kMaxRank));
    for (UOp d : stack.srcs()) {
      if (d.dtype() != Dtype::Index)
        return Invalid(Cat(what, " of ", Name(u_.op()), " holds a value that is no index"));
      if (d.Is(Op::STACK) || d.Is(kMovementOps))
        return Invalid(Cat(what, " of ", Name(u_.op()), " holds a ", Name(d.op()),
                           ", not one number: shapes do not nest"));
      if (LeastOf(ctx_, d) < 0 && !IsNeverNegative(ctx_, {{d, 1}}) &&
          BoundValue(d).value_or(-1) < 0)
        return Invalid(Cat(what, " of ", Name(u_.op()), " holds a value (", Text(d),
                           ") that can be negative", Values({std::span(&d, 1)})));
    }
    return stack.srcs();
  }

  absl::StatusOr<const Shape*> FromOperand(UOp stack) {
    UOPD_ASSIGN(std::span<const UOp> dims, Operand(stack, "shape"));
    UOPD_TRY(CheckSize(dims));
    return New(dims);
  }

  absl::Status CheckSize(std::span<const UOp> dims) {
    Int128 n = 1;
    for (UOp d : dims) {
      n *= std::max<Int128>(1, LargestOf(ctx_, d));
      n = std::min(n, Int128{kMaxElements} + 1);
    }
    if (n > kMaxElements) return Invalid(Cat("shape ", Text(dims), " has more than 2^48 elements"));
    return absl::OkStatus();
  }

  absl::StatusOr<const Shape*> Stack() {
    SymbolicDims dims = {ctx_.Idx(static_cast<int64_t>(u_.n_src()))};
    if (u_.n_src() > 0) {
      UOPD_ASSIGN(const Shape* first, Source(0));
      for (size_t i = 1; i < u_.n_src(); ++i) {
        UOPD_ASSIGN(const Shape* other, Source(i));
        if (first != other) {
          return Invalid(
              Cat("STACK of shapes ", Text(*first), " and ", Text(*other), ": they must be equal"));
        }
      }
      dims.insert(dims.end(), first->begin(), first->end());
    }
    return New(dims);
  }

  // Sizes add up along the axis of the arg; everything else is equal.
  absl::StatusOr<const Shape*> Multi() {
    UOPD_ASSIGN(const Shape* first, Source(0));
    const int64_t axis = u_.ints().empty() ? -1 : u_.ints()[0];
    if (axis >= static_cast<int64_t>(first->size()))
      return Invalid(Cat("MULTI along axis ", axis, " of pieces of shape ", Text(*first)));
    SymbolicDims dims(first->begin(), first->end());
    int64_t sum = 0;
    for (size_t i = 0; i < u_.n_src(); ++i) {
      UOPD_ASSIGN(const Shape* piece, Source(i));
      bool fits = piece->size() == first->size();
      for (size_t k = 0; fits && k < piece->size(); ++k) {
        if (static_cast<int64_t>(k) != axis) {
          fits = (*piece)[k] == (*first)[k];
          continue;
        }
        fits = (*piece)[k].Is(Op::CONST);
        if (fits) sum += (*piece)[k].const_int();
      }
      if (!fits) {
        return Invalid(Cat("MULTI of pieces of shapes ", Text(*first), " and ", Text(*piece),
                           axis < 0
                               ? ": copies of one value are equal"
                               : Cat(": they may differ in numbers along axis ", axis, " only")));
      }
    }
    if (axis >= 0) dims[axis] = ctx_.Idx(sum);
    UOPD_TRY(CheckSize(dims));
    return New(dims);
  }

  absl::StatusOr<const Shape*> Broadcast() {
    UOPD_ASSIGN(const Shape* out, Source(0));
    bool known = true;  // it is the shape of a source
    for (size_t i = 1; i < u_.n_src(); ++i) {
      UOPD_ASSIGN(const Shape* next, Source(i));
      if (out == next) continue;
      auto both = BroadcastShapes(*out, *next);
      if (!both)
        return Invalid(Cat(Name(u_.op()), " of shapes ", Text(*out), " and ", Text(*next),
                           ": they do not broadcast"));
      out = New(*both);
      known = false;
    }
    if (!known) UOPD_TRY(CheckSize(*out));
    return out;
  }

  absl::StatusOr<const Shape*> Reduce() {
    UOPD_ASSIGN(const Shape* in, Source(0));
    auto axes = u_.reduce_axes();
    if (axes.empty()) return in;
    SymbolicDims dims(in->begin(), in->end());
    int64_t last = -1;
    for (int64_t a : axes) {
      if (a <= last || a >= static_cast<int64_t>(dims.size())) {
        return Invalid(
            Cat("REDUCE over axis ", a, " of shape ", Text(*in), ": axes ascend and exist"));
      }
      dims[a] = ctx_.Idx(1);
      last = a;
    }
    return New(dims);
  }

  // Both shapes must have the same number of elements. Either the products of their constant
  // dimensions are equal and so are the symbolic dimensions, or the products of all dimensions are
  // equal as polynomials, as for (4 * v) and (v, 4).
  absl::StatusOr<const Shape*> Reshape() {
    UOPD_ASSIGN(const Shape* in, Source(0));
    UOPD_ASSIGN(const Shape* out, FromOperand(u_.src(1)));
    auto split = [](Shape s, Int128& product, std::vector<uint32_t>& symbols) {
      product = 1;
      for (UOp d : s) {
        if (d.Is(Op::CONST))
          product *= d.const_int();
        else
          symbols.push_back(d.id());
      }
      std::sort(symbols.begin(), symbols.end());
    };
    Int128 n_in, n_out;
    std::vector<uint32_t> s_in, s_out;
    split(*in, n_in, s_in);
    split(*out, n_out, s_out);
    const bool same = n_in == n_out && (s_in == s_out || n_in == 0);
    if (!same && ((s_in.empty() && s_out.empty()) || !SameProduct(ctx_, *in, *out))) {
      return Invalid(Cat("RESHAPE from ", Text(*in), " to ", Text(*out), ": sizes differ"));
    }
    return out;
  }

  absl::StatusOr<const Shape*> Expand() {
    UOPD_ASSIGN(const Shape* in, Source(0));
    UOPD_ASSIGN(const Shape* out, FromOperand(u_.src(1)));
    bool fits = in->size() <= out->size();
    for (size_t i = 0; fits && i < in->size(); ++i) {
      const UOp from = (*in)[in->size() - 1 - i], to = (*out)[out->size() - 1 - i];
      fits = from == to || from.IsConstInt(1);
    }
    if (!fits)
      return Invalid(
          Cat("EXPAND from ", Text(*in), " to ", Text(*out), ": only size-1 axes expand"));
    return out;
  }

  absl::StatusOr<const Shape*> Permute() {
    UOPD_ASSIGN(const Shape* in, Source(0));
    SymbolicDims dims;
    uint64_t seen = 0;
    for (int64_t a : u_.ints()) {
      if (a < 0 || a >= static_cast<int64_t>(in->size()) || seen >> a & 1) break;
      seen |= uint64_t{1} << a;
      dims.push_back((*in)[a]);
    }
    if (dims.size() != in->size() || u_.ints().size() != in->size()) {
      return Invalid(Cat("PERMUTE of shape ", Text(*in), ": arg is no permutation of its axes"));
    }
    return New(dims);
  }

  absl::StatusOr<const Shape*> Pad() {
    UOPD_ASSIGN(const Shape* in, Source(0));
    UOPD_ASSIGN(std::span<const UOp> before, Operand(u_.src(1), "padding"));
    UOPD_ASSIGN(const Shape* out, FromOperand(u_.src(2)));
    bool fits = before.size() == in->size() && out->size() == in->size();
    for (size_t i = 0; fits && i < in->size(); ++i) fits = Fits(before[i], (*in)[i], (*out)[i]);
    if (!fits)
      return Invalid(Cat("PAD of shape ", Text(*in), " by ", Text(before), " to ", Text(*out),
                         ": the source does not fit", Values({before, *in, *out})));
    return out;
  }

  absl::StatusOr<const Shape*> Shrink() {
    UOPD_ASSIGN(const Shape* in, Source(0));
    UOPD_ASSIGN(std::span<const UOp> starts, Operand(u_.src(1), "starts"));
    UOPD_ASSIGN(const Shape* out, FromOperand(u_.src(2)));
    bool fits = starts.size() == in->size() && out->size() == in->size();
    for (size_t i = 0; fits && i < in->size(); ++i) fits = Fits(starts[i], (*out)[i], (*in)[i]);
    if (!fits) {
      return Invalid(Cat("SHRINK of shape ", Text(*in), " to ", Text(*out), " at ", Text(starts),
                         ": the box can leave the source", Values({starts, *out, *in})));
    }
    return out;
  }

  // For every value of the variables; in a client for those that they have.
  bool Fits(UOp start, UOp size, UOp whole) {
    return BoxFits(ctx_, start, size, whole) || BoxFitsNow(start, size, whole);
  }

  UOpContext& ctx_;
  UOp u_;
  ShapeTable& shapes_;
  Arena& arena_;
  const uint64_t key_;
};

}  // namespace

absl::StatusOr<const Shape*> UOpContext::TryShapeOf(UOp u) {
  const Shape* shape = shape_of_.Get(u.id());
  if (shape == nullptr) {
    UOPD_ASSIGN(shape, Inference(*this, u, shapes_, arena_, key_).Run());
    if (shape->size() > kMaxRank)
      return Invalid(Cat("rank (", shape->size(), ") is over ", kMaxRank));
    shape_of_.Set(u.id(), shape);
  }
  return shape == &kNoShape ? nullptr : shape;
}

// Iterative, sources first. A graph that did not pass Verify may abort here; the wire never gets
// this far unverified.
const Shape* UOpContext::ShapeOf(UOp u) {
  const Shape* known = shape_of_.Get(u.id());
  if (known == nullptr) {
    absl::InlinedVector<UOp, 8> stack = {u};
    while (!stack.empty()) {
      const UOp top = stack.back();
      bool ready = true;
      for (UOp s : top.srcs()) {
        if (shape_of_.Get(s.id()) == nullptr) {
          stack.push_back(s);
          ready = false;
        }
      }
      if (!ready) continue;
      stack.pop_back();
      UOPD_CHECK(TryShapeOf(top).ok());
    }
    known = shape_of_.Get(u.id());
  }
  return known == &kNoShape ? nullptr : known;
}

std::optional<Dims> StaticDims(Shape shape) {
  Dims out;
  for (UOp d : shape) {
    if (!d.Is(Op::CONST)) return std::nullopt;
    out.push_back(d.const_int());
  }
  return out;
}

Dims MaxDims(UOpContext& ctx, Shape shape) {
  Dims out;
  for (UOp d : shape) out.push_back(static_cast<int64_t>(LargestOf(ctx, d)));
  return out;
}

int64_t Product(std::span<const int64_t> dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

std::optional<SymbolicDims> BroadcastShapes(Shape a, Shape b) {
  if (a.size() < b.size()) std::swap(a, b);
  SymbolicDims out(a.begin(), a.end());
  for (size_t i = 0; i < b.size(); ++i) {
    UOp& to = out[a.size() - 1 - i];
    const UOp from = b[b.size() - 1 - i];
    if (to == from || from.IsConstInt(1)) continue;
    if (!to.IsConstInt(1)) return std::nullopt;
    to = from;
  }
  return out;
}

bool SameShape(Shape a, Shape b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

UOp ShapeArg(UOpContext& ctx, std::span<const int64_t> dims) {
  SymbolicDims srcs;
  for (int64_t d : dims) srcs.push_back(ctx.Idx(d));
  return ShapeArg(ctx, srcs);
}

UOp ShapeArg(UOpContext& ctx, Shape dims) { return ctx.Make(Op::STACK, Dtype::Index, dims); }

}  // namespace uopd::ir
