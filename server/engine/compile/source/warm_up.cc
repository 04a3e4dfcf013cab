// SPDX-License-Identifier: MIT
#include "server/engine/compile/source/warm_up.h"

#include "core/ir/build.h"
#include "core/ir/shape.h"

namespace uopd::engine {
namespace {

constexpr int64_t kRows = 64;  // and columns, of all matrices

// slot 0 = slot 1 times slot 2.
ir::UOp SmallProduct(ir::UOpContext& ctx) {
  const auto shape = [&](std::initializer_list<int64_t> dims) { return ir::ShapeArg(ctx, dims); };
  const auto matrix = [&](int64_t slot) {
    return ir::Param(ctx, slot, ir::Dtype::F32, shape({kRows, kRows}));
  };
  const auto cube = [&](int64_t slot, std::initializer_list<int64_t> view) {
    return ir::Expand(ctx, ir::Reshape(ctx, matrix(slot), shape(view)),
                      shape({kRows, kRows, kRows}));
  };
  const ir::UOp products = ir::Mul(ctx, cube(1, {kRows, kRows, 1}), cube(2, {1, kRows, kRows}));
  const int64_t axis = 1;
  const ir::UOp sums = ir::ReduceAxes(ctx, ir::Op::ADD, products, std::span(&axis, 1));
  const ir::UOp store = ir::Store(ctx, matrix(0), ir::Reshape(ctx, sums, shape({kRows, kRows})));
  return ir::Sink(ctx, std::span(&store, 1));
}

}  // namespace

absl::StatusOr<KernelSource> WarmUpKernel(const GraphCompiler& graph_compiler,
                                          const devices::Device& device, bool draft) {
  ir::UOpContext ctx;
  UOPD_ASSIGN(
      const schedule::Schedule schedule,
      graph_compiler.MakeSchedule(ctx, SmallProduct(ctx), {.default_device = device.info().name}));
  if (schedule.items.empty()) return absl::InternalError("a product has no kernel");
  PhaseTimings timings;  // belongs to no request
  return graph_compiler.LowerKernel(schedule.items.front().graph, device, {}, nullptr, draft,
                                    &timings, nullptr);
}

}  // namespace uopd::engine
