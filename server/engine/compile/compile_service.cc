// SPDX-License-Identifier: MIT
#include "server/engine/compile/compile_service.h"

#include <algorithm>
#include <optional>

#include "core/base/interrupt.h"
#include "core/base/log.h"
#include "core/base/metrics.h"
#include "core/base/text.h"
#include "server/engine/base/lookups.h"
#include "server/engine/base/not_found.h"
#include "server/engine/compile/key_explainer.h"
#include "server/engine/compile/keys.h"

namespace uopd::engine {
namespace {

Digest FlightKey(const Digest& digest, const CompileOptions& options) {
  return HashBytes(Cat(digest.view(), options.Text()));
}

size_t PartOf(int threads, int numerator, int denominator) {
  return static_cast<size_t>(std::max(1, threads * numerator / denominator));
}

// Work in the context can be ended while this lives.
class InterruptScope {
 public:
  InterruptScope(ir::UOpContext& ctx, Interrupt& interrupt) : ctx_(ctx) {
    ctx_.set_interrupt(&interrupt);
  }
  ~InterruptScope() { ctx_.set_interrupt(nullptr); }
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  ir::UOpContext& ctx_;
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
      compiler_(options_.compilers, options_.compile_limit),
      kernels_(pipeline, compiler_, store, options_.lease),
      reproducers_(options_.repro_folder, options_.device_list),
      tuning_({.owner = options_.lease.owner}, store, options_.tuner),
      // Others find a place also where what one asks for never ends.
      cold_(
          options_.threads, {},
          {.of_peer = PartOf(options_.threads, 3, 4), .of_flow = PartOf(options_.threads, 1, 2)}) {}

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

bool CompileService::FindFor(RequestContext& request, const GraphRef& graph,
                             const CompileOptions& options) {
  request.prepared = Find(graph, options);
  if (request.prepared == nullptr) return false;
  request.cache.schedule = CacheResult::kMemory;
  request.cache.kernels_memory = static_cast<uint32_t>(request.prepared->Get()->steps.size());
  return true;
}

size_t CompileService::waiting(const GraphRef& graph, const CompileOptions& options) const {
  return flights_.waiting(FlightKey(HashBytes(graph.bytes), options));
}

std::shared_ptr<Preparation> CompileService::Begin(RequestContext& request, const GraphRef& graph,
                                                   const CompileOptions& options,
                                                   Preparation::Done done) {
  const Caller who = request.caller;  // the caller may leave at once
  auto caller = std::make_shared<Preparation>(request, timer_, std::move(done));
  caller->Watch();
  cold_.Post(who, [this, caller, graph, options, since = NowNs()] {
    if (!caller->Start()) return;
    caller->request().timings.Add(Phase::kQueue, NowNs() - since);
    MakeFor(caller, graph, options);
  });
  return caller;
}

absl::StatusOr<std::shared_ptr<ProgramHandle>> CompileService::Prepare(
    RequestContext& request, const GraphRef& graph, const CompileOptions& options) {
  if (FindFor(request, graph, options)) return request.prepared;
  constexpr std::chrono::milliseconds kPoll{10};  // how soon a cancellation is noticed
  Mutex mu;
  std::condition_variable ended;
  std::optional<absl::StatusOr<Made>> answer;
  const auto caller = Begin(request, graph, options, [&](absl::StatusOr<Made> made) {
    MutexLock lock(mu);
    answer = std::move(made);
    ended.notify_all();  // under the lock: the waiting one destroys it
  });
  for (bool waits = true;;) {
    {
      MutexLock lock(mu);
      lock.WaitUntil(ended, RequestContext::Clock::now() + (waits ? kPoll : std::chrono::hours(1)),
                     [&] { return answer.has_value(); });
      if (answer.has_value()) return *std::move(answer);
    }
    if (absl::Status over = request.Check(); waits && !over.ok()) {
      waits = false;
      caller->Leave(std::move(over));
    }
  }
}

void CompileService::MakeFor(const std::shared_ptr<Preparation>& caller, const GraphRef& graph,
                             const CompileOptions& options) {
  RequestContext& request = caller->request();
  if (absl::Status over = request.Check(); !over.ok()) return caller->Finish(std::move(over));
  if (FindFor(request, graph, options)) return caller->Finish(request.prepared);
  auto first = Admit(request, graph);
  if (!first.ok()) return caller->Finish(first.status());
  std::unique_ptr<Admitted> admitted = *std::move(first);
  const ProgramKey key{admitted->digest, options};
  if (auto program = programs_.Find(key)) {  // sent in another than the canonical form
    request.cache.schedule = CacheResult::kMemory;
    return caller->Finish(std::move(program));
  }
  bool begun = false;
  flights_.Join(FlightKey(key.digest, options), caller,
                [&](RequestContext& for_all) -> absl::StatusOr<Made> {
                  // Perhaps made since the look above.
                  if (auto program = programs_.Find(key)) return program;
                  if (begun) {
                    // Numbers of nodes decide between equals: a context that has been worked in
                    // would give another schedule.
                    auto again = std::make_unique<Admitted>();
                    again->bytes = std::move(admitted->bytes);
                    again->digest = admitted->digest;
                    again->stored = admitted->stored;
                    admitted = std::move(again);
                  }
                  begun = true;
                  auto made = Make(for_all, *admitted, key);
                  if (made.ok()) return made;
                  return reproducers_.Explain(made.status(), admitted->bytes, options);
                });
}

absl::StatusOr<std::unique_ptr<CompileService::Admitted>> CompileService::Admit(
    RequestContext& request, const GraphRef& graph) {
  if (graph.bytes.empty()) return LoadGraph(graph.digest);
  auto out = std::make_unique<Admitted>();
  ScopedPhase phase(Phase::kVerify, &request.timings);
  Interrupt interrupt(request.deadline, request.cancelled);
  const InterruptScope scope(out->ctx, interrupt);
  UOPD_ASSIGN(out->sink, ir::Decode(out->ctx, graph.bytes, ir::Stage::kTensor, options_.limits));
  UOPD_TRY(interrupt.Check());
  out->bytes = ir::Encode(out->ctx, out->sink);
  UOPD_TRY(interrupt.Check());
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
  Interrupt interrupt(request.deadline, request.cancelled);
  const InterruptScope scope(graph.ctx, interrupt);
  UOPD_ASSIGN(graph.sink, ir::Decode(graph.ctx, graph.bytes, ir::Stage::kTensor, options_.limits));
  return absl::OkStatus();
}

absl::StatusOr<CompileService::Made> CompileService::Make(RequestContext& request, Admitted& graph,
                                                          const ProgramKey& key) {
  UOPD_TRY(request.Check());
  UOPD_ASSIGN(schedule::Schedule schedule, GetSchedule(request, graph, key.options));
  UOPD_TRY(request.Check());
  UOPD_ASSIGN(Plan plan, ProgramPlan::Make(key.digest, key.options, std::move(schedule), devices_));
  UOPD_TRY(GetKernels(request, *plan));
  UOPD_ASSIGN(auto program, plan->Assemble(devices_));
  if (!graph.stored && key.options.caches_compiles()) {
    store_.Put(GraphKey(graph.digest.view()), graph.bytes, 1).IgnoreError();
  }
  Made made = programs_.Insert(key, std::make_shared<ProgramHandle>(std::move(program)));
  Tune(plan, made);
  return made;
}

absl::StatusOr<schedule::Schedule> CompileService::GetSchedule(RequestContext& request,
                                                               Admitted& graph,
                                                               const CompileOptions& options) {
  UOPD_ASSIGN(const ScheduleTarget target, TargetOf(request, graph));
  const cache::Key key = ScheduleKey(graph.bytes, pipeline_, target);
  cache::LoadOptions load{
      .limits = request.wait_limits(),
      .use = options.caches_compiles() ? cache::Use::kReadAndKeep : cache::Use::kNone};
  auto make = [&](const cache::WaitLimits& limits) -> absl::StatusOr<std::string> {
    if (options_.explainer != nullptr && LogEnabled(LogLevel::kDebug)) {
      UOPD_TRY(DecodeAdmitted(request, graph));
      options_.explainer->LogMiss(request, graph.ctx, graph.sink, key);
    }
    return MakeSchedule(request, graph, target.options, limits);
  };
  for (;;) {
    UOPD_ASSIGN(const cache::Loaded loaded, schedules_.LoadOrCompute(store_, key, load, make));
    const bool reads = load.use == cache::Use::kReadAndKeep;
    if (reads) CountLookup("schedule", loaded.lookup);
    const bool made = !reads || loaded.outcome == cache::LoadOutcome::kComputed;
    request.cache.schedule = made ? CacheResult::kMiss : CacheResult::kDisk;
    auto schedule = schedule::Schedule::Decode(*loaded.bytes);
    if (schedule.ok()) return schedule;
    if (made) return absl::InternalError(Cat("schedule: ", StatusText(schedule.status())));
    CountCorrupt("schedule");
    UOPD_LOG(kWarn, "cached schedule is unusable, making it again", {"status", schedule.status()});
    load.use = cache::Use::kReplace;
  }
}

absl::StatusOr<ScheduleTarget> CompileService::TargetOf(RequestContext& request,
                                                        Admitted& graph) const {
  if (devices_.size() == 1) return OnlyScheduleTarget(devices_);
  UOPD_TRY(DecodeAdmitted(request, graph));
  return ScheduleTargetOf(graph.ctx, graph.sink, devices_);
}

absl::StatusOr<std::string> CompileService::MakeSchedule(RequestContext& request, Admitted& graph,
                                                         const schedule::Options& options,
                                                         const cache::WaitLimits& limits) const {
  UOPD_TRY(DecodeAdmitted(request, graph));
  ScopedPhase phase(Phase::kSchedule, &request.timings);
  Interrupt interrupt(limits.deadline, limits.cancelled);
  const InterruptScope scope(graph.ctx, interrupt);
  UOPD_TRY(interrupt.Check());
  UOPD_ASSIGN(schedule::Schedule schedule, pipeline_.MakeSchedule(graph.ctx, graph.sink, options));
  metrics::Schedules().Increment();
  return schedule.Encode();
}

absl::Status CompileService::GetKernels(RequestContext& request, ProgramPlan& plan) {
  struct Got {
    absl::StatusOr<LoadedKernel> kernel = absl::UnknownError("not run");
    PhaseTimings timings;
  };
  std::vector<Got> got(plan.kernels.size());
  workers_.ParallelFor(request.caller, got.size(), [&](size_t i) {
    got[i].kernel = GetKernel(request, plan.RequestOf(i), &got[i].timings);
  });
  for (size_t i = 0; i < got.size(); ++i) {
    request.timings.Add(got[i].timings);
    UOPD_TRY(got[i].kernel.status());
    plan.kernels[i].kernel = got[i].kernel->kernel;
    switch (got[i].kernel->from) {
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
  return absl::OkStatus();
}

absl::StatusOr<LoadedKernel> CompileService::GetKernel(const RequestContext& request,
                                                       const KernelRequest& wanted,
                                                       PhaseTimings* timings) {
  if (auto found = tuning_.Find(wanted.graph, wanted.device->device(), wanted.options)) {
    KernelRequest tuned = wanted;
    tuned.opts = &found->opts;
    auto kernel = kernels_.Get(request, tuned, timings);
    if (!absl::IsInvalidArgument(kernel.status())) return kernel;
    // What decides which opts apply is part of the key, so this is a damaged value.
    UOPD_LOG(kWarn, "tuned opts do not apply", {"opts", Text(found->opts)},
             {"status", kernel.status()});
  }
  return kernels_.Get(request, wanted, timings);
}

void CompileService::Tune(const Plan& plan, const Made& program) {
  if (plan->options.beam == 0) return;
  TuningTask task;
  task.options = plan->options;
  bool any = false;
  for (const PlannedKernel& kernel : plan->kernels) {
    task.kernels.push_back({.graph = kernel.graph,
                            .device = &kernel.device->device(),
                            .name = kernel.kernel->name,
                            .done = kernel.kernel->tuned});
    any |= !kernel.kernel->tuned;
  }
  if (!any) return;
  task.program = program;
  task.use = [this, plan, handle = std::weak_ptr(program)](
                 size_t i, const TuningRecord& found) -> absl::Status {
    const auto program = handle.lock();
    if (program == nullptr) return absl::OkStatus();
    KernelRequest wanted = plan->RequestOf(i);
    wanted.opts = &found.opts;
    PhaseTimings timings;  // of no request
    UOPD_ASSIGN(LoadedKernel kernel, kernels_.Get(RequestContext(), wanted, &timings));
    plan->kernels[i].kernel = std::move(kernel.kernel);
    UOPD_ASSIGN(auto better, plan->Assemble(devices_));
    program->Swap(std::move(better));
    return absl::OkStatus();
  };
  tuning_.Add(std::move(task));
}

}  // namespace uopd::engine
