// SPDX-License-Identifier: MIT
#include "core/schedule/multi/allreduce.h"

#include <algorithm>

#include "core/ir/build.h"

namespace uopd::schedule {
namespace {

using ir::UOp;
using ir::UOpContext;

// Chunks of at least kLongChunk elements begin at a multiple of kAligned elements.
constexpr int64_t kAligned = 32;
constexpr int64_t kLongChunk = 1024;

std::vector<UOp> Naive(UOpContext& ctx, ir::Op op, const Pieces& partials) {
  const auto& devices = partials.layout.devices;
  std::vector<UOp> out;
  for (std::string_view device : devices) {
    UOp sum;
    for (size_t i = 0; i < devices.size(); ++i) {
      const UOp part = OnDevice(ctx, partials.nodes[i], devices[i], device);
      sum = sum ? ir::Alu(ctx, op, {sum, part}) : part;
    }
    out.push_back(sum);
  }
  return out;
}

std::vector<UOp> Ring(UOpContext& ctx, ir::Op op, const Pieces& partials, int64_t elements) {
  const auto& devices = partials.layout.devices;
  const size_t n = devices.size();
  const auto count = static_cast<int64_t>(n);
  std::vector<UOp> flat;
  for (UOp p : partials.nodes) flat.push_back(ir::Reshape(ctx, p, ir::Dims{elements}));
  const int64_t unit = elements / count >= kLongChunk ? kAligned : 1;
  auto begin = [&](int64_t chunk) {
    return chunk == count ? elements : elements / unit * chunk / count * unit;
  };
  // By device and number of the chunk: the node of the finished chunk on that device.
  std::vector<std::vector<UOp>> chunks(n, std::vector<UOp>(n));
  for (size_t c = 0; c < n; ++c) {
    const auto number = static_cast<int64_t>(c);
    auto own = [&](size_t device) {
      return Slice(ctx, flat[device], 0, begin(number), begin(number + 1) - begin(number));
    };
    UOp sum = own(c);
    size_t at = c;
    for (size_t step = 1; step < n; ++step) {
      const size_t next = (at + 1) % n;
      sum = ir::Alu(ctx, op, {OnDevice(ctx, sum, devices[at], devices[next]), own(next)});
      at = next;
    }
    chunks[at][c] = sum;
    for (size_t step = 1; step < n; ++step) {
      const size_t next = (at + 1) % n;
      chunks[next][c] = sum = OnDevice(ctx, sum, devices[at], devices[next]);
      at = next;
    }
  }
  std::vector<UOp> out;
  const UOp shape = ir::ShapeArg(ctx, *ctx.ShapeOf(partials.nodes[0]));
  for (size_t i = 0; i < n; ++i) out.push_back(ir::Reshape(ctx, Joined(ctx, chunks[i], 0), shape));
  return out;
}

}  // namespace

Pieces AllReduce(UOpContext& ctx, ir::Op op, const Pieces& partials, int64_t ring_threshold) {
  const auto dims = ir::StaticDims(*ctx.ShapeOf(partials.nodes[0]));
  const int64_t elements = dims ? ir::Product(*dims) : 0;
  const auto n = static_cast<int64_t>(partials.nodes.size());
  const bool ring = n > 2 && elements >= n && elements > ring_threshold;
  return {ir::Replicated(partials.layout.devices),
          ring ? Ring(ctx, op, partials, elements) : Naive(ctx, op, partials)};
}

}  // namespace uopd::schedule
