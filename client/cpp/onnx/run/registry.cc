// SPDX-License-Identifier: MIT
#include "client/cpp/onnx/run/registry.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace uopd::client::onnx {
namespace {

using OpTable = std::map<std::pair<std::string_view, std::string_view>, OpRows>;

// The rows of an op in the order of operator sets.
const OpTable& AllOnnxOps() {
  static const auto* const all = [] {
    auto* out = new OpTable;
    for (OpRows (*family)() :
         {UnaryOps,         BinaryOps, CastOps,    ActivationOps, ReductionOps,    ShapeOps,
          MovementOps,      PadOps,    MakeOps,    MatMulOps,     ConvOps,         PoolOps,
          NormalisationOps, IndexOps,  ControlOps, SequenceOps,   QuantisationOps, LossOps,
          AttentionOps,     ResizeOps, GridOps,    RecurrentOps,  SelectionOps,    SignalOps,
          TrainingOps,      TextOps}) {
      for (OpRow& row : family()) (*out)[{row.domain, row.name}].push_back(std::move(row));
    }
    for (auto& [key, rows] : *out) std::ranges::sort(rows, {}, &OpRow::since);
    return out;
  }();
  return *all;
}

}  // namespace

const OpRow* FindOp(std::string_view domain, std::string_view name, int64_t opset) {
  const auto found = AllOnnxOps().find({domain, name});
  if (found == AllOnnxOps().end()) return nullptr;
  const auto after = std::ranges::upper_bound(found->second, opset, {}, &OpRow::since);
  return after == found->second.begin() ? nullptr : &*std::prev(after);
}

bool OpIsKnown(std::string_view domain, std::string_view name) {
  return AllOnnxOps().contains({domain, name});
}

}  // namespace uopd::client::onnx

namespace uopd::client {

std::vector<OnnxSupportedOp> OnnxSupportedOps() {
  std::vector<OnnxSupportedOp> out;
  for (const auto& [key, rows] : onnx::AllOnnxOps())
    out.push_back({.domain = key.first, .name = key.second, .since = rows.front().since});
  return out;
}

}  // namespace uopd::client
