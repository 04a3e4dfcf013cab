// SPDX-License-Identifier: MIT
#include "server/engine/compile/schedule/graph.h"

#include <utility>

#include "core/base/text.h"
#include "server/engine/base/lookups.h"
#include "server/engine/base/not_found.h"

namespace uopd::engine {
namespace {

constexpr char kGraphStore[] = "graph";

}  // namespace

cache::Key GraphKey(std::string_view digest) { return {kGraphStore, std::string(digest), "ir=1"}; }

absl::Status BadDigest(std::string_view digest) {
  return absl::InvalidArgumentError(
      Cat("digest has ", digest.size(), " bytes instead of 32, and there is no graph"));
}

absl::StatusOr<std::unique_ptr<Graph>> Graph::Verify(std::string_view bytes,
                                                     const GraphLimits& limits,
                                                     Interrupt& interrupt,
                                                     const std::optional<Digest>& digest) {
  std::unique_ptr<Graph> graph(new Graph(limits));
  UOPD_ASSIGN(graph->memory_, limits.Charge(bytes.size()));
  const InterruptScope scope(*graph->ctx_, interrupt);
  UOPD_ASSIGN(graph->sink_, ir::Decode(*graph->ctx_, bytes, ir::Level::kTensor, limits));
  UOPD_TRY(interrupt.Check());
  graph->bytes_ = ir::Encode(*graph->ctx_, graph->sink_);
  UOPD_TRY(interrupt.Check());
  graph->digest_ = digest && graph->bytes_ == bytes ? *digest : HashBytes(graph->bytes_);
  return graph;
}

std::unique_ptr<Graph> Graph::Stored(std::string bytes, const Digest& digest,
                                     const GraphLimits& limits) {
  std::unique_ptr<Graph> graph(new Graph(limits));
  graph->bytes_ = std::move(bytes);
  graph->digest_ = digest;
  graph->stored_ = true;
  return graph;
}

absl::Status Graph::NeedNodes(RequestContext& request) {
  if (sink_) return absl::OkStatus();
  UOPD_ASSIGN(memory_, limits_.Charge(bytes_.size()));
  ScopedPhase phase(Phase::kVerify, &request.timings);
  Interrupt interrupt(request.limits());
  const InterruptScope scope(*ctx_, interrupt);
  UOPD_ASSIGN(sink_, ir::Decode(*ctx_, bytes_, ir::Level::kTensor, limits_));
  return absl::OkStatus();
}

void Graph::DropNodes() {
  sink_ = {};
  ctx_ = std::make_unique<ir::UOpContext>();
  memory_ = nullptr;
}

absl::StatusOr<std::unique_ptr<Graph>> Graphs::Get(RequestContext& request, const GraphRef& ref,
                                                   const std::optional<Digest>& digest) {
  if (ref.bytes.empty()) return Load(ref.digest);
  ScopedPhase phase(Phase::kVerify, &request.timings);
  Interrupt interrupt(request.limits());
  UOPD_ASSIGN(std::unique_ptr<Graph> graph, Graph::Verify(ref.bytes, limits_, interrupt, digest));
  if (!ref.digest.empty() && ref.digest != graph->digest().view()) {
    return absl::InvalidArgumentError(
        Cat("digest is not that of the graph (", graph->digest().Hex(), ")"));
  }
  return graph;
}

absl::StatusOr<std::unique_ptr<Graph>> Graphs::Load(std::string_view digest_bytes) {
  Digest digest;
  if (!digest.FromBytes(digest_bytes)) return BadDigest(digest_bytes);
  cache::GetResult found = store_.Get(GraphKey(digest_bytes));
  if (found.hit() && HashBytes(found.entry.bytes) != digest) {
    found.outcome = cache::GetOutcome::kCorrupt;
  }
  CountLookup(kGraphStore, found.outcome);
  if (!found.hit()) {
    return NotFound(kProgram, Cat("program ", digest.Hex(), " is unknown; send its graph"));
  }
  return Graph::Stored(std::move(found.entry.bytes), digest, limits_);
}

void Graphs::Keep(const Graph& graph) {
  if (graph.stored()) return;
  store_.Put(GraphKey(graph.digest().view()), graph.bytes(), 1).IgnoreError();
}

}  // namespace uopd::engine
