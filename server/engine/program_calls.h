// SPDX-License-Identifier: MIT
// ProgramCalls: from a request for a program to the prepared program, and to the thread that will
// run it.
//
//   Resolve --> (With | Prepare) --> the program, on a thread for it
//
// Thread-safe.
#pragma once
#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "server/engine/base/task_pool.h"
#include "server/engine/base/work_gate.h"
#include "server/engine/compile/compile_service.h"
#include "server/engine/live_settings.h"
#include "server/engine/operate/tune_operations.h"
#include "server/engine/report/roofs.h"
#include "server/engine/run/run_service.h"
#include "server/engine/session/session.h"

namespace uopd::engine {

// A program and its arguments. Everything that it refers to stays valid until the call is answered.
struct ExecuteCall {
  // The thread that may run the program.
  enum class Where : uint8_t {
    // This thread, if the program is prepared and short. This thread belongs to the task pool, or
    // IsQuick.
    kHere,
    kOnTaskPool,
  };
  Where where = Where::kOnTaskPool;
  uint64_t request_id = 0;  // 0: not idempotent
  ResolvedRequest wanted;
  RunCall run;
  // What the request wants to know about its run (RunReport).
  int debug = 0;
  bool profile = false;
};

class ProgramCalls {
 public:
  // What these refer to outlives this object.
  struct Parts {
    const LiveSettings& settings;
    const WorkGate& gate;
    const GraphCompiler& graph_compiler;
    CompileService& compile;
    TuneOperations& tune_operations;
    TaskPool& task_pool;
    TaskPool& long_runs;
  };
  using Prepared = absl::AnyInvocable<void(absl::StatusOr<std::shared_ptr<const Program>>)>;
  using TuneStarted = absl::AnyInvocable<void(absl::StatusOr<TuneOperations::OperationPtr>)>;

  explicit ProgramCalls(const Parts& parts)
      : parts_(parts), roofs_(parts.graph_compiler, parts.compile) {}

  // The first step of a request for a program. Takes microseconds: a large graph is hashed later.
  ResolvedRequest Resolve(const GraphRef& graph, const CompileOptions& options);
  // True: the call takes only microseconds of the calling thread and is done when it returns. The
  // program is then prepared and small, and its devices run inline.
  static bool IsQuick(const ResolvedRequest& wanted);

  // Prepares the program of a request and calls `done` on any thread, perhaps before Prepare
  // returns. Until then `request` and the bytes of the graph stay where they are. Holds no thread
  // while it waits for others.
  void Prepare(RequestContext& request, ResolvedRequest wanted, Prepared done);
  // Gets the program of a call that is to run now, and calls `run` with it on the thread for the
  // run. `maybe_session`: whose call it is; null: no session's.
  void With(RequestContext& request, Session* maybe_session, const ExecuteCall& call, Prepared run);
  // The pool that runs the request's program. REQUIRES: the program is prepared. A program that may
  // be long runs with low priority on threads of its own, so that small work finds a thread and the
  // processor.
  TaskPool& RunnerOf(const RequestContext& request);

  // TuneOperations::Start on a thread for new graphs, with the daemon's own choice for options that
  // are left open. Calls `done` on any thread. Until then `request` and the bytes of the graph stay
  // where they are.
  void StartTune(RequestContext& request, TuneWish wish, TuneStarted done);

 private:
  // Fills in the daemon's own choice for options that the request leaves open.
  CompileOptions Resolved(CompileOptions options) const;
  absl::Status Check(const CompileOptions& wanted, const CompileOptions& options) const;
  // Does what Prepare does, and returns the preparation, or null if none was begun.
  std::shared_ptr<Preparation> Begin(RequestContext& request, ResolvedRequest wanted,
                                     Prepared done);
  // Begin for a call with a request id: RunCalls::Cancel with this id ends the wait.
  void PrepareUnlessCancelled(RequestContext& request, Session& session, uint64_t id,
                              ResolvedRequest wanted, Prepared run);
  // Fills in what the report of the request has before the run, which may take seconds, and then
  // calls `run` on the thread for the run.
  void BeginReport(RequestContext& request, std::shared_ptr<const Program> program, Prepared run);
  // Writes the code of the program to the log, once, if debug.level asks for it. Does not wait.
  void LogCode(const RequestContext& request, std::shared_ptr<const Program> program);

  const Parts parts_;
  Roofs roofs_;
};

}  // namespace uopd::engine
