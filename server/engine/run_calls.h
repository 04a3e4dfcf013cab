// SPDX-License-Identifier: MIT
// RunCalls: runs of programs, with what earlier runs of the session have kept, and the answers to
// request ids that were used before.
//
// Thread-safe. Calls that name a session are made on its strand.
#pragma once
#include <memory>

#include "server/engine/base/work_gate.h"
#include "server/engine/buffer_calls.h"
#include "server/engine/kept/kept_runs.h"
#include "server/engine/live_settings.h"
#include "server/engine/losses.h"
#include "server/engine/program_calls.h"
#include "server/engine/run/run_service.h"
#include "server/engine/session/client_limits.h"
#include "server/engine/session/session_table.h"
#include "server/engine/session/tenant_table.h"

namespace uopd::engine {

class RunCalls {
 public:
  // What these refer to outlives this object.
  struct Parts {
    const LiveSettings& settings;
    WorkGate& gate;
    ClientLimits& clients;
    CompileService& compile;
    DeviceSet& devices;
    SessionTable& sessions;
    const TenantTable& tenants;
    Losses& losses;
    BufferCalls& buffers;
    ProgramCalls& programs;
    TaskPool& task_pool;
    TaskPool& makings;  // of kept values
    ContentStore& contents;
  };
  explicit RunCalls(const Parts& parts)
      : parts_(parts),
        kept_programs_(parts.compile, parts.devices),
        shared_values_(parts.contents.memory()) {}

  // Prepares the program if necessary, runs it, and calls `done` on any thread, perhaps before
  // Execute returns. Until then `request`, `session` and everything that `call` refers to stay
  // valid, and the session's turn is held.
  void Execute(RequestContext& request, Session& session, const ExecuteCall& call, RunDone done);
  // Ends the request of this id, wherever it is. No effect on a request that is done.
  static void Cancel(Session& session, uint64_t request_id) { session.cancelled().Add(request_id); }
  // Execute without a session: all buffers live only for this call. `*digest` is set to the
  // program's.
  void RunOnce(RequestContext& request, const ExecuteCall& call, Digest* digest, RunDone done);

  RunWatch& watch() { return watch_; }  // the long runs of this daemon

 private:
  // Runs a call whose program is known, in the turn of the session.
  void RunIn(RequestContext& request, Session& session, const ExecuteCall& call,
             std::shared_ptr<const Program> program, RunDone done);
  // Runs it with what earlier runs of the session have kept, if they have.
  void RunWithKept(RunInput input, Session& session, const ProgramKey& key, RunDone done);
  std::shared_ptr<KeptRuns> KeptOf(Session& session);
  // Makes values in the background, as a part of `work`.
  void MakeKept(Work work, KeptMake make, KeptMake::Done made);
  // The answer to a request whose id was used before.
  absl::StatusOr<ExecuteResult> Repeat(Session& session, uint64_t request_id,
                                       const ResultMemory::Known& known);
  // The limits of a call. `maybe_session` null: a call without a session.
  RunLimits LimitsOf(Session* maybe_session, uint64_t request_id);
  RunTerms TermsOf(Session* maybe_session, uint64_t request_id);

  const Parts parts_;
  KeptPrograms kept_programs_;
  SharedValues shared_values_;
  RunWatch watch_;
};

}  // namespace uopd::engine
