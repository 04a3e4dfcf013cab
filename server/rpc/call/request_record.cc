// SPDX-License-Identifier: MIT
#include "server/rpc/call/request_record.h"

#include <array>
#include <atomic>
#include <string>

#include "absl/strings/str_format.h"
#include "core/base/telemetry/log.h"
#include "core/base/telemetry/log_limiter.h"
#include "core/base/telemetry/metrics.h"
#include "server/engine/base/not_found.h"
#include "server/engine/compile/program/program.h"
#include "server/engine/usage/tenant_usage.h"

namespace uopd::rpc {
namespace {

constexpr size_t kCodes = 17;
constexpr int kLinesASecond =
    10;  // of each kind: clients decide how many calls fail, and how many are slow
static_assert(kMethods.size() <= engine::TenantUse::kMethods);

// Looking up a series takes a lock, so each series is looked up only once.
Histogram& DurationOf(Method method, absl::StatusCode code) {
  static std::array<std::atomic<Histogram*>, kMethods.size() * kCodes> series{};
  auto& slot = series[static_cast<size_t>(method) * kCodes + static_cast<size_t>(code)];
  Histogram* found = slot.load(std::memory_order_acquire);
  if (found == nullptr) {
    const std::string name = absl::StatusCodeToString(code);
    found = &metrics::RpcDuration({Info(method).name, name});
    slot.store(found, std::memory_order_release);
  }
  return *found;
}

Counter& FaultsOf(Method method) { return metrics::RpcFaults({Info(method).name}); }

std::string ProgramOf(const engine::RequestContext& request) {
  return request.prepared == nullptr ? "" : engine::ProgramName(request.prepared->Get()->digest);
}

// The client decides, in part, the texts of its errors.
void LogFailure(std::string_view method, const engine::RequestContext& request, int64_t ns,
                const absl::Status& status) {
  static LogLimiter refused(kLinesASecond), failed(kLinesASecond);
  // A client first asks by digest. That the daemon does not know a program yet is no failure for
  // operators to read about.
  if (engine::MissingKind(status) == engine::kProgram && !LogEnabled(LogLevel::kDebug)) return;
  const bool ours = absl::IsInternal(status) || absl::IsDataLoss(status);
  uint64_t dropped = 0;
  if (!LogEnabled(LogLevel::kDebug) && !(ours ? failed : refused).Take(&dropped)) return;
  const std::string text = ClientText(status.ToString());
  if (ours) {
    UOPD_LOG(kError, "rpc", {"method", method}, {"req", request.id},
             {"trace", request.trace.trace_id}, {"tenant", request.caller.tenant},
             {"us", ns / 1000}, {"status", text}, {"dropped", dropped});
  } else {
    UOPD_LOG(kInfo, "rpc", {"method", method}, {"req", request.id},
             {"trace", request.trace.trace_id}, {"tenant", request.caller.tenant},
             {"us", ns / 1000}, {"status", text}, {"dropped", dropped});
  }
}

void LogSlow(std::string_view method, const engine::RequestContext& request, int64_t ns,
             absl::StatusCode code) {
  static LogLimiter slow(kLinesASecond);
  metrics::SlowRequests({method}).Increment();
  uint64_t dropped = 0;
  if (!slow.Take(&dropped)) return;
  const PhaseTimings& timings = request.timings;
  // A phase that took no time is left out of the line.
  const auto us = [&](Phase phase) {
    return timings[phase] > 0 ? absl::StrFormat("%d", timings[phase] / 1000) : std::string();
  };
  UOPD_LOG(kWarn, "slow request", {"method", method}, {"req", request.id},
           {"trace", request.trace.trace_id}, {"tenant", request.caller.tenant}, {"us", ns / 1000},
           {"code", absl::StatusCodeToString(code)}, {"program", ProgramOf(request)},
           {"queue_us", us(Phase::kQueue)}, {"verify_us", us(Phase::kVerify)},
           {"schedule_us", us(Phase::kSchedule)}, {"codegen_us", us(Phase::kCodegen)},
           {"render_us", us(Phase::kRender)}, {"compile_us", us(Phase::kCompile)},
           {"load_us", us(Phase::kLoad)}, {"tune_us", us(Phase::kTune)},
           {"copy_us", us(Phase::kCopy)}, {"run_us", us(Phase::kRun)}, {"dropped", dropped});
}

}  // namespace

void ShowFaults() {
  for (size_t i = 0; i < kMethods.size(); ++i) FaultsOf(static_cast<Method>(i));
}

void RecordEnd(const engine::Engine& engine, Method method, engine::RequestContext& request,
               const absl::Status& status) {
  const int64_t ns = NowNs() - request.start_ns;
  const ExemplarId id = request.exemplar();
  const MethodInfo& info = Info(method);
  DurationOf(method, status.code()).Observe(static_cast<double>(ns) * 1e-9, id);
  const engine::Outcome outcome = engine::OutcomeOf(status.code());
  if (outcome == engine::Outcome::kFailed) FaultsOf(method).Increment();
  request.timings.Observe(id);
  engine::TenantUse& tenant = engine::TenantUse::Of(request.caller.tenant);
  tenant.Count(static_cast<size_t>(method), info.name, status.code());
  if (AsksForProgram(method)) {
    const auto parts = engine::RequestParts::Of(ns, request.timings);
    tenant.AddWork(parts);
    if (request.prepared != nullptr) request.prepared->use().Add(outcome, parts);
  }
  // The time of a stream is up to its client.
  if (const int64_t slow_ns = engine.settings().slow_ns();
      slow_ns > 0 && ns > slow_ns && !info.stream)
    LogSlow(info.name, request, ns, status.code());
  if (!status.ok()) return LogFailure(info.name, request, ns, status);
  UOPD_LOG(kDebug, "rpc", {"method", info.name}, {"req", request.id},
           {"trace", request.trace.trace_id}, {"tenant", request.caller.tenant}, {"us", ns / 1000});
}

void RecordWire(const engine::RequestContext& request, int64_t ns) {
  static Histogram& wire = metrics::PhaseDuration({"wire"});
  // Nobody looks for a write that was quick, and every answer has one.
  constexpr int64_t kQuickNs = 1'000'000;
  wire.Observe(static_cast<double>(ns) * 1e-9, ns < kQuickNs ? ExemplarId() : request.exemplar());
  engine::TenantUse::Of(request.caller.tenant).AddWire(ns);
}

}  // namespace uopd::rpc
