// SPDX-License-Identifier: MIT
#include "tests/fuzz/graph_corpus.h"

#include "core/ir/build.h"
#include "core/ir/io/wire.h"
#include "tests/support/graph_generator.h"
#include "tests/support/model_graphs.h"

namespace uopd::fuzz {
namespace {

using ir::Dtype;
using ir::UOp;
using ir::UOpContext;

std::string Stored(UOpContext& ctx, UOp value) {
  const UOp out = ir::Param(ctx, 0, value.dtype(), ir::ShapeArg(ctx, *ctx.ShapeOf(value)));
  const UOp store = ir::Store(ctx, out, value);
  return ir::Encode(ctx, ir::Sink(ctx, std::span(&store, 1)));
}

// One graph for every elementwise op and dtype that it takes.
void AddElementwise(std::vector<std::string>& out) {
  for (int i = 0; i < ir::kOpCount; ++i) {
    const auto op = static_cast<ir::Op>(i);
    const int arity = ir::Info(op).min_src;
    if ((ir::Info(op).groups & (ir::kUnary | ir::kBinary)) == 0 && op != ir::Op::MULACC) continue;
    for (const Dtype dtype : {Dtype::F32, Dtype::F16, Dtype::F64, Dtype::I32, Dtype::I64, Dtype::U8,
                              Dtype::U64, Dtype::Bool}) {
      UOpContext ctx;
      const UOp shape = ir::ShapeArg(ctx, std::initializer_list<int64_t>{3, 5});
      const UOp a = ir::Param(ctx, 1, dtype, shape), b = ir::Param(ctx, 2, dtype, shape);
      const UOp value = arity == 1   ? ir::Alu(ctx, op, {a})
                        : arity == 2 ? ir::Alu(ctx, op, {a, b})
                                     : ir::Alu(ctx, op, {a, b, b});
      const std::string bytes = Stored(ctx, value);
      UOpContext check;
      if (ir::Decode(check, bytes, ir::Level::kTensor).ok()) out.push_back(bytes);
    }
  }
}

void AddMovement(std::vector<std::string>& out) {
  UOpContext ctx;
  const UOp shape = ir::ShapeArg(ctx, std::initializer_list<int64_t>{4, 6});
  const UOp x = ir::Param(ctx, 1, Dtype::F32, shape);
  const int64_t order[] = {1, 0}, flat[] = {24}, axis[] = {0};
  const auto dims = [&](std::initializer_list<int64_t> d) { return ir::ShapeArg(ctx, d); };
  out.push_back(Stored(ctx, ir::Permute(ctx, x, order)));
  out.push_back(Stored(ctx, ir::Flip(ctx, ir::Reshape(ctx, x, flat), axis)));
  out.push_back(Stored(ctx, ir::Pad(ctx, x, dims({1, 2}), dims({6, 9}))));
  out.push_back(Stored(ctx, ir::Shrink(ctx, x, dims({1, 2}), dims({2, 3}))));
  out.push_back(
      Stored(ctx, ir::Expand(ctx, ir::Reshape(ctx, x, dims({1, 4, 6})), dims({3, 4, 6}))));
  out.push_back(Stored(ctx, ir::Where(ctx, ir::Lt(ctx, x, ctx.Float(Dtype::F32, 1)), x, x)));
  out.push_back(Stored(ctx, ir::Cast(ctx, x, Dtype::I8)));
  out.push_back(Stored(ctx, ir::Bitcast(ctx, x, Dtype::U32)));
  out.push_back(Stored(ctx, ir::Iota(ctx, Dtype::I64, dims({7}), 0)));
  for (const ir::Op op : {ir::Op::ADD, ir::Op::MUL, ir::Op::MAX}) {
    out.push_back(Stored(ctx, ir::ReduceAxes(ctx, op, x, axis)));
  }
  const UOp stack[] = {x, x};
  out.push_back(Stored(ctx, ctx.Make(ir::Op::STACK, Dtype::F32, std::span<const UOp>(stack))));
  out.push_back(Stored(ctx, ctx.Make(ir::Op::CONTIGUOUS, Dtype::F32, {ir::Add(ctx, x, x)})));
  const UOp pieces[] = {x, ir::Param(ctx, 2, Dtype::F32, shape)};
  out.push_back(Stored(
      ctx, ctx.Make(ir::Op::MULTI, Dtype::F32, std::span<const UOp>(pieces), ctx.Data({0}))));
  // An assignment to pieces on two devices, twice.
  const UOp halves[] = {ir::Param(ctx, 0, Dtype::F32, shape, "CPU:0"),
                        ir::Param(ctx, 1, Dtype::F32, shape, "CPU:1")};
  const UOp multi =
      ctx.Make(ir::Op::MULTI, Dtype::F32, std::span<const UOp>(halves), ctx.Data({0}));
  const UOp once = ir::After(ctx, multi, {ir::Store(ctx, multi, ir::Add(ctx, multi, multi))});
  const UOp twice = ir::Store(ctx, once, ir::Mul(ctx, once, once));
  out.push_back(ir::Encode(ctx, ir::Sink(ctx, std::span(&twice, 1))));
  // Reads after a partial write.
  const UOp store =
      ir::Store(ctx, ir::Shrink(ctx, x, dims({0, 0}), dims({2, 6})), ctx.Float(Dtype::F32, 2));
  out.push_back(Stored(ctx, ir::After(ctx, x, {store})));
}

void AddModels(std::vector<std::string>& out) {
  const auto add = [&](auto make) {
    UOpContext ctx;
    const UOp sink = make(ctx);
    out.push_back(ir::Encode(ctx, sink));
  };
  add([](UOpContext& ctx) { return test::TransformerGraph(ctx, 1, 8, 16, 2); });
  add([](UOpContext& ctx) { return test::ResNetGraph(ctx, 1, 2, 4, 8); });
  add([](UOpContext& ctx) { return test::AdamGraph(ctx, 2, 8, 8); });
}

}  // namespace

std::vector<v1::Graph> Corpus(const CorpusOptions& options) {
  std::vector<std::string> all;
  AddElementwise(all);
  AddMovement(all);
  AddModels(all);
  for (int i = 0; i < options.generated; ++i) {
    UOpContext ctx;
    const test::GeneratorOptions how = {
        .ops = 3 + i % 40, .symbolic = i % 3 == 1, .devices = i % 7 == 3};
    const auto made = test::GenerateGraph(ctx, static_cast<uint64_t>(i), how);
    all.push_back(ir::Encode(ctx, made.sink));
  }
  std::vector<v1::Graph> out;
  for (const std::string& bytes : all) {
    v1::Graph graph;
    if (graph.ParseFromString(bytes) && graph.nodes_size() <= options.max_nodes) {
      out.push_back(std::move(graph));
    }
  }
  return out;
}

}  // namespace uopd::fuzz
