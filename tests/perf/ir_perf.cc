// SPDX-License-Identifier: MIT
// A graph of a million nodes through everything that walks graphs.
#include <unordered_map>

#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/io/print.h"
#include "core/ir/io/wire.h"
#include "core/ir/verify/spec.h"
#include "tests/perf/perf.h"

namespace uopd::perf::ir_perf {
namespace {

using ir::UOp;

// Layers of adds and multiplies over two parameters, a million nodes, none equal.
UOp Build(ir::UOpContext& ctx, int nodes) {
  const UOp shape = ir::ShapeArg(ctx, std::span<const int64_t>());
  UOp a = ir::Param(ctx, 0, ir::Dtype::F32, shape), b = ir::Param(ctx, 1, ir::Dtype::F32, shape);
  for (int i = 0; i < nodes / 2; ++i) {
    const UOp sum = ir::Add(ctx, a, b);
    b = ir::Mul(ctx, sum, a);
    a = sum;
  }
  const UOp store = ir::Store(ctx, ir::Param(ctx, 2, ir::Dtype::F32, shape), b);
  return ir::Sink(ctx, std::span(&store, 1));
}

// The same graph interned the plain way: nodes with owned source vectors in a std::unordered_map.
struct PlainNode {
  int op;
  std::vector<const PlainNode*> src;
  bool operator==(const PlainNode&) const = default;
};
struct PlainHash {
  size_t operator()(const PlainNode& n) const {
    size_t h = static_cast<size_t>(n.op);
    for (const PlainNode* s : n.src) h = h * 0x9E3779B97F4A7C15ull + reinterpret_cast<size_t>(s);
    return h;
  }
};

double PlainBuild(int nodes) {
  const double start = NowSeconds();
  std::unordered_map<PlainNode, std::unique_ptr<PlainNode>, PlainHash> table;
  auto make = [&](int op, std::vector<const PlainNode*> src) {
    PlainNode key = {op, std::move(src)};
    auto [it, fresh] = table.try_emplace(key);
    if (fresh) it->second = std::make_unique<PlainNode>(key);
    return it->second.get();
  };
  const PlainNode *a = make(0, {}), *b = make(1, {});
  for (int i = 0; i < nodes / 2; ++i) {
    const PlainNode* sum = make(2, {a, b});
    b = make(3, {sum, a});
    a = sum;
  }
  return NowSeconds() - start;
}

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  const int nodes = static_cast<int>(1e6 * options.scale);
  const double per_node = 1e9 / nodes;
  std::vector<Measurement> out;
  const double resident = ResidentMiB();
  ir::UOpContext ctx;
  double start = NowSeconds();
  auto lap = [&](const char* name) {
    const double now = NowSeconds();
    out.push_back({std::string("ir.") + name, "ns/node", (now - start) * per_node, "", 0});
    start = NowSeconds();
  };
  const UOp sink = Build(ctx, nodes);
  lap("build");
  out.back().peer_name = "std::unordered_map of owning nodes",
  out.back().peer = PlainBuild(nodes) * per_node;
  out.push_back({"ir.bytes_per_node", "bytes",
                 static_cast<double>(ctx.bytes_reserved()) / static_cast<double>(ctx.size()), "",
                 0});
  start = NowSeconds();
  Build(ctx, nodes);
  lap("intern_again");
  UOPD_TRY(ir::Verify(ctx, sink, ir::Level::kTensor));
  lap("verify");
  if (ir::Toposort(ctx, sink).size() < static_cast<size_t>(nodes))
    return absl::InternalError("toposort lost nodes");
  lap("toposort");
  const std::string text = ir::Print(ctx, sink);
  lap("print");
  ir::UOpContext parsed;
  UOPD_ASSIGN(const UOp again, ir::Parse(parsed, text));
  lap("parse");
  const std::string bytes = ir::Encode(parsed, again);
  lap("encode");
  HashBytes(bytes);
  lap("digest");
  ir::UOpContext decoded;
  UOPD_TRY(ir::Decode(decoded, bytes, ir::Level::kTensor, {2'000'000, 8'000'000}).status());
  lap("decode_and_verify");
  out.push_back({"ir.resident", "MiB", ResidentMiB() - resident, "", 0});
  return out;
}

const Register kRegister("ir",
                         "a million-node graph: build, verify, sort, print, parse, encode, decode",
                         Run);

}  // namespace
}  // namespace uopd::perf::ir_perf
