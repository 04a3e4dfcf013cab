// SPDX-License-Identifier: MIT
// Operations that take parts of tensors: by symbolic position, by lists of lengths, by index
// tensors.
#include "absl/container/flat_hash_map.h"
#include "client/cpp/graph/build.h"
#include "client/cpp/ops/sized.h"
#include "core/ir/analysis/sizes.h"
#include "core/ir/build.h"

namespace uopd::client {

using ir::Op;
using ir::UOp;

namespace {

// Converts an integer scalar into index arithmetic: variables, numbers, and + - * of them. Every
// operation on integer scalars asks, so a long computation that is no size must cost little: each
// node is looked at once, and kMostNodes of them at most.
class ToIndex {
 public:
  explicit ToIndex(ir::UOpContext& ctx) : ctx_(ctx) {}

  absl::StatusOr<UOp> operator()(UOp u) {
    if (u.Is(Op::CAST) && u.src(0).dtype() == Dtype::Index) return u.src(0);
    if (u.Is(Op::CONST) && ir::IsInt(u.dtype())) return ctx_.Idx(u.const_int());
    if (const auto found = known_.find(u.id()); found != known_.end()) return found->second;
    if (++nodes_ > kMostNodes)
      return absl::InvalidArgumentError(
          Cat("a size is computed by more than ", kMostNodes, " operations"));
    UOPD_ASSIGN(const UOp index, Computed(u));
    known_.emplace(u.id(), index);
    return index;
  }

 private:
  static constexpr int kMostNodes = 256;

  absl::StatusOr<UOp> Computed(UOp u) {
    constexpr ir::OpSet kOps = {Op::ADD, Op::SUB, Op::MUL, Op::FLOORDIV, Op::FLOORMOD, Op::MAX};
    if (u.Is(Op::NEG) && ir::IsInt(u.dtype())) {
      UOPD_ASSIGN(const UOp a, (*this)(u.src(0)));
      return ir::Sub(ctx_, ctx_.Idx(0), a);
    }
    const bool known = u.Is(kOps) || (u.Is(Op::CAST) && ir::IsInt(u.src(0).dtype()));
    if (!known || !ir::IsInt(u.dtype()))
      return absl::InvalidArgumentError(
          "a size is computed from variables and numbers by + - * // % and maxima only");
    UOPD_ASSIGN(const UOp a, (*this)(u.src(0)));
    if (u.Is(Op::CAST)) return a;
    UOPD_ASSIGN(const UOp b, (*this)(u.src(1)));
    if (a.Is(Op::CONST) && b.Is(Op::CONST) && u.Is(ir::OpSet{Op::ADD, Op::SUB, Op::MUL})) {
      const ir::Int128 x = a.const_int(), y = b.const_int();
      const ir::Int128 v = u.Is(Op::ADD) ? x + y : u.Is(Op::SUB) ? x - y : x * y;
      if (v < INT64_MIN || v > INT64_MAX)
        return absl::InvalidArgumentError("a size is over 64 bits");
      return ctx_.Idx(static_cast<int64_t>(v));
    }
    return ir::Alu(ctx_, u.op(), {a, b});
  }

