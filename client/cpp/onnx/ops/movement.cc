// SPDX-License-Identifier: MIT
// Ops that move, repeat, join and divide.
#include <algorithm>
#include <limits>

#include "client/cpp/onnx/reader.h"
#include "client/cpp/onnx/run/axis_part.h"
#include "client/cpp/onnx/run/registry.h"
#include "core/base/text.h"
#include "uopd/indexing.h"
#include "uopd/movement.h"

namespace uopd::client::onnx {
namespace {

// The result with the element type of the first input, which may have no dtype of its own.
absl::Status OutMoved(Call& c, const Tensor& t, size_t i = 0) {
  UOPD_TRY(t.status());
  return c.Out(ValueOf(t, c.In(0).type), i);
}

absl::Status RunTranspose(Call& c) {
  Dims order;
  for (int64_t i = c.Rank(0); i-- > 0;) order.push_back(i);
  return OutMoved(c, c.X(0).Permute(c.IntList("perm", order)));
}

absl::Status RunConcat(Call& c) {
  UOPD_ASSIGN(const int64_t axis, c.Axis(c.Int("axis", c.opset() < 4 ? 1 : 0), c.Rank(0)));
  std::vector<Tensor> parts;
  for (size_t i = 0; i < c.inputs(); ++i) {
    if (!c.Has(i)) return c.Wrong(Cat("its input ", i, " is missing"));
    if (c.In(i).type != c.In(0).type) return c.Wrong("its inputs have different element types");
    parts.push_back(c.X(i));
  }
  return OutMoved(c, parts.size() == 1 ? parts[0] : Concat(parts, axis));
}

absl::Status RunSplit(Call& c) {
  UOPD_ASSIGN(const int64_t axis, c.Axis(c.Int("axis", 0), c.Rank(0)));
  const int64_t size = c.Shape(0)[static_cast<size_t>(axis)];
  const auto pieces = static_cast<int64_t>(c.outputs());
  if (pieces < 1) return c.Wrong("it has no outputs");
  if (c.opset() >= 18 && c.Int("num_outputs", pieces) != pieces)
    return c.Wrong("the attribute num_outputs is not the number of outputs");
  UOPD_ASSIGN(Dims lengths, c.IntsOrInput("split", 1));
  if (lengths.empty()) {
    if (size % pieces != 0 && c.opset() < 18) return c.Wrong("the pieces are not equal");
    const int64_t each = (size + pieces - 1) / pieces;
    for (int64_t i = 0; i < pieces; ++i)
      lengths.push_back(std::clamp<int64_t>(size - i * each, 0, each));
  }
  if (static_cast<int64_t>(lengths.size()) != pieces)
    return c.Wrong("the number of lengths is not that of outputs");
  int64_t begin = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0 || lengths[i] > size - begin)
      return c.Wrong(Cat("the lengths do not add up to ", size));
    UOPD_TRY(OutMoved(c, c.X(0).Narrow(axis, begin, lengths[i]), i));
    begin += lengths[i];
  }
  return begin == size ? absl::OkStatus() : c.Wrong(Cat("the lengths do not add up to ", size));
}

absl::Status RunSlice(Call& c) {
  UOPD_ASSIGN(const Dims starts, c.IntsOrInput("starts", 1));
  UOPD_ASSIGN(const Dims ends, c.IntsOrInput("ends", 2));
  Dims axes;
  for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  UOPD_ASSIGN(axes, c.IntsOrInput("axes", 3, axes));
  Dims steps(starts.size(), 1);
  if (c.Has(4)) {
    UOPD_ASSIGN(steps, c.Ints(4));
  }
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return c.Wrong("starts, ends, axes and steps have different lengths");
  UOPD_ASSIGN(axes, c.Axes(std::move(axes), c.Rank(0)));
  std::vector<Range> ranges(static_cast<size_t>(c.Rank(0)));
  for (size_t i = 0; i < starts.size(); ++i) {
    if (steps[i] == 0) return c.Wrong("a step is 0");
    const auto axis = static_cast<size_t>(axes[i]);
    const AxisPart part = PartOfAxis(starts[i], ends[i], steps[i], c.Shape(0)[axis]);
    const int64_t end = part.begin + part.count * part.step;
    ranges[axis] = {.begin = part.begin, .end = std::min(end, c.Shape(0)[axis]), .step = part.step};
    if (end < 0) ranges[axis].end = std::nullopt;
  }
  return OutMoved(c, c.X(0).Slice(ranges));
}

absl::Status RunExpand(Call& c) {
  UOPD_ASSIGN(const Dims wanted, c.Ints(1));
  if (wanted.size() > static_cast<size_t>(ir::kMaxRank)) return c.Wrong("it has too many axes");
  Dims dims = c.Shape(0), to = wanted;
  const size_t rank = std::max(dims.size(), to.size());
  dims.insert(dims.begin(), rank - dims.size(), 1);
  to.insert(to.begin(), rank - to.size(), 1);
  for (size_t i = 0; i < rank; ++i) {
    if (to[i] < 0) return c.Wrong(Cat("a size is ", to[i]));
    if (to[i] == 1) to[i] = dims[i];
  }
  if (!ElementsOf(to)) return c.Wrong("the result has too many elements");
  return OutMoved(c, c.X(0).Reshape(dims).Expand(to));
}

absl::Status RunTile(Call& c) {
  UOPD_ASSIGN(const Dims times, c.Ints(1));
  if (times.size() != c.Shape(0).size()) return c.Wrong("there is not one count for each axis");
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i] < 0 || times[i] > ir::kMaxElements / std::max<int64_t>(c.Shape(0)[i], 1))
      return c.Wrong(Cat("a count is ", times[i]));
  }
  return OutMoved(c, c.X(0).Repeat(times));
}

