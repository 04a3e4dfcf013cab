// SPDX-License-Identifier: MIT
#include "server/engine/compile_service.h"

#include <algorithm>
#include <map>

#include "core/base/log.h"
#include "core/base/metrics.h"
#include "core/base/text.h"
#include "server/engine/keys.h"
#include "server/engine/not_found.h"

namespace uopd::engine {
namespace {

Digest FlightKey(const Digest& digest, const CompileOptions& options) {
  return HashBytes(Cat(digest.view(), options.Text()));
}

// One kernel to get, and the items that want it.
struct Job {
  std::string_view graph;
  DeviceState* device = nullptr;
  std::vector<int64_t> capacities;  // bytes of each buffer, the least over all items
  std::vector<size_t> items;
  absl::StatusOr<LoadedKernel> result = absl::UnknownError("not run");
  PhaseTimings timings;
};

}  // namespace

CompileService::CompileService(Options options, const Pipeline& pipeline, cache::Store& store,
                               DeviceSet& devices, Executor& workers)
    : options_(std::move(options)),
      pipeline_(pipeline),
      store_(store),
      devices_(devices),
      workers_(workers),
      programs_(kMaxPrograms),
      kernels_(pipeline, store, options_.owner),
      reproducers_(options_.repro_folder) {}

std::shared_ptr<ProgramHandle> CompileService::Find(const GraphRef& graph,
                                                    const CompileOptions& options) {
  ProgramKey key{{}, options};
  // Bytes that hash to the digest of a program are that program's canonical bytes.
  if (!graph.bytes.empty()) {
    key.digest = HashBytes(graph.bytes);
    if (!graph.digest.empty() && graph.digest != key.digest.view()) return nullptr;
  } else if (!key.digest.FromBytes(graph.digest)) {
    return nullptr;
  }
  return programs_.Find(key);
}

absl::StatusOr<std::shared_ptr<ProgramHandle>> CompileService::Prepare(
    RequestContext& request, const GraphRef& graph, const CompileOptions& options) {
  if (auto program = Find(graph, options)) {
    request.cache.schedule = CacheResult::kMemory;
    request.cache.kernels_memory = static_cast<uint32_t>(program->Get()->steps.size());
    return program;
  }
  UOPD_ASSIGN(std::unique_ptr<Admitted> admitted, Admit(request, graph));
  const ProgramKey key{admitted->digest, options};
  if (auto program = programs_.Find(key)) {  // sent in another than the canonical form
    request.cache.schedule = CacheResult::kMemory;
    return program;
  }
  auto flight = flights_.Do(
      FlightKey(key.digest, options), request.wait_limits(), [&]() -> absl::StatusOr<Made> {
        // Perhaps made since the look above.
        if (auto program = programs_.Find(key)) return program;
        auto made = Make(request, *admitted, options);
        if (!made.ok()) {
          return reproducers_.Explain(made.status(), admitted->bytes, options.Text());
        }
        return programs_.Insert(key, *std::move(made));
      });
  UOPD_TRY(flight.value.status());
  if (flight.waited) request.cache.schedule = CacheResult::kShared;
  return **flight.value;
}

absl::StatusOr<std::unique_ptr<CompileService::Admitted>> CompileService::Admit(
    RequestContext& request, const GraphRef& graph) {
  if (graph.bytes.empty()) return LoadGraph(graph.digest);
  auto out = std::make_unique<Admitted>();
  ScopedPhase phase(Phase::kVerify, &request.timings);
  UOPD_ASSIGN(out->sink, ir::Decode(out->ctx, graph.bytes, ir::Stage::kTensor, options_.limits));
  out->bytes = ir::Encode(out->ctx, out->sink);
  out->digest = HashBytes(out->bytes);
  if (!graph.digest.empty() && graph.digest != out->digest.view()) {
    return absl::InvalidArgumentError(
        Cat("digest is not that of the graph (", out->digest.Hex(), ")"));
  }
  return out;
}

absl::StatusOr<std::unique_ptr<CompileService::Admitted>> CompileService::LoadGraph(
    std::string_view digest) {
  auto out = std::make_unique<Admitted>();
  if (!out->digest.FromBytes(digest)) {
    return absl::InvalidArgumentError(
        Cat("digest has ", digest.size(), " bytes instead of 32, and there is no graph"));
  }
  cache::GetResult found = store_.Get(GraphKey(digest));
  if (found.hit() && HashBytes(found.entry.bytes) != out->digest) {
    found.outcome = cache::GetOutcome::kCorrupt;
  }
  CountLookup("graph", found.outcome);
  if (!found.hit()) {
    return NotFound(kProgram, Cat("program ", out->digest.Hex(), " is unknown; send its graph"));
  }
  out->bytes = std::move(found.entry.bytes);
  out->stored = true;
  return out;
}

absl::Status CompileService::DecodeAdmitted(RequestContext& request, Admitted& graph) const {
  if (graph.sink) return absl::OkStatus();
  ScopedPhase phase(Phase::kVerify, &request.timings);
  UOPD_ASSIGN(graph.sink, ir::Decode(graph.ctx, graph.bytes, ir::Stage::kTensor, options_.limits));
  return absl::OkStatus();
}

absl::StatusOr<CompileService::Made> CompileService::Make(RequestContext& request, Admitted& graph,
                                                          const CompileOptions& options) {
  UOPD_TRY(request.Check());
  UOPD_ASSIGN(schedule::Schedule schedule, GetSchedule(request, graph));
  UOPD_TRY(request.Check());
  UOPD_ASSIGN(auto kernels, GetKernels(request, schedule, options));
  UOPD_ASSIGN(auto program, AssembleProgram(graph.digest, schedule, devices_, kernels));
  if (!graph.stored) store_.Put(GraphKey(graph.digest.view()), graph.bytes, 1).IgnoreError();
  return std::make_shared<ProgramHandle>(std::move(program));
}

absl::StatusOr<schedule::Schedule> CompileService::GetSchedule(RequestContext& request,
                                                               Admitted& graph) {
  UOPD_ASSIGN(DeviceState * default_device, devices_.Get(""));
  const cache::Key key = ScheduleKey(graph.bytes, pipeline_, default_device->name());
  cache::LoadOptions load;
  load.limits = request.wait_limits();
  UOPD_ASSIGN(cache::Loaded loaded, schedules_.LoadOrCompute(store_, key, load, [&] {
    return MakeSchedule(request, graph);
  }));
  CountLookup("schedule", loaded.lookup);
  const bool made = loaded.outcome == cache::LoadOutcome::kComputed;
  request.cache.schedule = made ? CacheResult::kMiss : CacheResult::kDisk;
  auto schedule = schedule::Schedule::Decode(*loaded.bytes);
  if (schedule.ok()) return schedule;
  if (made) return absl::InternalError(Cat("schedule: ", StatusText(schedule.status())));
  CountCorrupt("schedule");
  UOPD_LOG(kWarn, "cached schedule is unusable, making it again", {"status", schedule.status()});
  request.cache.schedule = CacheResult::kMiss;
  UOPD_ASSIGN(std::string bytes, MakeSchedule(request, graph));
  store_.Put(key, bytes, 1000).IgnoreError();
  return schedule::Schedule::Decode(bytes);
}

absl::StatusOr<std::string> CompileService::MakeSchedule(RequestContext& request,
                                                         Admitted& graph) const {
  UOPD_TRY(DecodeAdmitted(request, graph));
  ScopedPhase phase(Phase::kSchedule, &request.timings);
  UOPD_ASSIGN(DeviceState * default_device, devices_.Get(""));
  UOPD_ASSIGN(schedule::Schedule schedule,
              pipeline_.MakeSchedule(graph.ctx, graph.sink, default_device->name()));
  metrics::Schedules().Increment();
  return schedule.Encode();
}

absl::StatusOr<std::vector<std::shared_ptr<const Kernel>>> CompileService::GetKernels(
    RequestContext& request, const schedule::Schedule& schedule, const CompileOptions& options) {
  std::vector<Job> jobs;
  std::map<std::pair<std::string_view, DeviceState*>, size_t> job_of;
  for (size_t i = 0; i < schedule.items.size(); ++i) {
    const schedule::Item& item = schedule.items[i];
    UOPD_ASSIGN(DeviceState * device, devices_.Get(item.device));
    if (item.kind != schedule::Item::kKernel) continue;
    auto [it, added] = job_of.try_emplace({item.graph, device}, jobs.size());
    if (added) {
      jobs.push_back({.graph = item.graph, .device = device});
      jobs.back().capacities.assign(item.buffers.size(), INT64_MAX);
    }
    Job& job = jobs[it->second];
    job.items.push_back(i);
    for (size_t b = 0; b < item.buffers.size() && b < job.capacities.size(); ++b) {
      job.capacities[b] = std::min(job.capacities[b], BufferBytes(schedule, item.buffers[b]));
    }
  }
  workers_.ParallelFor(jobs.size(), [&](size_t i) {
    Job& job = jobs[i];
    job.result =
        kernels_.Get(request, job.graph, *job.device, options, job.capacities, &job.timings);
  });
  std::vector<std::shared_ptr<const Kernel>> out(schedule.items.size());
  for (Job& job : jobs) {
    request.timings.Add(job.timings);
    UOPD_TRY(job.result.status());
    for (size_t item : job.items) out[item] = job.result->kernel;
    switch (job.result->from) {
      case CacheResult::kMemory:
        ++request.cache.kernels_memory;
        break;
      case CacheResult::kDisk:
        ++request.cache.kernels_disk;
        break;
      default:
        ++request.cache.kernels_compiled;
    }
  }
  return out;
}

}  // namespace uopd::engine
