// SPDX-License-Identifier: MIT
#include "client/cpp/graph/random.h"

#include <numbers>

#include "client/cpp/graph/build.h"
#include "client/cpp/ops/sized.h"
#include "core/ir/build.h"

namespace uopd::client {
namespace {

constexpr double kUnit = 0x1p-24;  // 24 random bits are exact in f32

// 64 random bits for every element. The position in the stream is sent as the contents of a buffer,
// so all calls with the same shape have the same graph.
Tensor RandomBits(const std::shared_ptr<GraphState>& graph, const Dims& dims, Site site) {
  const auto n = static_cast<uint64_t>(ir::Product(dims));
  std::string bytes = graph->TakePosition(n);
  const Tensor stream(graph->NewInput(Dtype::U64, {2}, graph->options().device, std::move(bytes)));
  graph->NoteCounters(stream.state()->uop, n);
  const Tensor counters =
      stream.Select(0, 0, site) + IotaLike(stream, static_cast<int64_t>(n), Dtype::U64);
  return BinaryOp(counters, stream.Select(0, 1, site), ir::Op::THREEFRY, "Rand")
      .Reshape(dims, site);
}

}  // namespace

Tensor RandomUniform(const std::shared_ptr<GraphState>& graph, const Dims& dims, Site site) {
  return (RandomBits(graph, dims, site) >> 40).Cast(Dtype::F32, site) * kUnit;
}

Tensor RandomNormal(const std::shared_ptr<GraphState>& graph, const Dims& dims, Site site) {
  const Tensor bits = RandomBits(graph, dims, site);
  const Tensor high = (bits >> 40).Cast(Dtype::F32, site) * kUnit;
  const Tensor low = ((bits & 0xffffff)).Cast(Dtype::F32, site) * kUnit;
  const Tensor radius = ((1.0 - high).Log(site) * -2.0).Sqrt(site);  // 1 - high is never 0
  return radius * (low * (2 * std::numbers::pi)).Cos(site);
}

Tensor Tensor::Dropout(double p, Site site) const {
  if (!status().ok() || p == 0) return Another(*this);
  if (!(p >= 0 && p < 1)) return Wrong(*this, "Dropout", site, uopd::Cat("the probability is ", p));
  const Tensor drawn = Cornered(RandomUniform(state_->graph, dims(), site), SizesOf(*this), site);
  const Tensor keep = drawn >= p;
  return Where(keep, *this * (1 / (1 - p)), ScalarLike(*this, dtype(), 0));
}

}  // namespace uopd::client