absl::Status DepthSpace(Call& c, bool to_space) {
  if (c.Rank(0) != 4) return c.Wrong("the input has not four axes");
  const int64_t b = c.Int("blocksize", 0);
  const Dims& d = c.Shape(0);
  const int64_t n = d[0], ch = d[1], h = d[2], w = d[3];
  if (b <= 0 || b > (1 << 20)) return c.Wrong("the attribute blocksize is no size");
  // Where one size is 0, the products of others need not fit into 64 bits.
  if (!ElementsOf({ch, b, b}) || !ElementsOf({h, b}) || !ElementsOf({w, b}))
    return c.Wrong("the result has too many elements");
  const Tensor x = c.X(0);
  if (!to_space) {
    if (h % b != 0 || w % b != 0) return c.Wrong("blocksize does not divide the sizes");
    return OutMoved(c, x.Reshape({n, ch, h / b, b, w / b, b})
                           .Permute({0, 3, 5, 1, 2, 4})
                           .Reshape({n, ch * b * b, h / b, w / b}));
  }
  if (ch % (b * b) != 0) return c.Wrong("blocksize does not divide the channels");
  const std::string_view mode = c.String("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") return c.Wrong("the attribute mode is not known");
  const int64_t out = ch / (b * b);
  const Tensor y = mode == "DCR" ? x.Reshape({n, b, b, out, h, w}).Permute({0, 3, 4, 1, 5, 2})
                                 : x.Reshape({n, out, b, b, h, w}).Permute({0, 1, 4, 2, 5, 3});
  return OutMoved(c, y.Reshape({n, out, h * b, w * b}));
}

// The first elements of each row in reverse order.
absl::Status RunReverseSequence(Call& c) {
  const int64_t time = c.Int("time_axis", 0), batch = c.Int("batch_axis", 1);
  if (!((time == 0 && batch == 1) || (time == 1 && batch == 0)) || c.Rank(0) < 2)
    return c.Wrong("time_axis and batch_axis are not 0 and 1");
  const int64_t steps = c.Shape(0)[static_cast<size_t>(time)];
  if (c.Rank(1) != 1 || c.Shape(1)[0] != c.Shape(0)[static_cast<size_t>(batch)])
    return c.Wrong("there is not one length for each row");
  Dims column(2, 1), row(2, 1);
  column[static_cast<size_t>(time)] = steps;
  row[static_cast<size_t>(batch)] = c.Shape(1)[0];
  const Tensor t = c.client().Arange(0, steps, 1, Dtype::I64).Reshape(column);
  const Tensor lengths = c.X(1).Cast(Dtype::I64).Reshape(row);
  Tensor at = Where(t < lengths, lengths - 1 - t, t);
  Dims dims(static_cast<size_t>(c.Rank(0)), 1);
  std::copy_n(at.dims().begin(), 2, dims.begin());
  return OutMoved(c, c.X(0).Gather(time, at.Reshape(dims).Expand(c.Shape(0))));
}

absl::Status RunCenterCropPad(Call& c) {
  UOPD_ASSIGN(const Dims wanted, c.Ints(1));
  Dims axes;
  for (int64_t i = 0; i < c.Rank(0); ++i) axes.push_back(i);
  UOPD_ASSIGN(axes, c.Axes(c.IntList("axes", axes), c.Rank(0)));
  if (wanted.size() != axes.size()) return c.Wrong("there is not one size for each axis");
  Tensor x = c.X(0);
  Dims before(static_cast<size_t>(c.Rank(0)), 0), after = before;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    if (wanted[i] < 0 || wanted[i] > ir::kMaxElements) return c.Wrong(Cat("a size is ", wanted[i]));
    const int64_t size = c.Shape(0)[axis], more = wanted[i] - size;
    if (more < 0) {
      x = x.Narrow(axes[i], (-more) / 2, wanted[i]);
    } else {
      before[axis] = more / 2;
      after[axis] = more - more / 2;
    }
  }
  return OutMoved(c, x.Pad(before, after));
}

absl::Status RunTrilu(Call& c) {
  if (c.Rank(0) < 2) return c.Wrong("the input has not two axes");
  int64_t k = 0;
  if (c.Has(1)) {
    UOPD_ASSIGN(k, c.OneInt(1));
  }
  const int64_t most = c.Shape(0).back() + c.Shape(0)[c.Shape(0).size() - 2];
  k = std::clamp(k, -most, most);
  const bool upper = c.Int("upper", 1) != 0;
  if (ir::Product(c.Shape(0)) == 0) return c.Out(c.In(0));
  return OutMoved(c, upper ? c.X(0).Triu(k) : c.X(0).Tril(k));
}

}  // namespace

OpRows MovementOps() {
  return {
      {"Transpose", 1, 1, 1, RunTranspose, kAnyType},
      {"Concat", 4, 1, kManyInputs, RunConcat, kAnyType},
      {"Split", 2, 1, 2, RunSplit, kAnyType},
      {"Slice", 1, 1, 5, RunSlice, kAnyType},
      {"Expand", 8, 2, 2, RunExpand, kAnyType},
      {"Tile", 6, 2, 2, RunTile, kAnyType},
      {"DepthToSpace", 1, 1, 1, [](Call& c) { return DepthSpace(c, true); }},
      {"SpaceToDepth", 1, 1, 1, [](Call& c) { return DepthSpace(c, false); }},
      {"ReverseSequence", 10, 2, 2, RunReverseSequence},
      {"CenterCropPad", 18, 2, 2, RunCenterCropPad},
      {"Trilu", 14, 1, 2, RunTrilu},
  };
}

}  // namespace uopd::client::onnx
