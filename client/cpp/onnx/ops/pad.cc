// SPDX-License-Identifier: MIT
// Pad.
#include "client/cpp/onnx/run/registry.h"
#include "core/base/text.h"
#include "uopd/movement.h"

namespace uopd::client::onnx {
namespace {

absl::Status RunPad(Call& c) {
  const auto rank = static_cast<size_t>(c.Rank(0));
  UOPD_ASSIGN(const Dims pads, c.IntsOrInput("pads", 1));
  Dims axes;
  for (size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
  if (c.Has(3)) {
    UOPD_ASSIGN(axes, c.Ints(3));
    UOPD_ASSIGN(axes, c.Axes(std::move(axes), c.Rank(0)));
  }
  if (pads.size() != 2 * axes.size()) return c.Wrong("there are not two pads for each axis");
  for (const int64_t v : pads)
    if (v < -ir::kMaxElements || v > ir::kMaxElements) return c.Wrong(Cat("a pad is ", v));
  Dims before(rank, 0), after(rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    before[static_cast<size_t>(axes[i])] = pads[i];
    after[static_cast<size_t>(axes[i])] = pads[axes.size() + i];
  }
  const std::string_view mode = c.String("mode", "constant");
  const Tensor x = c.X(0);
  if (mode == "edge") return c.OutAs(0, fn::Pad(x, before, after, fn::PadMode::kReplicate));
  if (mode == "reflect") return c.OutAs(0, fn::Pad(x, before, after, fn::PadMode::kReflect));
  if (mode == "wrap") return c.OutAs(0, fn::Pad(x, before, after, fn::PadMode::kCircular));
  if (mode != "constant") return c.Wrong("the attribute mode is not known");
  Tensor value;
  if (c.Has(2)) {
    if (ir::Product(c.Shape(2)) != 1) return c.Wrong("the value has not one element");
    value = c.X(2).Reshape({});
  } else if (c.opset() < 11) {
    value = c.client().Full({}, c.Float("value", 0), x.dtype());
  } else {
    return c.OutAs(0, fn::Pad(x, before, after));
  }
  // The value is a tensor, so it stands where padded ones are 0.
  const Tensor inside = fn::Pad(fn::OnesLike(x, Dtype::Bool), before, after);
  return c.OutAs(0, Where(inside, fn::Pad(x, before, after), value));
}

}  // namespace

OpRows PadOps() { return {{"Pad", 2, 1, 4, RunPad}}; }

}  // namespace uopd::client::onnx
