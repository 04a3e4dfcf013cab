// SPDX-License-Identifier: MIT
// Graph bytes in, prepared program out: from memory, from the cache, or by compiling.
//
// A request whose program is not prepared goes through these steps, from top to bottom. Each step
// makes one artefact from the artefact before it:
//
//   ResolvedRequest   the bytes or the digest that the client sent, and its options
//      │ graph.h             verifies it, or takes it from the store "graph"
//   Graph
//      │ schedule.h          takes it from the store "schedule", or makes it
//   Schedule
//      │ kernels.h           takes each kernel from memory, by the store "choice" from the store
//   KernelSet                "kernel", or makes it, with the opts that the store "tuning" has
//      │ program.h           assembles the program; then it enters the table of programs
//   Program
//      │ draft_upgrades.h    after the answer: optimises what was compiled quickly
//      │ tuning_plan.h       after the answer, for a request with a beam
//
// This file has what surrounds these steps: the table of prepared programs, and the callers. If N
// callers have the same cold graph, it is compiled once (program_flights.h). Cold graphs have
// threads of their own, so that they cannot take the threads of prepared programs. A caller that
// waits for another caller's compile holds no thread (preparation.h).
//
// Thread-safe.
#pragma once
#include <memory>
#include <string>

#include "server/engine/base/task_pool.h"
#include "server/engine/compile/kernel/kernel_compiler.h"
#include "server/engine/compile/kernel/kernel_loader.h"
#include "server/engine/compile/kernel/kernels.h"
#include "server/engine/compile/program/draft_upgrades.h"
#include "server/engine/compile/program/preparation.h"
#include "server/engine/compile/program/program_flights.h"
#include "server/engine/compile/program/program_table.h"
#include "server/engine/compile/program/tuning_plan.h"
#include "server/engine/compile/resolved_request.h"
#include "server/engine/compile/schedule/graph.h"
#include "server/engine/compile/schedule/schedule.h"
#include "server/engine/compile/source/reproducer.h"
#include "server/engine/tune/tuning_service.h"

namespace uopd::engine {

class CompileService {
 public:
  static constexpr size_t kMaxPrograms = 4096;

  struct Options {
    LeaseTerms lease;  // for leases of kernels
    std::string repro_folder;
    std::string device_list;  // for reproducers
    GraphLimits limits;
    int threads = 8;                          // threads for cold graphs
    worker::Supervisor* compilers = nullptr;  // null: compiles in this process
    worker::Supervisor* upgraders = nullptr;  // the same, for upgrades of drafts
    std::chrono::milliseconds compile_limit{60'000};
    bool fast_tier = false;  // compile new kernels as drafts first
    int upgrade_threads = 1;
    KernelTuner* tuner = nullptr;        // null: no tuning
    TuningService::Options tuning;       // `owner` and `failures` are those of this service
    RecentFailures* failures = nullptr;  // null: those of compiles are not remembered
    KeyExplainer* explainer = nullptr;   // of misses, logged at level debug; null: none
  };

  // All references and pointers outlive the service. `task_pool` runs the compiles of kernels, and
  // nothing that waits for a compile.
  CompileService(Options options, const GraphCompiler& graph_compiler, cache::Store& store,
                 DeviceSet& devices, TaskPool& task_pool);

  // Fills in the program if it is prepared, and takes it away if its device was lost. Hashes the
  // bytes if nobody has. An invalid reference has no program.
  void Find(ResolvedRequest& wanted);

  // The same. If the program is found, `request` gets it.
  bool FindFor(RequestContext& request, ResolvedRequest& wanted);

  // Prepares without using this thread and calls `done`, perhaps before it returns. Until then
  // `request` and the bytes of the graph stay where they are. NOT_FOUND (program): only a digest is
  // given, and no graph with this digest is known. INVALID_ARGUMENT names the node at fault.
  // INTERNAL names a reproducer. Fills request.timings and request.cache. A request in the
  // background is prepared by threads and processes of the lowest priority.
  std::shared_ptr<Preparation> Begin(RequestContext& request, ResolvedRequest wanted,
                                     Preparation::Done done);

