// SPDX-License-Identifier: MIT
#include "core/ir/tensor_map.h"

#include <algorithm>

#include "core/ir/dtype.h"

namespace uopd::ir {

Arg TensorMapArg(UOpContext& ctx, const TensorMap& map) {
  std::vector<int64_t> out = {map.span, static_cast<int64_t>(map.rank())};
  for (const auto* part : {&map.dims, &map.strides, &map.box})
    out.insert(out.end(), part->begin(), part->end());
  return ctx.Data(out);
}

std::optional<TensorMap> MaybeTensorMap(UOp u) {
  const auto v = u.ints();
  if (v.size() < 2 || v[1] < 1 || v[1] > static_cast<int64_t>(TensorMap::kMostRank))
    return std::nullopt;
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
    if (TensorMap map = *MaybeTensorMap(u); std::ranges::find(out, map) == out.end())
      out.push_back(std::move(map));
  }
  return out;
}

}  // namespace uopd::ir
