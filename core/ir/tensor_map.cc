// SPDX-License-Identifier: MIT
#include "core/ir/tensor_map.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/ir/dtype.h"

namespace uopd::ir {

int64_t TensorMap::rows() const {
  int64_t out = 1;
  for (size_t d = 1; d < box.size(); ++d) out *= box[d];
  return out;
}

int64_t TensorMap::box_bytes() const { return rows() * span; }

std::string TensorMap::MaybeWrong() const {
  constexpr int64_t kMostDim = int64_t{1} << 32, kMostStride = int64_t{1} << 40, kPiece = 16;
  if (element_bytes != 1 && element_bytes != 2 && element_bytes != 4)
    return Cat("elements have ", element_bytes, " bytes");
  if (span != 128 && span != 64 && span != 32) return Cat("a span has ", span, " bytes");
  const size_t n = dims.size();
  if (n < 1 || n > kMostRank || strides.size() != n - 1 || box.size() != n)
    return Cat("a tensor has ", n, " dimensions, ", strides.size(), " strides and a box of ",
               box.size());
  for (const int64_t d : dims) {
    if (d < 1 || d > kMostDim) return Cat("a dimension has ", d, " elements");
  }
  for (const int64_t s : strides) {
    if (s < kPiece || s >= kMostStride || s % kPiece != 0) return Cat("a stride is ", s, " bytes");
  }
  for (const int64_t b : box) {
    if (b < 1 || b > kMostBox) return Cat("a box has ", b, " elements along a dimension");
  }
  if (box[0] * element_bytes != span)
    return Cat("a row of a box has ", box[0] * element_bytes, " bytes, and a span ", span);
  // The product of five sizes of a box has at most 40 bits.
  return box_bytes() < kMostBytes ? std::string() : Cat("a box has ", box_bytes(), " bytes");
}

Arg TensorMap::ToArg(UOpContext& ctx) const {
  std::vector<int64_t> out = {span, static_cast<int64_t>(dims.size())};
  for (const auto* part : {&dims, &strides, &box})
    out.insert(out.end(), part->begin(), part->end());
  return ctx.Data(out);
}

std::optional<TensorMap> TensorMap::MaybeOf(UOp u) {
  const auto v = u.ints();
  if (v.size() < 2 || v[1] < 1 || v[1] > static_cast<int64_t>(kMostRank)) return std::nullopt;
  const auto n = static_cast<size_t>(v[1]);
  if (v.size() != 2 + 3 * n - 1 || !u.src(1).Is(Op::PARAM)) return std::nullopt;
  TensorMap out{u.src(1).slot(), ByteSize(u.src(1).dtype()), v[0]};
  auto at = v.begin() + 2;
  const auto take = [&](std::vector<int64_t>& part, size_t count) {
    part.assign(at, at + static_cast<std::ptrdiff_t>(count));
    at += static_cast<std::ptrdiff_t>(count);
  };
  take(out.dims, n);
  take(out.strides, n - 1);
  take(out.box, n);
  return out;
}

std::vector<TensorMap> TensorMapsOf(UOp linear) {
  std::vector<TensorMap> out;
  for (UOp u : linear.srcs()) {
    if (!u.Is(Op::BULK_COPY)) continue;
    if (TensorMap map = *TensorMap::MaybeOf(u); std::ranges::find(out, map) == out.end())
      out.push_back(std::move(map));
  }
  return out;
}

}  // namespace uopd::ir
