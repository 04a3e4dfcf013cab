// SPDX-License-Identifier: MIT
#include "tests/chaos/graphs.h"

#include <vector>

#include "core/ir/build.h"
#include "core/ir/io/wire.h"

namespace uopd::chaos {
namespace {

using ir::Dtype;
using ir::UOp;
using ir::UOpContext;

UOp Shape(UOpContext& ctx, std::initializer_list<int64_t> dims) { return ir::ShapeArg(ctx, dims); }

UOp Vector(UOpContext& ctx, int64_t slot, int64_t n) {
  return ir::Param(ctx, slot, Dtype::F32, Shape(ctx, {n}));
}

std::string Stored(UOpContext& ctx, UOp target, UOp value) {
  const UOp store = ir::Store(ctx, target, value);
  return ir::Encode(ctx, ir::Sink(ctx, std::span(&store, 1)));
}

}  // namespace

std::string StepGraph(int64_t n, double factor) {
  UOpContext ctx;
  const UOp state = Vector(ctx, 0, n);
  return Stored(
      ctx, state,
      ir::Add(ctx, ir::Mul(ctx, state, ctx.Float(Dtype::F32, factor)), Vector(ctx, 1, n)));
}

std::string EndlessGraph(int log2, double scale) {
  UOpContext ctx;
  const UOp indices = ir::Iota(ctx, Dtype::I64, Shape(ctx, {int64_t{1} << log2}), 0);
  const UOp scaled = ir::Mul(ctx, ir::Cast(ctx, indices, Dtype::F32), ctx.Float(Dtype::F32, scale));
  const int64_t axis[] = {0};
  return Stored(ctx, Vector(ctx, 0, 1),
                ir::ReduceAxes(ctx, ir::Op::ADD, ir::Alu(ctx, ir::Op::SIN, {scaled}), axis));
}

std::string SineChainGraph(int links, double offset) {
  UOpContext ctx;
  UOp value = Vector(ctx, 1, 16);
  for (int i = 0; i < links; ++i) {
    value =
        ir::Alu(ctx, ir::Op::SIN, {ir::Add(ctx, value, ctx.Float(Dtype::F32, offset + i / 256.0))});
  }
  return Stored(ctx, Vector(ctx, 0, 16), value);
}

std::string ManyKernelsGraph(int kernels, double offset) {
  UOpContext ctx;
  std::vector<UOp> stores;
  for (int i = 0; i < kernels; ++i) {
    UOp value = Vector(ctx, 0, 16);
    for (int link = 0; link < 20; ++link) {
      value = ir::Alu(ctx, ir::Op::SIN,
                      {ir::Add(ctx, value, ctx.Float(Dtype::F32, offset + i + link / 32.0))});
    }
    stores.push_back(ir::Store(ctx, Vector(ctx, i + 1, 16), value));
  }
  return ir::Encode(ctx, ir::Sink(ctx, stores));
}

std::string MovementChainGraph(int links) {
  UOpContext ctx;
  const int64_t order[] = {2, 0, 1}, axis[] = {1}, a[] = {6, 10, 14}, b[] = {14, 6, 10};
  UOp value = ir::Param(ctx, 1, Dtype::F32, Shape(ctx, {6, 10, 14}));
  for (int i = 0; i < links; i += 3) {
    value = ir::Reshape(ctx, ir::Flip(ctx, ir::Permute(ctx, value, order), axis),
                        std::span<const int64_t>(i % 2 == 0 ? a : b));
  }
  const UOp out = ir::Param(ctx, 0, Dtype::F32, ir::ShapeArg(ctx, *ctx.ShapeOf(value)));
  return Stored(ctx, out, value);
}

std::string AddChainGraph(int links) {
  UOpContext ctx;
  UOp value = Vector(ctx, 1, 16);
  for (int i = 0; i < links; ++i) value = ir::Add(ctx, value, Vector(ctx, 1 + i % 3, 16));
  return Stored(ctx, Vector(ctx, 0, 16), value);
}

std::string StoreChainGraph(int links) {
  UOpContext ctx;
  const UOp base = Vector(ctx, 0, 16);
  UOp state = base;
  UOp store;
  for (int i = 0; i < links; ++i) {
    store = ir::Store(ctx, state, ir::Add(ctx, state, ctx.Float(Dtype::F32, 1)));
    state = ir::After(ctx, base, {store});
  }
  return ir::Encode(ctx, ir::Sink(ctx, std::span(&store, 1)));
}

std::string BufferGraph(bool store) {
  UOpContext ctx;
  const UOp buffer = ir::Buffer(ctx, 1, Dtype::F32, Shape(ctx, {1 << 20}), ir::AddrSpace::GLOBAL);
  const UOp param = ir::Param(ctx, 0, Dtype::F32, Shape(ctx, {1 << 20}));
  return store ? Stored(ctx, buffer, param) : Stored(ctx, param, buffer);
}

std::string HugeGraph(int log2) {
  UOpContext ctx;
  const int64_t n = int64_t{1} << log2;
  return Stored(ctx, Vector(ctx, 0, n), Vector(ctx, 1, n));
}

std::string HardGraph(std::mt19937_64& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint64_t>(n)); };
  switch (below(8)) {
    case 0:
      return MovementChainGraph(300);
    case 1:
      return AddChainGraph(20000 + below(40000));
    case 2:
      return StoreChainGraph(200 + below(1500));
    case 3:
      return BufferGraph(below(2) == 0);
    case 4:
      return HugeGraph(24 + below(24));
    case 5:
      return SineChainGraph(100 + below(400), below(1 << 20));
    case 6:
      return ManyKernelsGraph(20 + below(60), below(1 << 20));
    default:
      return AddChainGraph(100 + below(1000));
  }
}

}  // namespace uopd::chaos
