// SPDX-License-Identifier: MIT
#include "server/engine/run/run_service.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/telemetry/log.h"
#include "core/base/text.h"
#include "server/engine/report/run_text.h"
#include "server/engine/run/binding.h"
#include "server/engine/run/give_way.h"
#include "server/engine/run/steps.h"

namespace uopd::engine {
namespace {

// A run that finds no memory again and again, since other work takes it first, fails.
constexpr int kMostBeginsAgain = 4;

// Counts the kernels, and writes a log line for each from log level 2 on.
void Count(const Program& program, std::span<const int64_t> durations_ns, int log_level) {
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    if (step.kernel == nullptr || durations_ns[i] == kNotMeasured) continue;
    const auto ns = static_cast<double>(std::max<int64_t>(durations_ns[i], 1));
    step.device->kernel_duration().Observe(ns * 1e-9);
    if (step.kernel->use != nullptr)
      step.kernel->use->Add(ns, step.kernel->bytes, step.kernel->gain);
    if (log_level < 2) continue;
    UOPD_LOG(kInfo, "kernel", {"step", i}, {"name", step.kernel->name}, {"us", ns * 1e-3},
             {"gflops", step.kernel->flops / ns}, {"gbytes", step.kernel->bytes / ns});
  }
}

absl::Status CheckTime(const Program& program, std::chrono::milliseconds limit) {
  if (limit.count() == 0 || program.least_ns * 1e-6 <= static_cast<double>(limit.count())) {
    return absl::OkStatus();
  }
  const Step& longest = *std::max_element(
      program.steps.begin(), program.steps.end(), [](const Step& a, const Step& b) {
        return (a.kernel ? a.kernel->flops : 0) < (b.kernel ? b.kernel->flops : 0);
      });
  return absl::ResourceExhaustedError(
      Cat("run needs at least ", program.least_ns * 1e-9, " s, most of it in kernel ",
          longest.kernel->name, " (", longest.kernel->flops,
          " operations), and limits.run_ms allows ", limit.count(), " ms"));
}

// One run. Its owner is first the thread that starts it, and later the streams.
class Run : public std::enable_shared_from_this<Run> {
 public:
  Run(RunInput input, RunDone done) : in_(std::move(input)), done_(std::move(done)) {}

  void Start() {
    const uint64_t ends = in_.maybe_preemptible == nullptr ? 0 : in_.maybe_preemptible->ends();
    if (absl::Status status = Bind(); !status.ok()) {
      if (!absl::IsResourceExhausted(status) || !BeginsAgain(ends)) End(std::move(status));
      return;
    }
    queued_ = Queue();
    if (!RunsInline(*in_.program)) StampSteps();
    if (queued_.ok()) queued_ = QueueResults();
    // Also after an error: what was queued still uses the buffers and still writes the durations.
    absl::Status worked;
    const bool all_done =
        streams_->DoneOr(&worked, [self = shared_from_this()](const absl::Status& status) {
          self->in_.task_pool.Post(self->in_.request.caller,
                                   [self, status] { self->Finish(status); });
        });
    if (all_done) Finish(worked);
  }

 private:
  // Calls Start once more if there may be memory then. `ends`: of preempted work, before the run
  // looked for memory.
  bool BeginsAgain(uint64_t ends) {
    if (in_.maybe_need_less) {
      std::exchange(in_.maybe_need_less, nullptr)(in_);
      Start();
      return true;
    }
    if (in_.maybe_preemptible == nullptr || ++begins_again_ > kMostBeginsAgain) return false;
    const bool waits = in_.maybe_preemptible->AfterPreempted([self = shared_from_this()] {
      self->in_.task_pool.Post(self->in_.request.caller, [self] { self->Start(); });
    });
    if (waits) return true;
    if (in_.maybe_preemptible->ends() == ends) return false;
    Start();
    return true;
  }

  absl::Status Bind() {
    UOPD_TRY(in_.request.Check());
    UOPD_TRY(CheckTime(*in_.program, in_.limits.terms.limit));
    UOPD_ASSIGN(Streams streams, Streams::Take(*in_.program));
    streams_.emplace(std::move(streams));
    auto binding = Binding::Bind(*in_.program, in_.buffers, *streams_, in_.call, in_.limits);
    if (!binding.ok()) streams_->GiveBack();  // nothing was queued
    UOPD_TRY(binding.status());
    binding_.emplace(*std::move(binding));
    return absl::OkStatus();
  }

