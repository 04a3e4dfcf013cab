// SPDX-License-Identifier: MIT
#include "server/engine/compile/schedule/key_explainer.h"

#include <algorithm>
#include <map>

#include "core/base/telemetry/log.h"
#include "core/base/text.h"
#include "server/engine/base/not_found.h"
#include "server/engine/compile/schedule/schedule.h"

namespace uopd::engine {
namespace {

// Parses "name=value name=value" into a map.
std::map<std::string, std::string> Fields(std::string_view environment) {
  std::map<std::string, std::string> out;
  while (!environment.empty()) {
    const size_t end = std::min(environment.find(' '), environment.size());
    const std::string_view field = environment.substr(0, end);
    const size_t eq = std::min(field.find('='), field.size());
    if (!field.empty()) {
      out[std::string(field.substr(0, eq))] =
          std::string(field.substr(std::min(eq + 1, field.size())));
    }
    environment.remove_prefix(std::min(end + 1, environment.size()));
  }
  return out;
}

void DiffEnvironments(std::string_view a, std::string_view b, std::vector<ir::Difference>& out) {
  const auto left = Fields(a);
  auto right = Fields(b);
  const auto add = [&](const std::string& name, std::string x, std::string y) {
    out.push_back({0, 0, "environment", name, std::move(x), std::move(y)});
  };
  for (const auto& [name, value] : left) {
    const auto found = right.find(name);
    if (found == right.end()) {
      add(name, value, "");
    } else {
      if (found->second != value) add(name, value, found->second);
      right.erase(found);
    }
  }
  for (const auto& [name, value] : right) add(name, "", value);
}

}  // namespace

// This does not use Graphs::Get, because an explanation does not count as a use of the cache.
absl::StatusOr<std::unique_ptr<Graph>> KeyExplainer::Load(const GraphRef& ref,
                                                          Interrupt& interrupt) {
  if (!ref.bytes.empty()) return Graph::Verify(ref.bytes, limits_, interrupt);
  Digest digest;
  if (!digest.FromBytes(ref.digest)) return BadDigest(ref.digest);
  const cache::GetResult found = store_.Get(GraphKey(ref.digest));
  if (!found.hit()) return NotFound(kProgram, Cat("program ", digest.Hex(), " is unknown"));
  return Graph::Verify(found.entry.bytes, limits_, interrupt);
}

absl::StatusOr<KeyExplanation> KeyExplainer::Explain(const RequestContext& request,
                                                     const GraphRef& a, const GraphRef& b,
                                                     const CompileOptions& options) {
  Interrupt interrupt(request.limits());
  UOPD_TRY(interrupt.Check());
  UOPD_ASSIGN(std::unique_ptr<Graph> graph, Load(a, interrupt));
  UOPD_ASSIGN(const ScheduleTarget target,
              ScheduleTargetOf(graph->ctx(), graph->sink(), devices_, options));
  store_.Flush().IgnoreError();  // also see entries that are on their way to the disk
  const cache::Key wanted = ScheduleKey(graph->digest(), graph_compiler_, target);
  KeyExplanation out;
  out.a = graph->digest();
  const auto cached = store_.KeyOf(wanted.address());
  out.cached = cached.has_value() && cached->semantic() == wanted.semantic() &&
               cached->environment() == wanted.environment();
  if (b.bytes.empty() && b.digest.empty()) {
    out.search_refused = !out.cached && !request.caller.sees_all;
    if (!out.cached && !out.search_refused)
      UOPD_TRY(FindNearest(interrupt, graph->ctx(), graph->sink(), wanted, kMaxEntries, out));
    return out;
  }
  UOPD_ASSIGN(std::unique_ptr<Graph> other, Load(b, interrupt));
  out.has_b = true;
  out.b = other->digest();
  out.similarity = ir::Similarity(ir::Sketch(graph->ctx(), graph->sink(), interrupt),
                                  ir::Sketch(other->ctx(), other->sink(), interrupt));
  if (out.a != out.b) {
    out.differences = ir::Diff(graph->ctx(), graph->sink(), other->ctx(), other->sink(),
                               kMaxDifferences, interrupt);
  }
  UOPD_TRY(interrupt.Check());
  return out;
}

void KeyExplainer::LogMiss(RequestContext& request, const ir::UOpContext& ctx, ir::UOp sink,
                           const cache::Key& wanted) {
  if (!LogEnabled(LogLevel::kDebug)) return;
  KeyExplanation found;
  found.a.FromBytes(wanted.semantic());
  Interrupt interrupt(request.limits());
  const absl::Status searched = FindNearest(interrupt, ctx, sink, wanted, kLoggedEntries, found);
  if (!searched.ok() || !found.has_b || found.differences.empty()) {
    UOPD_LOG(kDebug, "schedule is not cached", {"digest", found.a.Hex()}, {"nearest", "none"});
    return;
  }
  const ir::Difference& first = found.differences[0];
  UOPD_LOG(kDebug, "schedule is not cached", {"digest", found.a.Hex()}, {"nearest", found.b.Hex()},
           {"alike", found.similarity}, {"at", first.path}, {"field", first.field},
           {"wanted", first.a}, {"cached", first.b}, {"differences", found.differences.size()});
}

absl::Status KeyExplainer::FindNearest(Interrupt& interrupt, const ir::UOpContext& ctx,
                                       ir::UOp sink, const cache::Key& wanted, int64_t entries,
                                       KeyExplanation& out) {
  const auto sketch = ir::Sketch(ctx, sink, interrupt);
  std::optional<cache::Key> best;
  std::string best_graph;
  size_t bytes = 0;
  for (const cache::EntryInfo& entry : store_.List("schedule", entries)) {
    UOPD_TRY(interrupt.Check());
    auto key = store_.KeyOf(entry.address);
    if (!key.has_value()) continue;
    double similarity = 0;
    std::string graph;
    if (key->semantic() == wanted.semantic()) {
      similarity = 2;  // no other graph can be nearer than the same graph in another environment
    } else {
      // The store may have dropped the graph of a schedule that it still has.
      auto row = store_.ReadRow(GraphKey(key->semantic()).address());
      if (!row.ok() || !row->has_value()) continue;
      graph = std::move((*row)->value);
      bytes += graph.size();
      if (bytes > kMaxBytes) break;
      const auto other = SketchOf(entry.address, graph, interrupt);
      if (other != nullptr) similarity = ir::Similarity(sketch, *other);
    }
    // Of equally similar entries, take the one that was used last.
    if (similarity <= out.similarity) continue;
    out.similarity = similarity;
    best = std::move(key);
    best_graph = std::move(graph);
  }
  UOPD_TRY(interrupt.Check());
  out.similarity = std::min(out.similarity, 1.0);
  if (!best.has_value()) return absl::OkStatus();
  out.has_b = true;
  out.b.FromBytes(best->semantic());
  DiffEnvironments(wanted.environment(), best->environment(), out.differences);
  if (out.a == out.b) return absl::OkStatus();
  UOPD_ASSIGN(std::unique_ptr<Graph> other, Graph::Verify(best_graph, limits_, interrupt));
  for (ir::Difference& d :
       ir::Diff(ctx, sink, other->ctx(), other->sink(), kMaxDifferences, interrupt))
    out.differences.push_back(std::move(d));
  return interrupt.Check();
}

std::shared_ptr<const std::vector<uint32_t>> KeyExplainer::SketchOf(const Digest& address,
                                                                    std::string_view bytes,
                                                                    Interrupt& interrupt) {
  {
    MutexLock lock(mu_);
    if (auto it = sketches_.find(address); it != sketches_.end()) return it->second;
  }
  std::shared_ptr<const std::vector<uint32_t>> sketch;
  if (auto graph = Graph::Verify(bytes, limits_, interrupt); graph.ok()) {
    sketch = std::make_shared<const std::vector<uint32_t>>(
        ir::Sketch((*graph)->ctx(), (*graph)->sink(), interrupt));
  }
  if (interrupt.raised()) return nullptr;  // the next request makes it
  MutexLock lock(mu_);
  if (sketches_.size() >= 16 * kMaxEntries) sketches_.clear();
  sketches_[address] = sketch;
  return sketch;
}

}  // namespace uopd::engine
