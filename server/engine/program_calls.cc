// SPDX-License-Identifier: MIT
#include "server/engine/program_calls.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/telemetry/log.h"
#include "core/base/text.h"
#include "server/engine/report/kernel_texts.h"
#include "server/engine/run/streams.h"

namespace uopd::engine {
namespace {

// Larger graphs are hashed by a thread of a pool: gRPC's threads serve other calls, too.
constexpr size_t kMostHashedHere = 16 << 10;

std::shared_ptr<const Program> ProgramOf(RequestContext& request) {
  auto program = request.prepared->Get();
  request.cache.kernels_tuned = program->tuned_kernels;
  request.cache.kernels_draft = program->draft_kernels;
  return program;
}

}  // namespace

ResolvedRequest ProgramCalls::Resolve(const GraphRef& graph, const CompileOptions& options) {
  ResolvedRequest out{.graph = graph, .options = Resolved(options)};
  out.refused = Check(options, out.options);
  if (out.refused.ok() && graph.bytes.size() <= kMostHashedHere) parts_.compile.Find(out);
  return out;
}

CompileOptions ProgramCalls::Resolved(CompileOptions options) const {
  const bool tunes = parts_.compile.tunes() && !options.noopt && !options.reproducible;
  if (options.beam == 0 && tunes) options.beam = parts_.settings.beam();
  if (options.beam == 0) options.ignore_beam_cache = false;
  options.cache_level = std::min(options.cache_level, parts_.settings.cache_level());
  return options;
}

// Refuses an option that would be ignored. Otherwise the caller would measure something else than
// it asked for.
absl::Status ProgramCalls::Check(const CompileOptions& wanted,
                                 const CompileOptions& options) const {
  if (wanted.cache_level < 0 || wanted.cache_level > CompileOptions::kMaxCacheLevel) {
    return absl::InvalidArgumentError(Cat("cache_level (", wanted.cache_level, ") is outside 0 to ",
                                          CompileOptions::kMaxCacheLevel));
  }
  if (options.beam == 0) return absl::OkStatus();
  if (options.reproducible) {
    return absl::InvalidArgumentError(
        "a reproducible request has a beam, and tuned kernels may add up in another order");
  }
  if (options.beam < 0 || options.beam > CompileOptions::kMaxBeam) {
    return absl::InvalidArgumentError(
        Cat("beam (", options.beam, ") is outside 0 to ", CompileOptions::kMaxBeam));
  }
  if (options.noopt) return absl::InvalidArgumentError("noopt leaves nothing to tune with a beam");
  if (!parts_.compile.tunes()) {
    return absl::UnavailableError("this daemon has no worker processes, and only these can tune");
  }
  return absl::OkStatus();
}

void ProgramCalls::Prepare(RequestContext& request, ResolvedRequest wanted, Prepared done) {
  if (!wanted.refused.ok()) return done(wanted.refused);
  Begin(request, std::move(wanted), std::move(done));
}

void ProgramCalls::StartTune(RequestContext& request, TuneWish wish, TuneStarted done) {
  const CompileOptions options = Resolved(wish.options);
  absl::Status status = Check(wish.options, options);
  if (status.ok() && !parts_.compile.tunes())
    status = absl::UnavailableError("this daemon has no worker processes, and only these can tune");
  if (status.ok() && options.reproducible)
    status = absl::InvalidArgumentError("reproducible results cannot be tuned");
  if (!status.ok()) return done(std::move(status));
  wish.beam_is_default = wish.options.beam == 0;
  wish.options = options;
  parts_.compile.Post(request.caller,
                      [this, &request, wish = std::move(wish), done = std::move(done)]() mutable {
                        if (absl::Status over = request.Check(); !over.ok())
                          return done(std::move(over));
                        done(parts_.tune_operations.Start(request, wish));
                      });
}

std::shared_ptr<Preparation> ProgramCalls::Begin(RequestContext& request, ResolvedRequest wanted,
                                                 Prepared done) {
  if (absl::Status over = request.Check(); !over.ok()) return done(std::move(over)), nullptr;
  return parts_.compile.Begin(request, std::move(wanted),
                              [&request, done = std::move(done)](
                                  absl::StatusOr<std::shared_ptr<ProgramHandle>> made) mutable {
                                if (!made.ok()) return done(made.status());
                                request.prepared = *std::move(made);
                                done(ProgramOf(request));
                              });
}

void ProgramCalls::PrepareUnlessCancelled(RequestContext& request, Session& session, uint64_t id,
                                          ResolvedRequest wanted, Prepared run) {
  const auto cancellation = std::make_shared<Cancellation>();
  session.cancelled().Watch(id, cancellation);
  // The session, and what the call refers to, are valid until `run` is called.
  const auto preparation =
      Begin(request, std::move(wanted),
            [&session, id,
             run = std::move(run)](absl::StatusOr<std::shared_ptr<const Program>> program) mutable {
              session.cancelled().Unwatch(id);
              run(std::move(program));
            });
  cancellation->Watch([id, weak = std::weak_ptr(preparation)] {
    if (const auto waiting = weak.lock()) waiting->Leave(CancelledById(id));
  });
}

void ProgramCalls::With(RequestContext& request, Session* maybe_session, const ExecuteCall& call,
                        Prepared run) {
  absl::Status status = request.Check();
  if (status.ok()) status = call.wanted.refused;
  if (!status.ok()) return run(std::move(status));
  run = [this, &request,
         run = std::move(run)](absl::StatusOr<std::shared_ptr<const Program>> program) mutable {
    if (!program.ok()) return run(std::move(program));
    LogCode(request, *program);
    if (request.maybe_report == nullptr) return run(std::move(program));
    BeginReport(request, *std::move(program), std::move(run));
  };
  if (call.debug > 0 || call.profile) {
    request.maybe_report = std::make_shared<RunReport>();
    request.maybe_report->debug = call.debug;
    request.maybe_report->profile = call.profile;
  }
  ResolvedRequest wanted = call.wanted;
  const bool there = parts_.compile.FindFor(request, wanted);
  if (there && call.where == ExecuteCall::Where::kHere && &RunnerOf(request) == &parts_.task_pool) {
    return run(ProgramOf(request));
  }
  auto post = [this, &request, run = std::move(run)](
                  absl::StatusOr<std::shared_ptr<const Program>> program) mutable {
    if (!program.ok()) return run(std::move(program));
    RunnerOf(request).Post(request, [&request, run = std::move(run), program = *std::move(program),
                                     since = NowNs()]() mutable {
      request.timings.Add(Phase::kQueue, NowNs() - since);
      absl::Status wanted_still = request.Check();
      if (!wanted_still.ok()) return run(std::move(wanted_still));
      run(std::move(program));
    });
  };
  if (there) return post(ProgramOf(request));
  if (maybe_session != nullptr && call.request_id != 0)
    return PrepareUnlessCancelled(request, *maybe_session, call.request_id, std::move(wanted),
                                  std::move(post));
  Prepare(request, std::move(wanted), std::move(post));
}

void ProgramCalls::BeginReport(RequestContext& request, std::shared_ptr<const Program> program,
                               Prepared run) {
  const int debug = request.maybe_report->debug;
  if (debug < 2 && !request.maybe_report->profile) return run(std::move(program));
  parts_.compile.Post(request.caller, [this, &request, debug, program = std::move(program),
                                       run = std::move(run)]() mutable {
    RunReport& report = *request.maybe_report;
    for (DeviceState* device : program->devices) {
      std::vector<DtypeNumber> dtypes;
      for (const Step& step : program->steps) {
        if (step.kernel != nullptr && step.device == device) dtypes.push_back(step.kernel->dtype);
      }
      if (!dtypes.empty()) report.roofs[device->name()] = roofs_.Get(request, *device, dtypes);
    }
    if (debug >= 3) {
      Interrupt interrupt(request.limits());
      ExplainKernels(
          parts_.graph_compiler, *program, debug, RunReport::kMaxTextBytes, interrupt,
          [&](std::string_view, const std::string& text) { return report.AddText(text); });
    }
    RunnerOf(request).Post(
        request, [&request, program = std::move(program), run = std::move(run)]() mutable {
          absl::Status wanted_still = request.Check();
          if (!wanted_still.ok()) return run(std::move(wanted_still));
          run(std::move(program));
        });
  });
}

void ProgramCalls::LogCode(const RequestContext& request, std::shared_ptr<const Program> program) {
  constexpr size_t kMaxBytes = 64 << 10;  // of one form of one kernel
  const int debug = parts_.settings.debug_level();
  if (debug < 3 || !program->logged.First()) return;
  // Nothing waits for this task, so it may run when these calls are gone. What it uses outlives the
  // threads of compiles.
  parts_.compile.Post(request.caller, [&gate = parts_.gate, &graphs = parts_.graph_compiler, debug,
                                       program = std::move(program)] {
    Interrupt never({.cancelled = [&gate] { return gate.draining(); }});
    ExplainKernels(graphs, *program, debug, kMaxBytes, never,
                   [](std::string_view kernel, const std::string& text) {
                     UOPD_LOG(kInfo, "kernel code", {"name", kernel}, {"text", text});
                     return true;
                   });
  });
}

TaskPool& ProgramCalls::RunnerOf(const RequestContext& request) {
  const bool is_long = request.prepared != nullptr && request.prepared->Get()->IsLong();
  return is_long ? parts_.long_runs : parts_.task_pool;
}

bool ProgramCalls::IsQuick(const ResolvedRequest& wanted) {
  if (wanted.program == nullptr) return false;
  const auto program = wanted.program->Get();
  return program->quick && RunsInline(*program);
}

}  // namespace uopd::engine
