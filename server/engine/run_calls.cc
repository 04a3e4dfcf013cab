// SPDX-License-Identifier: MIT
#include "server/engine/run_calls.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "server/engine/base/not_found.h"
#include "server/engine/run/give_way.h"

namespace uopd::engine {
namespace {

// The buffers from which the returned data can be read again.
std::vector<ResultSource> SourcesOf(Session& session, std::span<const Argument> arguments,
                                    const ExecuteResult& result) {
  std::vector<ResultSource> out;
  for (const Argument& argument : arguments) {
    if (!argument.return_data) continue;
    const uint64_t handle = argument.buffer;
    const uint64_t version = handle == 0 ? 0 : session.buffers().Version(handle);
    out.push_back({handle, version, result.data[out.size()].size()});
  }
  return out;
}

// An id is done as long as its result is known.
static_assert(CancelledIds::kMaxDone == ResultMemory::kMaxIds);

// The memory of a call without a session.
struct CallMemory {
  CallMemory(int64_t bytes, Quota& total) : quota("limits.session_bytes", bytes, &total) {}
  Quota quota;
  BufferStore buffers{quota};
};

}  // namespace

void RunCalls::Execute(RequestContext& request, Session& session, const ExecuteCall& call,
                       RunDone done) {
  const auto closed = [] {
    return NotFound(kSession, "session was closed while the request waited");
  };
  if (session.closed()) return done(closed());
  parts_.programs.With(request, &session, call,
                       [this, &request, &session, call, done = std::move(done),
                        closed](absl::StatusOr<std::shared_ptr<const Program>> program) mutable {
                         if (session.closed()) return done(closed());
                         if (!program.ok())
                           return done(parts_.losses.Explain(session, program.status()));
                         RunIn(request, session, call, *std::move(program), std::move(done));
                       });
}

void RunCalls::RunIn(RequestContext& request, Session& session, const ExecuteCall& call,
                     std::shared_ptr<const Program> program, RunDone done) {
  const uint64_t id = call.request_id;
  const Digest digest = program->digest;
  RunInput input{request,          std::move(program),         session.buffers(),
                 call.run,         LimitsOf(&session, id),     watch_,
                 parts_.task_pool, &parts_.clients.preemptible};
  const ProgramKey key{digest, call.wanted.options};
  session.NoteRun(digest);
  done = [this, &session, done = std::move(done)](absl::StatusOr<ExecuteResult> result) mutable {
    session.NoteRunEnd();
    if (!result.ok()) result = parts_.losses.Explain(session, result.status());
    done(std::move(result));
  };
  if (id == 0) return RunWithKept(std::move(input), session, key, std::move(done));
  auto found = session.results().Find(id, digest);
  if (!found.ok()) return done(found.status());
  if (*found != nullptr) return done(Repeat(session, id, **found));
  if (session.cancelled().Has(id)) return done(CancelledById(id));
  auto lost = std::make_unique<bool>(false);
  input.call.maybe_lost = lost.get();
  auto remember = [&session, id, digest, arguments = call.run.arguments, lost = std::move(lost),
                   done = std::move(done)](absl::StatusOr<ExecuteResult> result) mutable {
    if (*lost) {
      session.results().RememberLoss(
          id, digest,
          absl::DataLossError(
              Cat("request id (", id, ") was ended while it ran: ", StatusText(result.status()))));
    }
    if (result.ok()) {
      session.results().Remember(id, digest, *result, SourcesOf(session, arguments, *result));
    }
    if (result.ok() || *lost) session.cancelled().Done(id);
    done(std::move(result));
  };
  RunWithKept(std::move(input), session, key, std::move(remember));
}

std::shared_ptr<KeptRuns> RunCalls::KeptOf(Session& session) {
  // Only this function puts a Reclaimer there. Calls of a session come one at a time.
  if (auto found = session.kept()) return std::static_pointer_cast<KeptRuns>(found);
  auto made = std::make_shared<KeptRuns>(session.buffers(), session.shared_quota(),
                                         parts_.settings.kept_bytes(), parts_.clients.preemptible,
                                         shared_values_);
  session.set_kept(made);
  return made;
}

void RunCalls::RunWithKept(RunInput input, Session& session, const ProgramKey& key, RunDone done) {
  if (absl::Status loss = parts_.losses.Take(session); !loss.ok()) return done(std::move(loss));
  // Whatever has been checked, such a request takes no part in it.
  if (key.options.reproducible) return StartRun(std::move(input), std::move(done));
  const std::shared_ptr<KeptRuns> runs = KeptOf(session);
  auto [run, make, made] =
      runs->Begin(input.request.caller, key, input.program, input.call, kept_programs_);
  if (run) {
    auto kept = std::make_shared<KeptRun>(*std::move(run));  // lives until the run is done
    input.maybe_need_less = [kept, program = input.program, call = input.call](RunInput& in) {
      in.program = program;
      in.call.arguments = call.arguments;
      in.call.variables = call.variables;
      *kept = {};
    };
    input.program = kept->main;
    input.call.arguments = kept->arguments;
    input.call.variables = kept->variables;
    return StartRun(std::move(input),
                    [kept, done = std::move(done)](absl::StatusOr<ExecuteResult> result) mutable {
                      kept = nullptr;
                      done(std::move(result));
                    });
  }
  if (make) {
    done = [this, make = *std::move(make), made = std::move(made),
            done = std::move(done)](absl::StatusOr<ExecuteResult> result) mutable {
      // The daemon does not end before this work does, which begins while the call is still there.
      auto work = result.ok() ? parts_.gate.Begin() : absl::UnavailableError("the run failed");
      done(std::move(result));
      if (!work.ok()) return made(KeptMake::Outcome::kFailed);
      MakeKept(*std::move(work), std::move(make), std::move(made));
    };
  }
  StartRun(std::move(input), std::move(done));
}

void RunCalls::MakeKept(Work work, KeptMake make, KeptMake::Done made) {
  make.limits = LimitsOf(nullptr, 0);
  // limits.run_ms bounds the steps of a run, and not the pauses between them.
  make.limits.terms.limit *= kMostSlowdown;
  const Caller caller = make.caller;
  parts_.makings.Post(caller, [this, work = std::move(work), make = std::move(make),
                               made = std::move(made)]() mutable {
    StartKeptMake(std::move(make), watch_, parts_.makings,
                  [work = std::move(work),
                   made = std::move(made)](KeptMake::Outcome outcome) mutable { made(outcome); });
  });
}

absl::StatusOr<ExecuteResult> RunCalls::Repeat(Session& session, uint64_t request_id,
                                               const ResultMemory::Known& known) {
  UOPD_TRY(known.lost);
  if (known.maybe_result != nullptr) return *known.maybe_result;
  ExecuteResult out;
  const auto gone = [&](std::string_view why) {
    return absl::DataLossError(Cat("request id (", request_id, ") is done and its result (",
                                   known.bytes, " bytes) is no longer kept; ", why));
  };
  if (known.sources.empty()) return gone("it is not known from where to read it again");
  for (const ResultSource& source : known.sources) {
    if (source.handle == 0) {
      return gone("some of it was in no buffer: give such slots handles, and download them");
    }
    if (session.buffers().Version(source.handle) != source.version) {
      return gone(Cat("buffer ", source.handle,
                      " that it was in has changed since: download what "
                      "is needed before the next request writes there"));
    }
    std::string& data = out.data.emplace_back(source.bytes, '\0');
    UOPD_TRY(parts_.buffers.Read(session, source.handle, 0, std::span(data)));
  }
  return out;
}

void RunCalls::RunOnce(RequestContext& request, const ExecuteCall& call, Digest* digest,
                       RunDone done) {
  parts_.programs.With(
      request, nullptr, call,
      [this, &request, call, digest,
       done = std::move(done)](absl::StatusOr<std::shared_ptr<const Program>> program) mutable {
        if (!program.ok()) return done(program.status());
        *digest = (*program)->digest;
        auto memory =
            std::make_unique<CallMemory>(parts_.settings.session_bytes(), parts_.clients.bytes);
        BufferStore& buffers = memory->buffers;
        StartRun({request, *std::move(program), buffers, call.run, LimitsOf(nullptr, 0), watch_,
                  parts_.task_pool, &parts_.clients.preemptible},
                 [this, memory = std::move(memory),
                  done = std::move(done)](absl::StatusOr<ExecuteResult> result) mutable {
                   memory = nullptr;
                   if (!result.ok()) parts_.losses.Note();
                   done(std::move(result));
                 });
      });
}

RunTerms RunCalls::TermsOf(Session* maybe_session, uint64_t request_id) {
  RunTerms out;
  out.limit = parts_.settings.run_limit();
  out.has_id = request_id != 0;
  if (maybe_session == nullptr) return out;
  out.wanted = [this, maybe_session,
                request_id](std::optional<RunTerms::TimePoint> left) -> absl::Status {
    Session& session = *maybe_session;
    if (session.closed()) return NotFound(kSession, "session was closed while its request ran");
    if (request_id != 0 && session.cancelled().Has(request_id)) return CancelledById(request_id);
    // A client that has left for good. One that stays hears it with its next call.
    if (left && parts_.tenants.WasRemoved(session.tenant()))
      return absl::CancelledError("the tenant's tokens were removed while its request ran");
    if (!left || session.waited_for()) return absl::OkStatus();
    const auto grace = parts_.sessions.grace();
    if (Session::Clock::now() < std::max(*left, session.last_use()) + grace) {
      return absl::OkStatus();
    }
    return absl::CancelledError(
        Cat("client left and did not come back within session.grace_ms (", grace.count(), " ms)"));
  };
  return out;
}

RunLimits RunCalls::LimitsOf(Session* maybe_session, uint64_t request_id) {
  RunLimits out{parts_.settings.max_return_bytes(), parts_.settings.debug_level()};
  out.terms = TermsOf(maybe_session, request_id);
  return out;
}

}  // namespace uopd::engine
