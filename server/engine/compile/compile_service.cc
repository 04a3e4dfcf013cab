// SPDX-License-Identifier: MIT
#include "server/engine/compile/compile_service.h"

#include <algorithm>
#include <utility>

#include "core/base/telemetry/log.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "server/engine/compile/program/tuning_plan.h"
#include "server/engine/compile/source/warm_up.h"

namespace uopd::engine {
namespace {

// How many requests of the daemon itself CompileService prepares at the same time.
constexpr int kOwnThreads = 2;

// The program of a request was prepared earlier. On the way of every request.
void CountInMemory() {
  static Counter& memory = metrics::ProgramLookups({"memory"});
  memory.Increment();
}

Digest FlightKey(const Digest& digest, const CompileOptions& options) {
  return HashBytes(Cat(digest.view(), options.Text()));
}

size_t PartOf(int threads, int numerator, int denominator) {
  return static_cast<size_t>(std::max(1, threads * numerator / denominator));
}

std::unique_ptr<DraftUpgrades> MakeUpgrades(const CompileService::Options& options,
                                            KernelLoader& loader) {
  if (!options.fast_tier) return nullptr;
  worker::Supervisor* const workers = options.upgraders;
  return std::make_unique<DraftUpgrades>(options.upgrade_threads, loader, [workers] {
    if (workers != nullptr) workers->EndIdle();
  });
}

TuningService::Options TuningOptions(const CompileService::Options& options) {
  TuningService::Options out = options.tuning;
  out.owner = options.lease.owner;
  out.failures = options.failures;
  return out;
}

}  // namespace

CompileService::CompileService(Options options, const GraphCompiler& graph_compiler,
                               cache::Store& store, DeviceSet& devices, TaskPool& task_pool)
    : options_(std::move(options)),
      graph_compiler_(graph_compiler),
      devices_(devices),
      programs_(kMaxPrograms),
      reproducers_(options_.repro_folder, options_.device_list),
      compiler_(options_.compilers, options_.compile_limit),
      upgrade_compiler_(options_.upgraders, options_.compile_limit),
      loader_(graph_compiler, compiler_, store, options_.lease, &upgrade_compiler_,
              options_.failures),
      upgrades_(MakeUpgrades(options_, loader_)),
      tuning_(TuningOptions(options_), store, options_.tuner),
      graphs_(store, options_.limits),
      schedules_(graph_compiler, store, devices, options_.explainer),
      kernels_(loader_, tuning_, devices, task_pool, upgrades_ != nullptr),
      own_(kOwnThreads, {}, {}, devices::ThreadPriority::kIdle),
      // The limit leaves a thread for other clients even if the compiles of one client never end.
      cold_(
          options_.threads, {},
          {.of_peer = PartOf(options_.threads, 3, 4), .of_flow = PartOf(options_.threads, 1, 2)}) {}

void CompileService::Find(ResolvedRequest& wanted) {
  if (wanted.program != nullptr && !IsStale(*wanted.program)) return;
  wanted.program = nullptr;
  const GraphRef& graph = wanted.graph;
  if (!wanted.digest) {
    Digest named;
    if (!graph.bytes.empty())
      wanted.digest = HashBytes(graph.bytes);
    else if (named.FromBytes(graph.digest))
      wanted.digest = named;
    else
      return;
  }
  // The request may name the digest of another form of the graph, or a wrong one.
  if (!graph.digest.empty() && graph.digest != wanted.digest->view()) return;
  // If the bytes hash to the digest of a program, they are that program's canonical bytes.
  wanted.program = Known({*wanted.digest, wanted.options});
}

bool CompileService::IsStale(const ProgramHandle& program) const {
  const auto made = program.Get();
  return std::ranges::any_of(
      made->devices, [&](const DeviceState* device) { return devices_.IsReplaced(*device); });
}

std::shared_ptr<ProgramHandle> CompileService::Known(const ProgramKey& key) {
  auto program = programs_.Find(key);
  if (program == nullptr || !IsStale(*program)) return program;
  programs_.Remove(key, program);  // its code is on a device that is lost
  return nullptr;
}

bool CompileService::FindFor(RequestContext& request, ResolvedRequest& wanted) {
  Find(wanted);
  request.prepared = wanted.program;
  if (request.prepared == nullptr) return false;
  CountInMemory();
  request.cache.schedule = CacheResult::kMemory;
  request.cache.kernels_memory = static_cast<uint32_t>(request.prepared->Get()->steps.size());
  return true;
}

size_t CompileService::waiting(const GraphRef& ref, const CompileOptions& options) const {
  return flights_.waiting(FlightKey(HashBytes(ref.bytes), options));
}

std::shared_ptr<Preparation> CompileService::Begin(RequestContext& request, ResolvedRequest wanted,
                                                   Preparation::Done done) {
  const Caller who = request.caller;  // a copy: the caller may leave at once
  auto caller = std::make_shared<Preparation>(request, timer_, std::move(done));
  caller->Watch();
  TaskPool& threads = request.background ? own_ : cold_;
  threads.Post(who, [this, caller, wanted = std::move(wanted), since = NowNs()]() mutable {
    if (!caller->Start()) return;
    caller->request().timings.Add(Phase::kQueue, NowNs() - since);
    Serve(caller, wanted);
  });
  return caller;
}

void CompileService::WithGraph(
    const Caller& caller, const Digest& digest,
    absl::AnyInvocable<void(absl::StatusOr<std::unique_ptr<Graph>>)> work) {
  own_.Post(caller, [this, digest, work = std::move(work)]() mutable {
    RequestContext request;
    request.background = true;
    work(graphs_.Get(request, {.digest = digest.view()}));
  });
}

void CompileService::WarmUp() {
  if (options_.compilers == nullptr) return;
  // Jobs that run at the same time run in different workers.
  const int workers = std::min(options_.compilers->max_workers(), kMostWarmWorkers);
  for (int i = 0; i < workers; ++i) {
    cold_.Post(Caller(), [this] {
      const absl::Status status = WarmUpWorker();
      if (!status.ok()) UOPD_LOG(kInfo, "a worker is not ready early", {"status", status});
    });
  }
}

absl::Status CompileService::WarmUpWorker() {
  UOPD_ASSIGN(DeviceState * state, devices_.Get(""));
  const devices::Device& device = state->device();
  // A device without a quick way of compiling has no slow one either.
  if (!device.compiler().makes_drafts()) return absl::OkStatus();
  const bool draft = options_.fast_tier;
  UOPD_ASSIGN(const KernelSource source, WarmUpKernel(graph_compiler_, device, draft));
  return compiler_.Compile(device, source.record.name, source.text, {}, draft).status();
}

void CompileService::Serve(const std::shared_ptr<Preparation>& caller, ResolvedRequest& wanted) {
  RequestContext& request = caller->request();
  const CompileOptions& options = wanted.options;
  if (absl::Status over = request.Check(); !over.ok()) return caller->Finish(std::move(over));
  if (FindFor(request, wanted)) return caller->Finish(request.prepared);
  auto got = graphs_.Get(request, wanted.graph, wanted.digest);
  if (!got.ok()) return caller->Finish(got.status());
  const std::unique_ptr<Graph> graph = *std::move(got);
  const ProgramKey key{graph->digest(), options};
  if (graph->digest() != wanted.digest) {  // the client's form was not the canonical one
    if (auto program = Known(key)) {
      CountInMemory();
      request.cache.schedule = CacheResult::kMemory;
      return caller->Finish(std::move(program));
    }
  }
  flights_.Join(FlightKey(key.digest, options), caller,
                [&](RequestContext& for_all) -> Preparation::Answer {
                  // Another flight may have made the program since the lookup above.
                  if (auto program = Known(key)) return program;
                  Preparation::Answer made = Make(for_all, *graph, options);
                  if (made.ok()) return made;
                  graph->DropNodes();  // the flight may call again
                  return reproducers_.Explain(made.status(), graph->bytes(), options);
                });
}

Preparation::Answer CompileService::Make(RequestContext& request, Graph& graph,
                                         const CompileOptions& options) {
  UOPD_TRY(request.Check());
  const DraftUpgrades::Foreground foreground(request.background ? nullptr : upgrades_.get());
  UOPD_ASSIGN(schedule::Schedule schedule, schedules_.Get(request, graph, options));
  UOPD_TRY(request.Check());
  UOPD_ASSIGN(const std::shared_ptr<KernelSet> kernels,
              kernels_.Get(request, std::move(schedule), options));
  UOPD_ASSIGN(auto program, AssembleProgram(graph.digest(), *kernels, devices_));
  if (options.caches_compiles()) graphs_.Keep(graph);
  auto handle = programs_.Insert(
      {graph.digest(), options},
      std::make_shared<ProgramHandle>(std::move(program),
                                      devices_.program_usage().Get(ProgramName(graph.digest()))));
  const auto update = std::make_shared<ProgramUpdate>(handle, kernels, devices_);
  if (upgrades_ != nullptr) upgrades_->Add(request.caller, update);
  if (auto task = TuningTaskOf(handle, update, loader_)) tuning_.Add(*std::move(task));
  return handle;
}

absl::StatusOr<Digest> CompileService::DigestOf(RequestContext& request, const GraphRef& ref) {
  if (!ref.bytes.empty()) {
    UOPD_ASSIGN(const std::unique_ptr<Graph> graph, graphs_.Get(request, ref));
    return graph->digest();
  }
  Digest digest;
  if (!digest.FromBytes(ref.digest)) return BadDigest(ref.digest);
  return digest;
}

absl::StatusOr<std::shared_ptr<const TuningPlan>> CompileService::PlanTuning(
    RequestContext& request, const GraphRef& ref, const CompileOptions& options) {
  UOPD_ASSIGN(const std::unique_ptr<Graph> graph, graphs_.Get(request, ref));
  UOPD_ASSIGN(schedule::Schedule schedule, schedules_.Get(request, *graph, options));
  auto plan = std::make_shared<TuningPlan>();
  plan->digest = graph->digest();
  UOPD_ASSIGN(plan->set, KernelSet::Of(std::move(schedule), options, devices_));
  Interrupt interrupt(request.limits());
  UOPD_TRY(DescribeKernels(graph_compiler_, interrupt, *plan));
  graphs_.Keep(*graph);
  return plan;
}

void CompileService::Tune(const std::shared_ptr<const TuningPlan>& plan,
                          const std::vector<size_t>& kernels,
                          std::shared_ptr<TuningObserver> observer) {
  tuning_.Add(TuningTaskOf(plan, kernels, std::move(observer), loader_));
}

}  // namespace uopd::engine
