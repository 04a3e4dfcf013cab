// SPDX-License-Identifier: MIT
#include "tests/digests/digest_graphs.h"

#include "core/base/text.h"
#include "core/ir/io/wire.h"
#include "tests/perf/models.h"
#include "tests/perf/models/subjects.h"
#include "tests/perf/works.h"
#include "tests/support/graph_generator.h"
#include "tests/support/model_graphs.h"
#include "uopd/client.h"
#include "uopd/executor.h"

namespace uopd::digests {
namespace {

using Graphs = absl::StatusOr<std::vector<std::string>>;

Graphs OfWorks() {
  std::vector<std::string> out;
  for (const perf::Work& work : perf::AllWorks()) {
    client::Client client(std::make_shared<client::OfflineExecutor>());
    absl::StatusOr<client::Exported> graph;
    if (work.graph) {
      graph = work.graph();
    } else {
      const client::Tensor result = work.build(client);
      UOPD_TRY(result.status());
      graph = client::Export(std::span(&result, 1));
    }
    if (!graph.ok()) return WithFrame(graph.status(), Cat("building ", work.name));
    out.push_back(graph->graph);
  }
  return out;
}

Graphs OfSubject(const std::string& name) {
  client::Client client(std::make_shared<client::OfflineExecutor>());
  UOPD_ASSIGN(const auto subject, perf::MakeSubject(name, client));
  UOPD_ASSIGN(const std::vector<client::Tensor> step, subject->Step());
  UOPD_ASSIGN(const client::Exported graph, client::Export(step));
  return std::vector<std::string>{graph.graph};
}

Graphs OfZoo() {
  std::vector<std::string> out;
  const auto add = [&](const auto& make) {
    ir::UOpContext ctx;
    out.push_back(ir::Encode(ctx, make(ctx)));
  };
  add([](ir::UOpContext& ctx) { return test::TransformerGraph(ctx, 2, 64, 128, 4); });
  add([](ir::UOpContext& ctx) { return test::TransformerGraph(ctx, 1, 100, 96, 3); });
  add([](ir::UOpContext& ctx) { return test::ResNetGraph(ctx, 2, 4, 16, 28); });
  add([](ir::UOpContext& ctx) { return test::ResNetGraph(ctx, 1, 1, 33, 17); });
  add([](ir::UOpContext& ctx) { return test::AdamGraph(ctx, 3, 257, 65); });
  return out;
}

Graphs OfGenerator(uint64_t first, uint64_t count) {
  std::vector<std::string> out;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    ir::UOpContext ctx;
    // One device: transfers have no kernels. Every third graph is larger, and every second has
    // symbolic sizes.
    const test::GeneratorOptions options{.ops = seed % 3 == 0 ? 60 : 20, .symbolic = seed % 2 == 1};
    out.push_back(ir::Encode(ctx, test::GenerateGraph(ctx, seed, options).sink));
  }
  return out;
}

}  // namespace

std::vector<GraphGroup> GraphGroups() {
  std::vector<GraphGroup> out = {{"works", true, OfWorks}, {"zoo", true, OfZoo}};
  constexpr int64_t kLlamaLayers = 2;  // all layers have the same kernels
  for (const perf::Model& model : perf::Models(kLlamaLayers)) {
    out.push_back({Cat("models.", model.name), false, [build = model.build]() -> Graphs {
                     UOPD_ASSIGN(const client::Exported graph, build());
                     return std::vector<std::string>{graph.graph};
                   }});
  }
  for (const char* name : {"resnet50.b1", "resnet50.b8", "mobilenetv2.b1", "bert.128", "gpt2.128",
                           "decode", "train", "mlp-adam"})
    out.push_back({Cat("networks.", name), false, [name] { return OfSubject(name); }});
  constexpr uint64_t kGroups = 20, kGraphs = 250;
  for (uint64_t i = 0; i < kGroups; ++i)
    out.push_back({Cat("random.", i), i == 0, [i] { return OfGenerator(i * kGraphs, kGraphs); }});
  return out;
}

}  // namespace uopd::digests
