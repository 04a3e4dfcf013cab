// SPDX-License-Identifier: MIT
// Graph bytes in, prepared program out: from memory, from the cache, or by compiling.
//
// Thread-safe. N callers with the same cold graph cause one compile. Cold graphs have threads of
// their own, so that they cannot take those of what is prepared; who waits for another one's
// compile has none. Kernels of a graph compile in parallel on the given threads. What the cache
// cannot give is made; what it gives damaged is counted, made again and replaced. Three stores:
//   "graph"     digest -> the graph's bytes, so that a digest alone is enough after a restart
//   "schedule"  graph -> Schedule
//   "kernel"    kernel graph -> KernelRecord
// A request with a beam gets what is known about its kernels from the fourth, "tuning"; the rest is
// tuned behind it (tuning_service.h) and swapped into the program.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "cache/load_or_compute.h"
#include "core/ir/wire.h"
#include "server/engine/base/executor.h"
#include "server/engine/compile/kernel_compiler.h"
#include "server/engine/compile/kernel_loader.h"
#include "server/engine/compile/preparation.h"
#include "server/engine/compile/program_flights.h"
#include "server/engine/compile/program_plan.h"
#include "server/engine/compile/program_table.h"
#include "server/engine/compile/reproducer.h"
#include "server/engine/compile/schedule_target.h"
#include "server/engine/tune/tuning_service.h"

namespace uopd::engine {

// A graph by digest, by bytes, or both. Empty means absent.
struct GraphRef {
  std::string_view digest, bytes;
};

class KeyExplainer;

class CompileService {
 public:
  static constexpr size_t kMaxPrograms = 4096;

  struct Options {
    LeaseTerms lease;  // of kernels
    std::string repro_folder;
    std::string device_list;  // in reproducers
    ir::WireLimits limits;
    int threads = 8;                          // that cold graphs have
    worker::Supervisor* compilers = nullptr;  // null: compiles in this process
    std::chrono::milliseconds compile_limit{60'000};
    KernelTuner* tuner = nullptr;       // null: does not tune
    KeyExplainer* explainer = nullptr;  // of misses, in the log at level debug; null: none
  };

  // All references and pointers outlive the service. `workers` runs kernel compiles and nothing
  // that waits for a compile.
  CompileService(Options options, const Pipeline& pipeline, cache::Store& store, DeviceSet& devices,
                 Executor& workers);

  // What is prepared already, without any work but a hash of the bytes if there are some; null
  // otherwise, also when the reference makes no sense.
  std::shared_ptr<ProgramHandle> Find(const GraphRef& graph, const CompileOptions& options);

  // The same for a request that then has it.
  bool FindFor(RequestContext& request, const GraphRef& graph, const CompileOptions& options);

  // Prepares without this thread and calls `done`, perhaps before it returns; until then `request`
  // and the bytes of `graph` stay where they are. What it may give is said at Prepare.
  std::shared_ptr<Preparation> Begin(RequestContext& request, const GraphRef& graph,
                                     const CompileOptions& options, Preparation::Done done);
  // Waits for that. NOT_FOUND (program) when only a digest is given and nobody knows it;
  // INVALID_ARGUMENT names the node to blame; INTERNAL names a reproducer. Fills request.timings
  // and request.cache.
  absl::StatusOr<std::shared_ptr<ProgramHandle>> Prepare(RequestContext& request,
                                                         const GraphRef& graph,
                                                         const CompileOptions& options);

  // How many wait for the compile of this graph in its canonical form.
  size_t waiting(const GraphRef& graph, const CompileOptions& options) const;

  // For how long the threads of cold graphs have all had work that they have now; 0 when one is
  // free.
  std::chrono::nanoseconds AllBusyFor() const { return cold_.AllBusyFor(); }

  bool tunes() const { return tuning_.offered(); }
  // For good: programs keep the kernels that they have.
  void StopTuning() { tuning_.Stop(); }
  // For good: ends the compiles that run, CANCELLED, and refuses new ones.
  void StopCompiling() { compiler_.Stop(); }

 private:
  // A graph that passed verification, or whose bytes did when they were stored (then sink is null
  // until Decode).
  struct Admitted {
    ir::UOpContext ctx;
    ir::UOp sink;
    std::string bytes;  // canonical
    Digest digest;
    bool stored = false;
  };
  using Made = Preparation::Made;
  using Plan = std::shared_ptr<ProgramPlan>;

  void MakeFor(const std::shared_ptr<Preparation>& caller, const GraphRef& graph,
               const CompileOptions& options);
  absl::StatusOr<std::unique_ptr<Admitted>> Admit(RequestContext& request, const GraphRef& graph);
  absl::StatusOr<std::unique_ptr<Admitted>> LoadGraph(std::string_view digest);
  absl::Status DecodeAdmitted(RequestContext& request, Admitted& graph) const;
  absl::StatusOr<Made> Make(RequestContext& request, Admitted& graph, const ProgramKey& key);
  absl::StatusOr<schedule::Schedule> GetSchedule(RequestContext& request, Admitted& graph,
                                                 const CompileOptions& options);
  absl::StatusOr<ScheduleTarget> TargetOf(RequestContext& request, Admitted& graph) const;
  absl::StatusOr<std::string> MakeSchedule(RequestContext& request, Admitted& graph,
                                           const schedule::Options& options,
                                           const cache::WaitLimits& limits) const;
  absl::Status GetKernels(RequestContext& request, ProgramPlan& plan);
  absl::StatusOr<LoadedKernel> GetKernel(const RequestContext& request, const KernelRequest& wanted,
                                         PhaseTimings* timings);
  void Tune(const Plan& plan, const Made& program);

  const Options options_;
  const Pipeline& pipeline_;
  cache::Store& store_;
  DeviceSet& devices_;
  Executor& workers_;
  ProgramTable programs_;
  KernelCompiler compiler_;
  KernelLoader kernels_;
  ReproducerFolder reproducers_;
  cache::LoadGroup schedules_;
  ProgramFlights flights_;
  TuningService tuning_;  // its thread uses all of the above
  Timer timer_;
  Executor cold_;  // last: its tasks use all of the above
};

}  // namespace uopd::engine