  absl::Status Queue() {
    const Program& program = *in_.program;
    const int64_t start_ns = NowNs();
    absl::Status filled = binding_->Fill(*streams_);
    steps_begin_ns_ = steps_end_ns_ = NowNs();
    in_.request.timings.Add(Phase::kCopy, steps_begin_ns_ - start_ns);
    UOPD_TRY(std::move(filled));
    control_.emplace(in_.watch, in_.request, in_.limits.terms, program.may_be_long);
    if (!in_.request.background) client_run_.emplace(program);
    durations_ns_.resize(program.steps.size(), 0);
    const bool measured = in_.request.maybe_report != nullptr || in_.limits.log_level >= 2;
    absl::Status status = QueueSteps(program, *binding_, in_.call.variables, *streams_, *control_,
                                     std::span(durations_ns_.data(), durations_ns_.size()),
                                     measured, in_.request.background, &begun_);
    if (status.ok()) status = binding_->FreeTemporaries(*streams_);
    steps_end_ns_ = NowNs();
    return status;
  }

  // Records when the steps are done, which is later than when they are queued.
  void StampSteps() {
    absl::Status worked;
    const bool all_done = streams_->DoneOr(
        &worked,
        [self = shared_from_this()](const absl::Status&) { self->steps_end_ns_ = NowNs(); });
    if (all_done) steps_end_ns_ = NowNs();
  }

  absl::Status QueueResults() {
    const std::span<const Argument> arguments = in_.call.arguments;
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].return_data) continue;
      result_.data.emplace_back(binding_->buffer(i)->size(), '\0');
    }
    // All strings exist now. Queued copies may write them later, so they must not move.
    auto data = result_.data.begin();
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].return_data) continue;
      std::string& to = *data++;
      if (to.empty()) continue;
      UOPD_TRY(streams_->Of(in_.program->slots[i].device)
                   .CopyOut(*binding_->buffer(i), 0, std::as_writable_bytes(std::span(to))));
    }
    return absl::OkStatus();
  }

  // Called when all queued work is done. `worked`: OK, or the error of a device.
  void Finish(const absl::Status& worked) {
    const Program& program = *in_.program;
    absl::Status status = queued_.ok() ? worked : queued_;
    const int64_t steps_ns = steps_end_ns_ - steps_begin_ns_;
    in_.request.timings.Add(Phase::kRun, steps_ns);
    in_.request.timings.Add(Phase::kCopy, NowNs() - steps_end_ns_);
    if (!status.ok()) return End(Failed(std::move(status), worked));
    Count(program, durations_ns_, in_.limits.log_level);
    Report(steps_ns);
    program.run_time.Add(steps_ns);
    streams_->GiveBack();
    status = binding_->Commit();
    if (!status.ok()) return End(std::move(status));
    in_.buffers.Free(in_.call.free_buffers);
    End(std::move(result_));
  }

  // What the client asked to know. It travels in the same message as the returned data.
  void Report(int64_t steps_ns) {
    RunReport* const report = in_.request.maybe_report.get();
    if (report == nullptr) return;
    int64_t room = in_.limits.max_return_bytes;
    for (const std::string& data : result_.data) room -= static_cast<int64_t>(data.size());
    ReportRun(*in_.program, durations_ns_, steps_ns, *report);
    report->Shorten(static_cast<size_t>(std::max<int64_t>(room, 0)));
  }

  // `worked`: as Finish.
  absl::Status Failed(absl::Status status, const absl::Status& worked) {
    if (!control_) return status;  // Fill failed, and has said what is lost
    // A stopped kernel only reports that it was stopped. The caller wants to know the reason.
    const absl::Status why = control_->Why();
    // The data came before the steps, so a run that was stopped has them.
    const bool data_arrived = worked.ok() || !why.ok();
    if (begun_ > 0) {
      if (!why.ok()) status = why;
      const Step& last = in_.program->steps[begun_ - 1];
      status =
          WithFrame(status, last.kernel == nullptr ? Cat("copying in step ", begun_ - 1)
                                                   : Cat("running kernel ", last.kernel->name));
    }
    return binding_->Lose(begun_, data_arrived, std::move(status));
  }

  // Gives back what belongs to the session and to the daemon, before `done`: both may be destroyed
  // once `done` was called.
  void End(absl::StatusOr<ExecuteResult> result) {
    control_.reset();
    client_run_.reset();
    binding_.reset();
    streams_.reset();
    in_.program = nullptr;
    std::exchange(done_, nullptr)(std::move(result));
  }

  RunInput in_;
  RunDone done_;
  std::optional<Streams> streams_;
  std::optional<Binding> binding_;
  std::optional<ClientRun> client_run_;
  std::optional<RunControl> control_;  // set from the first step on
  absl::InlinedVector<int64_t, 16> durations_ns_;
  ExecuteResult result_;
  absl::Status queued_;  // the first error of queueing
  size_t begun_ = 0;     // steps that may have written something
  int begins_again_ = 0;
  int64_t steps_begin_ns_ = 0;
  std::atomic<int64_t> steps_end_ns_{0};
};

}  // namespace

void StartRun(RunInput input, RunDone done) {
  std::make_shared<Run>(std::move(input), std::move(done))->Start();
}

}  // namespace uopd::engine