  ir::UOpContext& ctx_;
  absl::flat_hash_map<uint32_t, UOp> known_;  // by id
  int nodes_ = 0;
};

// A bool for each position: true where the position is the index. Negative indices count from the
// end.
Tensor Hit(const Tensor& index, int64_t n, const Tensor& positions) {
  const Tensor at = index.Cast(Dtype::I64);
  return Where(at < 0, at + n, at) == positions;
}

// The element that is hit along an axis, or 0. At most one element is hit, so the result is a sum
// in which all other elements are replaced by 0 first, so that their infinities do not count.
Tensor Chosen(const Tensor& hit, const Tensor& from, int64_t axis, Site site) {
  const Tensor chosen = Where(hit, from, ScalarLike(from, from.dtype(), 0));
  return from.dtype() == Dtype::Bool ? chosen.Max({axis}, false, site)
                                     : chosen.Sum({axis}, false, site).Cast(from.dtype(), site);
}

}  // namespace

bool IsSize(const Tensor& t) {
  if (t.dtype() != Dtype::I64 || t.rank() != 0 || !t.status().ok()) return false;
  const auto index = ToIndex(Ctx(t))(Value(t));
  return index.ok() && !index->Is(Op::CONST);
}

absl::StatusOr<UOp> IndexOf(const Tensor& t, Size size) {
  if (size.tensor() == nullptr) return Ctx(t).Idx(size.number());
  UOPD_TRY(size.tensor()->status());
  if (size.tensor()->state()->graph != t.state()->graph)
    return absl::InvalidArgumentError("a size belongs to another client");
  if (size.tensor()->rank() != 0) return absl::InvalidArgumentError("a size must be a scalar");
  UOPD_ASSIGN(const UOp index, ToIndex(Ctx(t))(Value(*size.tensor())));
  return ir::CanonicalSize(Ctx(t), index);
}

Tensor Tensor::Narrow(int64_t axis, Size begin, Size length, Site site) const {
  if (!status().ok()) return *this;
  const auto a = Axis(axis, rank());
  if (!a) return Wrong(*this, "Narrow", site, Cat("axis ", axis, " of shape ", Text(dims())));
  ir::UOpContext& ctx = Ctx(*this);
  const auto at = IndexOf(*this, begin), n = IndexOf(*this, length);
  for (const auto* x : {&at, &n}) {
    if (!x->ok()) return Poisoned(state_->graph, Located("Narrow", site, x->status()));
  }
  const ir::Shape shape = ShapeOf(*this);
  ir::SymbolicDims starts(shape.size(), ctx.Idx(0)), to(shape.begin(), shape.end());
  starts[static_cast<size_t>(*a)] = *at;
  to[static_cast<size_t>(*a)] = *n;
  if (at->IsConstInt(0) && ir::SameShape(to, shape)) return Same(*this);
  return Made(*this,
              ir::Shrink(ctx, Value(*this), ir::ShapeArg(ctx, ir::Shape(starts)),
                         ir::ShapeArg(ctx, ir::Shape(to))),
              "Narrow", site);
}

void Tensor::AssignNarrow(int64_t axis, Size begin, const Tensor& value, Site site) {
  if (!status().ok()) return;
  auto wrong = [&](std::string message) {
    Assign({Wrong(*this, "AssignNarrow", site, std::move(message)), site});
  };
  if (!value.status().ok()) {
    if (value.state() == nullptr) return wrong("the value is an empty tensor");
    return Assign({value, site});
  }
  if (value.state()->graph != state_->graph || value.dtype() != dtype())
    return wrong(Cat("a tensor of ", ir::Name(dtype()), " takes a value of its client and dtype"));
  const auto a = Axis(axis, rank());
  if (!a || value.rank() != rank())
    return wrong(Cat("axis ", axis, " of shape ", Text(dims()), " and a value of shape ",
                     Text(value.dims())));
  const int64_t n = value.dims()[static_cast<size_t>(*a)];
  const Tensor part = Narrow(*a, begin, n, site);
  if (!part.status().ok()) return Assign({part, site});
  if (part.dims() != value.dims()) {
    return wrong(Cat("a value of shape ", Text(value.dims()), " along axis ", axis, " of shape ",
                     Text(dims())));
  }
  if (value.size() == 0) return;
  // An assignment to the part, which is a view, also changes this tensor.
  Tensor written = part;
  written.Assign({value, site});
  if (!written.status().ok()) Assign({written, site});
}

std::vector<Tensor> Tensor::Split(int64_t axis, const Dims& lengths, Site site) const {
  std::vector<Tensor> out;
  const auto a = status().ok() ? Axis(axis, rank()) : std::nullopt;
  int64_t at = 0;
  for (int64_t n : lengths) at += n < 0 ? INT32_MAX : n;
  const bool fits = a && ShapeOf(*this)[static_cast<size_t>(*a)].IsConstInt(at);
  at = 0;
  for (int64_t n : lengths) {
    if (!status().ok()) {
      out.push_back(*this);
    } else if (!fits) {
      out.push_back(
          Wrong(*this, "Split", site,
                Cat("lengths ", Text(lengths), " along axis ", axis, " of shape ", Text(dims()))));
    } else {
      out.push_back(Narrow(*a, at, n, site));
      at += n;
    }
  }
  return out;
}

std::vector<Tensor> Tensor::Chunk(int64_t axis, int64_t pieces, Site site) const {
  const auto a = status().ok() ? Axis(axis, rank()) : std::nullopt;
  if (!a || pieces < 1) {
    return {!status().ok()
                ? *this
                : Wrong(*this, "Chunk", site,
                        Cat(pieces, " pieces along axis ", axis, " of shape ", Text(dims())))};
  }
  const int64_t n = dims()[static_cast<size_t>(*a)],
                each = std::max<int64_t>(1, (n + pieces - 1) / pieces);
  Dims lengths;
  for (int64_t at = 0; at < n; at += each) lengths.push_back(std::min(each, n - at));
  if (lengths.empty()) lengths.push_back(0);
  return Split(*a, lengths, site);
}

Tensor Tensor::Repeat(Dims times, Site site) const {
  if (!status().ok()) return *this;
  ir::UOpContext& ctx = Ctx(*this);
  ir::SymbolicDims from = SizesOf(*this);
  if (times.size() < from.size())
    return Wrong(*this, "Repeat", site, Cat("counts ", Text(times), " for shape ", Text(dims())));
  from.insert(from.begin(), times.size() - from.size(), ctx.Idx(1));
  ir::SymbolicDims split, whole, joined;
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i] < 0)
      return Wrong(*this, "Repeat", site, Cat("a count of ", Text(times), " is negative"));
    if (times[i] != 1) {
      split.push_back(ctx.Idx(1));
      whole.push_back(ctx.Idx(times[i]));
    }
    split.push_back(from[i]);
    whole.push_back(from[i]);
    joined.push_back(ProductOf(ctx, from[i], ctx.Idx(times[i])));
  }
  Tensor parts = ReshapeTo(*this, split, "Repeat", site);
  if (!parts.status().ok()) return parts;
  const UOp shape = ir::ShapeArg(ctx, ir::Shape(whole));
  const Tensor all = Made(parts, ir::Expand(ctx, Value(parts), shape), "Repeat", site);
  return all.status().ok() ? ReshapeTo(all, joined, "Repeat", site) : all;
}

