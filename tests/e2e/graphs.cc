// SPDX-License-Identifier: MIT
#include "tests/e2e/graphs.h"

#include <cstring>

#include "core/ir/build.h"
#include "core/ir/io/wire.h"

namespace uopd::e2e {
namespace {

using ir::Dtype;

ir::UOp Vector(ir::UOpContext& ctx, int64_t slot, int64_t n, const std::string& device = "") {
  return ir::Param(ctx, slot, Dtype::F32, ir::ShapeArg(ctx, std::initializer_list<int64_t>{n}),
                   device);
}

std::string Stored(ir::UOpContext& ctx, ir::UOp target, ir::UOp value) {
  const ir::UOp store = ir::Store(ctx, target, value);
  return ir::Encode(ctx, ir::Sink(ctx, std::span(&store, 1)));
}

}  // namespace

std::string AddGraph(int64_t n, const std::string& device) {
  ir::UOpContext ctx;
  return Stored(ctx, Vector(ctx, 0, n, device),
                ir::Add(ctx, Vector(ctx, 1, n, device), Vector(ctx, 2, n, device)));
}

std::string ScaleGraph(int64_t n, double factor) {
  ir::UOpContext ctx;
  return Stored(ctx, Vector(ctx, 0, n),
                ir::Mul(ctx, Vector(ctx, 1, n), ctx.Float(Dtype::F32, factor)));
}

std::string FlipGraph(int64_t n) {
  ir::UOpContext ctx;
  const int64_t axis[] = {0};
  return Stored(ctx, Vector(ctx, 0, n), ir::Flip(ctx, Vector(ctx, 1, n), axis));
}

namespace {

// slot `first` [i] = sum over j of max(slot `first` + 1 [i], slot `first` + 2 [j]).
ir::UOp Pairs(ir::UOpContext& ctx, int64_t first, int64_t n) {
  const int64_t column[] = {n, 1}, row[] = {1, n}, axis[] = {1}, flat[] = {n};
  const ir::UOp pairs = ir::Alu(ctx, ir::Op::MAX,
                                {ir::Reshape(ctx, Vector(ctx, first + 1, n), column),
                                 ir::Reshape(ctx, Vector(ctx, first + 2, n), row)});
  return ir::Store(ctx, Vector(ctx, first, n),
                   ir::Reshape(ctx, ir::ReduceAxes(ctx, ir::Op::ADD, pairs, axis), flat));
}

}  // namespace

std::string PairsGraph(int64_t n) { return ManyPairsGraph(1, n); }

std::string ManyPairsGraph(int count, int64_t n) {
  ir::UOpContext ctx;
  std::vector<ir::UOp> stores;
  for (int i = 0; i < count; ++i) stores.push_back(Pairs(ctx, 3 * i, n + i));
  return ir::Encode(ctx, ir::Sink(ctx, stores));
}

std::string LongGraph(int64_t n) {
  ir::UOpContext ctx;
  const int64_t all[] = {n}, axis[] = {0};
  const ir::UOp iota =
      ctx.Make(ir::Op::IOTA, Dtype::I64, {ir::ShapeArg(ctx, all)}, ir::Arg::Int(0));
  const ir::UOp x = ir::Alu(ctx, ir::Op::SIN, {ctx.Make(ir::Op::CAST, Dtype::F32, {iota})});
  return Stored(ctx, Vector(ctx, 0, 1), ir::ReduceAxes(ctx, ir::Op::ADD, x, axis));
}

std::string SlowToCompile(int number, int links) {
  ir::UOpContext ctx;
  const ir::UOp shape = ir::ShapeArg(ctx, std::initializer_list<int64_t>{16});
  ir::UOp value = ir::Param(ctx, 1, ir::Dtype::F32, shape);
  for (int i = 0; i < links; ++i) {
    value = ir::Alu(ctx, i % 2 == 0 ? ir::Op::EXP2 : ir::Op::LOG2, {value});
    value = ir::Add(ctx, value, ctx.Float(ir::Dtype::F32, 1 + number + i / 256.0));
  }
  const ir::UOp store = ir::Store(ctx, ir::Param(ctx, 0, ir::Dtype::F32, shape), value);
  return ir::Encode(ctx, ir::Sink(ctx, std::span(&store, 1)));
}

std::vector<float> Scattered(int64_t n, uint64_t salt) {
  std::vector<float> out(static_cast<size_t>(n));
  uint64_t state = 0x9E3779B97F4A7C15ull * (salt + 1);
  for (float& v : out) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    v = static_cast<float>(state >> 40) / static_cast<float>(1 << 23) - 1;
  }
  return out;
}

std::string Bytes(const std::vector<float>& values) {
  std::string out(values.size() * sizeof(float), '\0');
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

std::vector<float> Floats(const std::string& bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(float));
  return out;
}

}  // namespace uopd::e2e