  // Calls `work` on a thread of the lowest priority, with the graph of this digest or the reason
  // why there is none.
  void WithGraph(const Caller& caller, const Digest& digest,
                 absl::AnyInvocable<void(absl::StatusOr<std::unique_ptr<Graph>>)> work);
  // The digest of the graph that is meant, which need not be known here if only its digest is
  // given. INVALID_ARGUMENT as for Begin.
  absl::StatusOr<Digest> DigestOf(RequestContext& request, const GraphRef& ref);
  // What there is to tune in a graph (tuning_plan.h): verifies, schedules and lowers it, and
  // compiles nothing. The graph is kept in the store, so that its digest is enough the next time.
  // For a thread that may work for seconds (Post). Errors are those of Begin; INVALID_ARGUMENT also
  // for a graph without kernels, RESOURCE_EXHAUSTED for one with too many, and FAILED_PRECONDITION
  // for one on a device that only compiles.
  absl::StatusOr<std::shared_ptr<const TuningPlan>> PlanTuning(RequestContext& request,
                                                               const GraphRef& ref,
                                                               const CompileOptions& options);
  // Begins to tune kernels of a plan, in the order of `kernels`, which names them by their numbers
  // in the plan. Each winner is compiled, so that requests find its code in the cache. `observer`
  // gets numbers of the plan, and is told of its end.
  void Tune(const std::shared_ptr<const TuningPlan>& plan, const std::vector<size_t>& kernels,
            std::shared_ptr<TuningObserver> observer);

  // A kernel for the daemon's own use, such as a measurement.
  absl::StatusOr<LoadedKernel> LoadKernel(const RequestContext& request,
                                          const KernelRequest& kernel) {
    PhaseTimings timings;  // belongs to no request
    return loader_.Get(request, kernel, &timings);
  }
  // Runs a task on the threads for cold graphs: work of up to seconds that may wait for compiles.
  void Post(const Caller& caller, TaskPool::Task task) { cold_.Post(caller, std::move(task)); }

  // How many callers wait for the compile of this graph. The graph is in its canonical form.
  size_t waiting(const GraphRef& ref, const CompileOptions& options) const;

  // The compiles that calls of a session (Caller::flow) wait for.
  ProgramFlights::Progress ProgressOf(std::string_view flow) const {
    return flights_.ProgressOf(flow);
  }
  // Kernels that wait for tuning or are being tuned.
  size_t kernels_to_tune() const { return tuning_.kernels_left(); }

  // The time for which every thread for cold graphs has been busy with its present work; 0 if a
  // thread is free.
  std::chrono::nanoseconds AllBusyFor() const { return cold_.AllBusyFor(); }
  const TaskPool& pool_of_new_graphs() const { return cold_; }
  const TaskPool& pool_of_own_graphs() const { return own_; }

  // Begins to make the workers ready for the first compile (warm_up.h). Does not wait.
  void WarmUp();
  // Drops the programs of a device that is lost.
  void DropProgramsOf(const DeviceState& device) { programs_.RemoveOf(device); }

  bool tunes() const { return tuning_.offered(); }
  // Stops tuning for good. Programs keep the kernels that they have.
  void StopTuning() { tuning_.Stop(); }
  TuningService& tuning() { return tuning_; }
  // Stops upgrading drafts for good. Programs keep the kernels that they have.
  void StopUpgrades() {
    if (upgrades_ != nullptr) upgrades_->Stop();
    upgrade_compiler_.Stop();
  }
  // Drafts that wait to be replaced, or are being replaced.
  int pending_upgrades() const { return upgrades_ == nullptr ? 0 : upgrades_->pending(); }
  // Stops compiling for good: running compiles end with CANCELLED, and new ones are refused.
  void StopCompiling() { compiler_.Stop(); }

 private:
  // The program of the key. Null: there is none, or its device was lost and opened again.
  std::shared_ptr<ProgramHandle> Known(const ProgramKey& key);
  // Whether a device of the program was lost and opened again.
  bool IsStale(const ProgramHandle& program) const;
  absl::Status WarmUpWorker();
  // For a caller that has a thread: finishes it with the program from the table, or joins a flight.
  void Serve(const std::shared_ptr<Preparation>& caller, ResolvedRequest& wanted);
  // All steps from the graph to its program.
  Preparation::Answer Make(RequestContext& request, Graph& graph, const CompileOptions& options);

  const Options options_;
  const GraphCompiler& graph_compiler_;
  DeviceSet& devices_;
  ProgramTable programs_;
  ReproducerFolder reproducers_;
  KernelCompiler compiler_, upgrade_compiler_;
  KernelLoader loader_;
  const std::unique_ptr<DraftUpgrades> upgrades_;  // null: no drafts; its threads use loader_
  TuningService tuning_;                           // its threads use loader_
  Graphs graphs_;
  Schedules schedules_;
  Kernels kernels_;
  ProgramFlights flights_;
  Timer timer_;
  // Declared last: their tasks use all members above.
  TaskPool own_;  // requests of the daemon itself
  TaskPool cold_;
};

}  // namespace uopd::engine