namespace {

// Keeps the elements of the last two axes whose column is at most (lower) or at least (upper) row +
// diagonal; the others become 0.
Tensor Triangle(const Tensor& t, Size diagonal, bool lower, std::string_view what, Site site) {
  if (!t.status().ok()) return t;
  const auto offset = IndexOf(t, diagonal);
  if (!offset.ok()) return Poisoned(t.state()->graph, Located(what, site, offset.status()));
  if (t.rank() < 2)
    return Wrong(t, what, site, Cat("shape ", Text(t.dims()), " has fewer than two axes"));
  const ir::SymbolicDims sizes = SizesOf(t);
  const Tensor row = IotaOf(t, sizes[sizes.size() - 2], Dtype::I64).Unsqueeze(-1, site);
  const Tensor column = IotaOf(t, sizes.back(), Dtype::I64);
  const Tensor limit =
      diagonal.tensor() == nullptr ? row + diagonal.number() : row + SizeTensor(t, *offset);
  const Tensor zero = ScalarLike(t, t.dtype(), 0);
  return lower ? Where(limit < column, zero, t) : Where(column < limit, zero, t);
}

}  // namespace

Tensor Tensor::Tril(Size diagonal, Site site) const {
  return Triangle(*this, diagonal, true, "Tril", site);
}
Tensor Tensor::Triu(Size diagonal, Site site) const {
  return Triangle(*this, diagonal, false, "Triu", site);
}

Tensor Tensor::Gather(int64_t axis, const Tensor& index, Site site) const {
  if (!status().ok()) return *this;
  if (!index.status().ok())
    return index.state() != nullptr ? index
                                    : Wrong(*this, "Gather", site, "the index is an empty tensor");
  const auto a = Axis(axis, rank());
  if (a && (is_symbolic() || index.is_symbolic())) {
    const Tensor at = FromStart(index, *this, *a, site);
    return Cornered(Boxed(*this, site).Gather(*a, Boxed(at, site), site), SizesOf(index), site);
  }
  bool fits = a && index.rank() == rank() && ir::IsInt(index.dtype());
  Dims end = dims();
  for (size_t i = 0; fits && i < end.size(); ++i) {
    if (static_cast<int64_t>(i) == *a) continue;
    fits = index.dims()[i] <= end[i];
    end[i] = index.dims()[i];
  }
  if (!fits) {
    return Wrong(*this, "Gather", site,
                 Cat("an index of ", ir::Name(index.dtype()), " ", Text(index.dims()),
                     " along axis ", axis, " of shape ", Text(dims())));
  }
  // Shapes [..., n of the axis] and [..., index, 1] broadcast against each other.
  const int64_t n = dims()[static_cast<size_t>(*a)];
  const Tensor from =
      Shrink(Dims(end.size(), 0), end, site).Unsqueeze(-1, site).Transpose(*a, -1, site);
  return Chosen(Hit(index.Unsqueeze(-1, site), n, IotaLike(*this, n, Dtype::I64)), from, -1, site);
}

