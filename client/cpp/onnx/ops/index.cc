// SPDX-License-Identifier: MIT
// Ops that read and write at positions.
#include <algorithm>

#include "client/cpp/onnx/run/registry.h"
#include "core/base/text.h"
#include "uopd/indexing.h"
#include "uopd/movement.h"
#include "uopd/reductions.h"

namespace uopd::client::onnx {
namespace {

absl::Status OutPicked(Call& c, const Tensor& t) {
  UOPD_TRY(t.status());
  return c.Out(ValueOf(t, c.In(0).type));
}

absl::Status RunGather(Call& c) {
  UOPD_ASSIGN(const int64_t axis, c.Axis(c.Int("axis", 0), c.Rank(0)));
  return OutPicked(c, c.X(0).IndexSelect(axis, c.X(1)));
}

absl::Status RunGatherElements(Call& c) {
  UOPD_ASSIGN(const int64_t axis, c.Axis(c.Int("axis", 0), c.Rank(0)));
  return OutPicked(c, c.X(0).Gather(axis, c.X(1)));
}

// Rows of positions (..., k) in k axes of `dims` from `first` on, as positions in these axes as one
// axis. Negative ones count from the end of their axis.
absl::StatusOr<Tensor> JoinedPositions(Call& c, const Tensor& index, const Dims& dims,
                                       int64_t first) {
  const int64_t k = index.dims().back();
  if (first + k > static_cast<int64_t>(dims.size()))
    return c.Wrong(Cat("positions have ", k, " entries"));
  Tensor out;
  for (int64_t i = 0; i < k; ++i) {
    const int64_t size = dims[static_cast<size_t>(first + i)];
    Tensor at = index.Select(-1, i).Cast(Dtype::I64);
    at = Where(at < 0, at + size, at);
    out = i == 0 ? at : out * size + at;
  }
  if (k == 0) return c.Refuse("positions without entries are not supported");
  return out;
}

absl::Status RunGatherNd(Call& c) {
  const int64_t batch = c.opset() < 12 ? 0 : c.Int("batch_dims", 0);
  if (batch < 0 || batch >= std::min(c.Rank(0), c.Rank(1)))
    return c.Wrong(Cat("the attribute batch_dims is ", batch));
  const Dims& dims = c.Shape(0);
  const auto b = static_cast<size_t>(batch), k = static_cast<size_t>(c.Shape(1).back());
  UOPD_ASSIGN(Tensor at, JoinedPositions(c, c.X(1), dims, batch));
  const std::span<const int64_t> all(dims);
  const int64_t rows = ir::Product(all.first(b)), places = ir::Product(all.subspan(b, k));
  Dims flat{rows * places}, out = at.dims();
  flat.insert(flat.end(), dims.begin() + static_cast<ptrdiff_t>(b + k), dims.end());
  out.insert(out.end(), flat.begin() + 1, flat.end());
  if (rows > 1) {
    const Tensor begin = c.client().Arange(0, rows, 1, Dtype::I64) * places;
    at = at.Reshape({rows, -1}) + begin.Reshape({rows, 1});
  }
  return OutPicked(c, c.X(0).Reshape(flat).IndexSelect(0, at.Reshape({-1})).Reshape(out));
}

// x with values at positions along an axis, as the attribute `reduction` says.
absl::StatusOr<Tensor> Scattered(Call& c, const Tensor& x, int64_t axis, const Tensor& at,
                                 const Tensor& values) {
  const std::string_view how = c.String("reduction", "none");
  if (how == "none") return fn::Scatter(x, axis, at, values);
  using Mode = fn::ScatterMode;
  const std::pair<std::string_view, Mode> modes[] = {
      {"add", Mode::kSum}, {"mul", Mode::kProd}, {"max", Mode::kAmax}, {"min", Mode::kAmin}};
  for (const auto& [name, mode] : modes)
    if (how == name) return fn::ScatterReduce(x, axis, at, values, mode);
  return c.Wrong("the attribute reduction is not known");
}

absl::Status RunScatterElements(Call& c) {
  UOPD_ASSIGN(const int64_t axis, c.Axis(c.Int("axis", 0), c.Rank(0)));
  if (c.Shape(1) != c.Shape(2)) return c.Wrong("positions and values have different shapes");
  UOPD_ASSIGN(const Tensor y, Scattered(c, c.X(0), axis, c.X(1), c.X(2)));
  return OutPicked(c, y);
}

absl::Status RunScatterNd(Call& c) {
  if (c.Rank(1) < 1) return c.Wrong("the positions have no axes");
  const Dims& dims = c.Shape(0);
  const auto k = static_cast<size_t>(c.Shape(1).back());
  UOPD_ASSIGN(const Tensor at, JoinedPositions(c, c.X(1), dims, 0));
  const int64_t places = ir::Product(std::span<const int64_t>(dims).first(k));
  const int64_t width = ir::Product(std::span<const int64_t>(dims).subspan(k));
  const int64_t count = at.size();
  if (c.X(2).size() != count * width) return c.Wrong("the values have a wrong shape");
  UOPD_ASSIGN(const Tensor y, Scattered(c, c.X(0).Reshape({places, width}), 0,
                                        at.Reshape({count, 1}).Expand({count, width}),
                                        c.X(2).Reshape({count, width})));
  return OutPicked(c, y.Reshape(dims));
}

absl::Status RunNonZero(Call& c) {
  if (c.Rank(0) == 0) return c.Refuse("an input without axes is not supported");
  UOPD_ASSIGN(const int32_t count, fn::CountNonzero(c.X(0)).Item<int32_t>());
  if (count == 0) return c.Out(c.client().Zeros({c.Rank(0), 0}, Dtype::I64));
  return c.Out(fn::Nonzero(c.X(0), count).Transpose().Cast(Dtype::I64));
}

absl::Status RunCompress(Call& c) {
  const bool flat = c.Find("axis") == nullptr;
  const Tensor x = flat ? c.X(0).Reshape({-1}) : c.X(0);
  UOPD_ASSIGN(const int64_t axis, c.Axis(c.Int("axis", 0), x.rank()));
  UOPD_ASSIGN(const Dims keep, c.Ints(1));
  if (static_cast<int64_t>(keep.size()) > x.dims()[static_cast<size_t>(axis)])
    return c.Wrong("the condition is longer than the axis");
  std::vector<int64_t> places;
  for (size_t i = 0; i < keep.size(); ++i)
    if (keep[i] != 0) places.push_back(static_cast<int64_t>(i));
  const auto count = static_cast<int64_t>(places.size());
  return OutPicked(c, x.IndexSelect(axis, c.client().FromHost(places, {count})));
}

}  // namespace

OpRows IndexOps() {
  return {
      {"Gather", 1, 2, 2, RunGather, kAnyType},
      {"GatherElements", 11, 2, 2, RunGatherElements, kAnyType},
      {"GatherND", 11, 2, 2, RunGatherNd, kAnyType},
      {"ScatterElements", 11, 3, 3, RunScatterElements},
      {"Scatter", 9, 3, 3, RunScatterElements},
      {"ScatterND", 11, 3, 3, RunScatterNd},
      {"NonZero", 9, 1, 1, RunNonZero},
      {"Compress", 9, 2, 2, RunCompress},
  };
}

}  // namespace uopd::client::onnx
