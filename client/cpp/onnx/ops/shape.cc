// SPDX-License-Identifier: MIT
// Ops that give tensors other shapes, and that tell their shapes.
#include <algorithm>

#include "client/cpp/onnx/reader.h"
#include "client/cpp/onnx/run/registry.h"
#include "core/base/text.h"

namespace uopd::client::onnx {
namespace {

// The value with another shape of as many elements. Its contents stay known.
absl::Status Reshaped(Call& c, const Dims& dims) {
  const Value& x = c.In(0);
  if (!ElementsOf(dims) || ir::Product(dims) != ir::Product(x.dims))
    return c.Wrong("the number of elements would change");
  Value out = x;
  out.dims = dims;
  out.tensor = x.tensor.state() == nullptr ? Tensor() : x.tensor.Reshape(dims);
  if (out.tensor.state() != nullptr) UOPD_TRY(out.tensor.status());
  return c.Out(std::move(out));
}

absl::Status RunShape(Call& c) {
  const int64_t rank = c.Rank(0);
  int64_t begin = c.Int("start", 0), end = c.Int("end", rank);
  begin = std::clamp<int64_t>(begin < 0 ? begin + rank : begin, 0, rank);
  end = std::clamp<int64_t>(end < 0 ? end + rank : end, begin, rank);
  const Dims& dims = c.Shape(0);
  const std::vector<int64_t> sizes(dims.begin() + begin, dims.begin() + end);
  return c.Out(KnownInts(ElementType("INT64"), {end - begin}, sizes));
}

absl::Status RunSize(Call& c) {
  const int64_t size = ir::Product(c.Shape(0));
  return c.Out(KnownInts(ElementType("INT64"), {}, {&size, 1}));
}

absl::Status RunReshape(Call& c) {
  UOPD_ASSIGN(Dims dims, c.IntsOrInput("shape", 1));
  const bool zero_is_zero = c.opset() >= 14 && c.Int("allowzero", 0) != 0;
  int64_t unknown = -1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && !zero_is_zero) {
      if (i >= c.Shape(0).size())
        return c.Wrong(Cat("there is no axis ", i, " to keep the size of"));
      dims[i] = c.Shape(0)[i];
    } else if (dims[i] == -1) {
      if (unknown >= 0) return c.Wrong("two sizes are -1");
      unknown = static_cast<int64_t>(i);
    } else if (dims[i] < 0) {
      return c.Wrong(Cat("a size is ", dims[i]));
    }
  }
  if (dims.size() > static_cast<size_t>(ir::kMaxRank)) return c.Wrong("it has too many axes");
  if (unknown >= 0) {
    auto& size = dims[static_cast<size_t>(unknown)];
    size = 1;
    if (!ElementsOf(dims)) return c.Wrong("the result has too many elements");
    const int64_t others = ir::Product(dims), all = ir::Product(c.Shape(0));
    if (others == 0 || all % others != 0) return c.Wrong("no size fits in place of -1");
    size = all / others;
  }
  return Reshaped(c, dims);
}

absl::Status RunFlatten(Call& c) {
  int64_t axis = c.Int("axis", 1);
  if (axis < 0) axis += c.Rank(0);
  if (axis < 0 || axis > c.Rank(0)) return c.Wrong("the axis is out of range");
  const std::span<const int64_t> dims(c.Shape(0));
  const auto n = static_cast<size_t>(axis);
  return Reshaped(c, {ir::Product(dims.first(n)), ir::Product(dims.subspan(n))});
}

absl::Status RunSqueeze(Call& c) {
  UOPD_ASSIGN(Dims axes, c.IntsOrInput("axes", 1));
  const bool all = !c.Has(1) && axes.empty();
  UOPD_ASSIGN(axes, c.Axes(std::move(axes), c.Rank(0)));
  Dims dims;
  for (int64_t i = 0; i < c.Rank(0); ++i) {
    const int64_t size = c.Shape(0)[static_cast<size_t>(i)];
    const bool named = std::ranges::find(axes, i) != axes.end();
    if (named && size != 1) return c.Wrong(Cat("axis ", i, " has the size ", size));
    if (!named && !(all && size == 1)) dims.push_back(size);
  }
  return Reshaped(c, dims);
}

absl::Status RunUnsqueeze(Call& c) {
  UOPD_ASSIGN(Dims axes, c.IntsOrInput("axes", 1));
  const int64_t rank = c.Rank(0) + static_cast<int64_t>(axes.size());
  if (rank > ir::kMaxRank) return c.Wrong("the result has too many axes");
  UOPD_ASSIGN(axes, c.Axes(std::move(axes), rank));
  Dims dims;
  size_t next = 0;
  for (int64_t i = 0; i < rank; ++i) {
    const bool is_new = std::ranges::find(axes, i) != axes.end();
    dims.push_back(is_new ? 1 : c.Shape(0)[next++]);
  }
  return Reshaped(c, dims);
}

absl::Status RunIdentity(Call& c) { return c.Out(c.In(0)); }

}  // namespace

OpRows ShapeOps() {
  return {
      {"Shape", 1, 1, 1, RunShape, kAnyType | kStrings},
      {"Size", 1, 1, 1, RunSize, kAnyType | kStrings},
      {"Reshape", 1, 1, 2, RunReshape, kAnyType | kStrings},
      {"Flatten", 1, 1, 1, RunFlatten, kAnyType | kStrings},
      {"Squeeze", 1, 1, 2, RunSqueeze, kAnyType | kStrings},
      {"Unsqueeze", 1, 1, 2, RunUnsqueeze, kAnyType | kStrings},
      {"Identity", 1, 1, 1, RunIdentity, kAnyType | kAnyKind},
  };
}

}  // namespace uopd::client::onnx