Tensor Tensor::OneHot(int64_t classes, Dtype dtype, Site site) const {
  if (!status().ok()) return *this;
  if (ir::IsFloat(this->dtype()) || classes < 0) {
    return Wrong(*this, "OneHot", site,
                 Cat("labels of ", ir::Name(this->dtype()), " for ", classes, " classes"));
  }
  // A label that the narrower dtype did not hold would become another one.
  const Dtype label = ir::Bits(this->dtype()) >= 32 && this->dtype() != Dtype::I32
                          ? Dtype::I64
                          : PositionDtype(classes);
  return (Cast(label, site).Unsqueeze(-1, site) == IotaLike(*this, classes, label))
      .Cast(dtype, site);
}

Tensor Tensor::IndexSelect(int64_t axis, const Tensor& index, Site site) const {
  if (!status().ok()) return *this;
  if (!index.status().ok())
    return index.state() != nullptr
               ? index
               : Wrong(*this, "IndexSelect", site, "the index is an empty tensor");
  const auto a = Axis(axis, rank());
  if (!a) return Wrong(*this, "IndexSelect", site, Cat("axis ", axis, " of shape ", Text(dims())));
  if (is_symbolic() || index.is_symbolic()) {
    // In a box, where negative positions count from the end of now.
    const Tensor inside = FromStart(index, *this, *a, site);
    ir::SymbolicDims sizes;
    for (size_t i = 0; i < dims().size(); ++i) {
      const ir::Shape own = ShapeOf(*this), others = ShapeOf(index);
      if (static_cast<int64_t>(i) == *a)
        sizes.insert(sizes.end(), others.begin(), others.end());
      else
        sizes.push_back(own[i]);
    }
    return Cornered(Boxed(*this, site).IndexSelect(*a, Boxed(inside, site), site), sizes, site);
  }
  if (!ir::IsInt(index.dtype()))
    return Wrong(*this, "IndexSelect", site, Cat("an index of ", ir::Name(index.dtype())));
  const auto i = static_cast<size_t>(*a);
  const int64_t n = dims()[i], m = index.size();
  // The axis is moved to the front. Then the hits [m, n] choose in [n, rest].
  Dims order = {*a};
  for (int64_t k = 0; k < rank(); ++k) {
    if (k != *a) order.push_back(k);
  }
  // The product of the other axes: an empty axis has rows too, of which none is selected.
  const int64_t width =
      ir::Product(std::span(dims()).subspan(0, i)) * ir::Product(std::span(dims()).subspan(i + 1));
  const Tensor rows = Permute(order, site).Reshape({1, n, width}, site);
  const Tensor hit = Hit(index.Reshape({m, 1, 1}, site), n,
                         IotaLike(*this, n, Dtype::I64).Reshape({1, n, 1}, site));
  const Tensor chosen = Chosen(hit, rows, 1, site);
  // [index..., rest...] with the index's axes moved to where the axis was.
  Dims shape = index.dims(), back;
  for (int64_t k = 0; k < rank(); ++k) {
    if (k != *a) shape.push_back(dims()[static_cast<size_t>(k)]);
  }
  for (int64_t k = 0; k < *a; ++k) back.push_back(index.rank() + k);
  for (int64_t k = 0; k < index.rank(); ++k) back.push_back(k);
  for (int64_t k = *a; k + 1 < rank(); ++k) back.push_back(index.rank() + k);
  return chosen.Reshape(shape, site).Permute(back, site);
}

}  // namespace uopd::client
