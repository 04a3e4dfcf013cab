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

// x with `before` and `after` elements around one axis.
Tensor Around(const Tensor& x, int64_t axis, int64_t before, int64_t after, PadMode mode,
              Site site) {
  const int64_t n = x.dims()[static_cast<size_t>(axis)];
  const int64_t most = mode == PadMode::kReflect    ? n - 1
                       : mode == PadMode::kCircular ? n
                       : n == 0                     ? 0
                                                    : INT64_MAX;
  if (std::max(before, after) > most) {
    return Wrong(x, "Pad", site,
                 Cat(NameOf(mode), " padding of ", std::max(before, after), " along axis ", axis,
                     " of shape ", Text(x.dims())));
  }
  auto piece = [&](int64_t at, int64_t length) { return x.Narrow(axis, at, length, site); };
  auto edge = [&](int64_t at, int64_t length) {
    Dims to = x.dims();
    to[static_cast<size_t>(axis)] = length;
    return piece(at, 1).Expand(to, site);
  };
  std::vector<Tensor> parts;
  if (before > 0) {
    parts.push_back(mode == PadMode::kReflect     ? piece(1, before).Flip({axis}, site)
                    : mode == PadMode::kReplicate ? edge(0, before)
                                                  : piece(n - before, before));
  }
  parts.push_back(x);
  if (after > 0) {
    parts.push_back(mode == PadMode::kReflect     ? piece(n - 1 - after, after).Flip({axis}, site)
                    : mode == PadMode::kReplicate ? edge(n - 1, after)
                                                  : piece(0, after));
  }
  return parts.size() == 1 ? x : Concat(parts, axis, site);
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
  if (auto error = Refused("Pad", {&x}, site)) return *error;
  const size_t rank = x.dims().size();
  if (before.size() != rank || after.size() != rank) {
    return Wrong(x, "Pad", site,
                 Cat("padding for ", std::max(before.size(), after.size()), " axes of shape ",
                     Text(x.dims())));
  }
  constexpr int64_t kMost = int64_t{1} << 40;  // keeps sums far from overflow
  Dims begin(rank, 0), end = x.dims(), more_before = before, more_after = after;
  for (size_t i = 0; i < rank; ++i) {
    if (std::max(std::abs(before[i]), std::abs(after[i])) > kMost)
      return Wrong(x, "Pad", site, Cat("padding of ", before[i], " and ", after[i]));
    begin[i] = std::max<int64_t>(0, -before[i]);
    end[i] -= std::max<int64_t>(0, -after[i]);
    more_before[i] = std::max<int64_t>(0, before[i]);
    more_after[i] = std::max<int64_t>(0, after[i]);
    // More than there is cannot be cut off, but by what a mirror or an edge adds at the other side.
    const bool added = mode == PadMode::kReflect || mode == PadMode::kReplicate;
    if (begin[i] > end[i] + (added ? more_before[i] + more_after[i] : 0)) {
      return Wrong(x, "Pad", site,
                   Cat("padding of ", before[i], " and ", after[i], " along axis ", i, " of shape ",
                       Text(x.dims())));
    }
  }
  const bool cut_last = mode == PadMode::kReflect || mode == PadMode::kReplicate;
  Tensor out = cut_last ? x : x.Shrink(begin, end, site);
  if (mode == PadMode::kConstant) return out.Pad(more_before, more_after, value, site);
  for (size_t i = 0; i < rank && out.status().ok(); ++i)
    out = Around(out, static_cast<int64_t>(i), more_before[i], more_after[i], mode, site);
  if (!cut_last || !out.status().ok()) return out;
  // Where the axis was cut off it is whole now, and longer by what was added.
  end = out.dims();
  for (size_t i = 0; i < rank; ++i) end[i] -= std::max<int64_t>(0, -after[i]);
  return out.Shrink(begin, end, site);
}

}  // namespace uopd::client::fn
