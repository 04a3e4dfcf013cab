// SPDX-License-Identifier: MIT
// Writes the seeds of graph_fuzz into a folder: small graphs that use most of what a tensor graph
// may hold.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/ir/build.h"
#include "core/ir/io/wire.h"

namespace uopd::ir {
namespace {

UOp Matrix(UOpContext& ctx, int64_t slot, Dtype dtype, int64_t rows, int64_t columns) {
  return Param(ctx, slot, dtype, ShapeArg(ctx, std::initializer_list<int64_t>{rows, columns}));
}

std::string Stored(UOpContext& ctx, UOp target, UOp value) {
  const UOp store = Store(ctx, target, value);
  return Encode(ctx, Sink(ctx, std::span(&store, 1)));
}

std::string Elementwise() {
  UOpContext ctx;
  const UOp a = Matrix(ctx, 1, Dtype::F32, 4, 8), b = Matrix(ctx, 2, Dtype::F32, 4, 1);
  const UOp sum = Add(ctx, Mul(ctx, a, b), ctx.Float(Dtype::F32, 0.5));
  return Stored(ctx, Matrix(ctx, 0, Dtype::F32, 4, 8), Where(ctx, Lt(ctx, a, b), sum, a));
}

std::string Reduced() {
  UOpContext ctx;
  const int64_t axis[] = {1}, order[] = {1, 0};
  const UOp x = Cast(ctx, Permute(ctx, Matrix(ctx, 1, Dtype::I32, 8, 4), order), Dtype::F32);
  return Stored(ctx, Matrix(ctx, 0, Dtype::F32, 4, 1), ReduceAxes(ctx, Op::MAX, x, axis));
}

std::string Moved() {
  UOpContext ctx;
  const int64_t one[] = {1, 2}, size[] = {6, 8}, flat[] = {48}, axis[] = {0};
  UOp x = Pad(ctx, Matrix(ctx, 1, Dtype::I8, 4, 4), ShapeArg(ctx, std::span<const int64_t>(one)),
              ShapeArg(ctx, std::span<const int64_t>(size)));
  x = Flip(ctx, Reshape(ctx, x, flat), axis);
  return Stored(ctx, Param(ctx, 0, Dtype::I8, ShapeArg(ctx, std::span<const int64_t>(flat))), x);
}

std::string Symbolic() {
  UOpContext ctx;
  const UOp n = Variable(ctx, "n", 1, 16);
  const UOp dims[] = {n};
  const UOp shape = ShapeArg(ctx, Shape(dims));
  const UOp x = Param(ctx, 1, Dtype::F32, shape);
  return Stored(ctx, Param(ctx, 0, Dtype::F32, shape), Add(ctx, x, x));
}

}  // namespace
}  // namespace uopd::ir

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::filesystem::create_directories(argv[1]);
  int i = 0;
  for (const std::string& seed :
       {uopd::ir::Elementwise(), uopd::ir::Reduced(), uopd::ir::Moved(), uopd::ir::Symbolic()}) {
    std::ofstream(std::filesystem::path(argv[1]) / std::to_string(i++), std::ios::binary) << seed;
  }
  return 0;
}
