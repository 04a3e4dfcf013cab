// SPDX-License-Identifier: MIT
// Padding with elements of the tensor: pieces of an axis, mirrored or repeated, joined with it.
#include <algorithm>
#include <string_view>

#include "client/cpp/ops/common.h"
#include "client/cpp/ops/sized.h"
#include "core/ir/build.h"
#include "uopd/movement.h"

namespace uopd::client::fn {
namespace {

std::string_view NameOf(PadMode mode) {
  return mode == PadMode::kReflect     ? "reflecting"
         : mode == PadMode::kReplicate ? "replicating"
                                       : "circular";
}

// `length` elements from `back` elements before the end on.
Tensor PieceFromEnd(const Tensor& x, int64_t axis, int64_t back, int64_t length, Site site) {
  const auto a = static_cast<size_t>(axis);
  if (ShapeOf(x)[a].Is(ir::Op::CONST)) return x.Narrow(axis, x.dims()[a] - back, length, site);
  return x.Narrow(axis, x.Length(axis, site) - back, length, site);
}

// x with `before` and `after` elements around one axis.
Tensor Around(const Tensor& x, int64_t axis, int64_t before, int64_t after, PadMode mode,
              Site site) {
  const int64_t n = SizeNow(x, static_cast<size_t>(axis));
  const int64_t most = mode == PadMode::kReflect    ? n - 1
                       : mode == PadMode::kCircular ? n
                       : n == 0                     ? 0
                                                    : INT64_MAX;
  if (std::max(before, after) > most) {
    return Wrong(x, "Pad", site,
                 Cat(NameOf(mode), " padding of ", std::max(before, after), " along axis ", axis,
                     " of shape ", Text(x.dims())));
  }
  auto first = [&](int64_t at, int64_t length) { return x.Narrow(axis, at, length, site); };
  auto last = [&](int64_t back, int64_t length) {
    return PieceFromEnd(x, axis, back, length, site);
  };
  auto repeated = [&](const Tensor& edge, int64_t times) {
    ir::SymbolicDims to = SizesOf(x);
    to[static_cast<size_t>(axis)] = Ctx(x).Idx(times);
    return ExpandTo(edge, to, "Pad", site);
  };
  std::vector<Tensor> parts;
  if (before > 0) {
    parts.push_back(mode == PadMode::kReflect     ? first(1, before).Flip({axis}, site)
                    : mode == PadMode::kReplicate ? repeated(first(0, 1), before)
                                                  : last(before, before));
  }
  parts.push_back(x);
  if (after > 0) {
    parts.push_back(mode == PadMode::kReflect     ? last(1 + after, after).Flip({axis}, site)
                    : mode == PadMode::kReplicate ? repeated(last(1, 1), after)
                                                  : first(0, after));
  }
  return parts.size() == 1 ? x : Concat(parts, axis, site);
}

// Without elements at both ends of axes.
Tensor Cut(Tensor x, const Dims& before, const Dims& after, Site site) {
  for (size_t i = 0; i < before.size() && x.status().ok(); ++i) {
    if (before[i] == 0 && after[i] == 0) continue;
    const auto axis = static_cast<int64_t>(i);
    const int64_t less = before[i] + after[i];
    if (ShapeOf(x)[i].Is(ir::Op::CONST))
      x = x.Narrow(axis, before[i], x.dims()[i] - less, site);
    else
      x = x.Narrow(axis, before[i], x.Length(axis, site) - less, site);
  }
  return x;
}

}  // namespace

Tensor Pad(const Tensor& x, std::span<const Size> before, std::span<const Size> after, double value,
           Site site) {
  if (auto error = FirstError("Pad", {&x}, site)) return *error;
  const size_t rank = x.dims().size();
  if (before.size() != rank || after.size() != rank) {
    return Wrong(x, "Pad", site,
                 Cat("padding for ", std::max(before.size(), after.size()), " axes of shape ",
                     Text(x.dims())));
  }
  ir::UOpContext& ctx = Ctx(x);
  const auto low = SizesIn(x, before), high = SizesIn(x, after);
  for (const auto* sizes : {&low, &high}) {
    if (!sizes->ok()) return Poisoned(x.state()->graph, Located("Pad", site, sizes->status()));
  }
  // Numbers below 0 cut off. What is made of variables may only add.
  ir::SymbolicDims at, to, starts, kept = SizesOf(x);
  for (size_t i = 0; i < rank; ++i) {
    const auto cut = [](ir::UOp n) {
      return n.Is(ir::Op::CONST) ? std::max<int64_t>(0, -n.const_int()) : 0;
    };
    const int64_t first = cut((*low)[i]), last = cut((*high)[i]);
    starts.push_back(ctx.Idx(first));
    kept[i] = DifferenceOf(ctx, kept[i], ctx.Idx(first + last));
    at.push_back(first > 0 ? ctx.Idx(0) : (*low)[i]);
    to.push_back(SumOf(ctx, kept[i], SumOf(ctx, at[i], last > 0 ? ctx.Idx(0) : (*high)[i])));
  }
  Tensor inner = x;
  if (!ir::SameShape(kept, ShapeOf(x))) {
    inner = Made(x,
                 ir::Shrink(ctx, Value(x), ir::ShapeArg(ctx, ir::Shape(starts)),
                            ir::ShapeArg(ctx, ir::Shape(kept))),
                 "Pad", site);
    if (!inner.status().ok()) return inner;
  }
  const ir::UOp begin = ir::ShapeArg(ctx, ir::Shape(at)), shape = ir::ShapeArg(ctx, ir::Shape(to));
  Tensor padded = Made(x, ir::Pad(ctx, Value(inner), begin, shape), "Pad", site);
  if (value == 0 || !padded.status().ok()) return padded;
  if (const absl::Status fits = CheckNumber(x.dtype(), value); !fits.ok())
    return Poisoned(x.state()->graph, Located("Pad", site, fits));
  const Tensor all = TrueLike(inner);
  return Where(Made(x, ir::Pad(ctx, Value(all), begin, shape), "Pad", site), padded,
               Like(x, value));
}

Tensor Pad(const Tensor& x, const Dims& before, const Dims& after, PadMode mode, double value,
           Site site) {
  if (x.is_symbolic() && mode == PadMode::kConstant) {
    return Pad(x, std::vector<Size>(before.begin(), before.end()),
               std::vector<Size>(after.begin(), after.end()), value, site);
  }
  if (auto error = FirstError("Pad", {&x}, site)) return *error;
  const size_t rank = x.dims().size();
  if (before.size() != rank || after.size() != rank) {
    return Wrong(x, "Pad", site,
                 Cat("padding for ", std::max(before.size(), after.size()), " axes of shape ",
                     Text(x.dims())));
  }
  constexpr int64_t kMost = int64_t{1} << 40;  // keeps sums far from overflow
  Dims less_before(rank, 0), less_after(rank, 0), more_before = before, more_after = after;
  for (size_t i = 0; i < rank; ++i) {
    if (std::max(std::abs(before[i]), std::abs(after[i])) > kMost)
      return Wrong(x, "Pad", site, Cat("padding of ", before[i], " and ", after[i]));
    less_before[i] = std::max<int64_t>(0, -before[i]);
    less_after[i] = std::max<int64_t>(0, -after[i]);
    more_before[i] = std::max<int64_t>(0, before[i]);
    more_after[i] = std::max<int64_t>(0, after[i]);
    // More than there is cannot be cut off, but by what a mirror or an edge adds at the other side.
    const bool added = mode == PadMode::kReflect || mode == PadMode::kReplicate;
    const int64_t n = SizeNow(x, i);
    if (less_before[i] + less_after[i] > n + (added ? more_before[i] + more_after[i] : 0)) {
      return Wrong(x, "Pad", site,
                   Cat("padding of ", before[i], " and ", after[i], " along axis ", i, " of shape ",
                       Text(x.dims())));
    }
  }
  const bool cut_last = mode == PadMode::kReflect || mode == PadMode::kReplicate;
  Tensor out = cut_last ? x : Cut(x, less_before, less_after, site);
  if (mode == PadMode::kConstant) return out.Pad(more_before, more_after, value, site);
  for (size_t i = 0; i < rank && out.status().ok(); ++i)
    out = Around(out, static_cast<int64_t>(i), more_before[i], more_after[i], mode, site);
  if (cut_last) out = Cut(out, less_before, less_after, site);
  return out.state() == x.state() ? Another(x) : out;
}

}  // namespace uopd::client::fn
