// SPDX-License-Identifier: MIT
// The calls of operators about the daemon as a whole: how it is, who uses it, its settings, its
// log, its end.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <string>

#include "core/base/telemetry/log.h"
#include "core/base/telemetry/log_tail.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "server/rpc/cache/cache_messages.h"
#include "server/rpc/call/calls.h"
#include "server/rpc/call/unary.h"
#include "server/rpc/service.h"

namespace uopd::rpc {

using engine::DaemonStatus;
using engine::RequestContext;

namespace {

constexpr auto kInPool = [] { return false; };  // takes locks of others, or copies much
constexpr size_t kMostSessions = 1000;

uint64_t FromSigned(int64_t value) { return static_cast<uint64_t>(std::max<int64_t>(value, 0)); }

double InSeconds(std::chrono::nanoseconds time) {
  return std::max(std::chrono::duration<double>(time).count(), 0.0);
}

void FillCounts(const engine::ClusterStatus::Counts& counts,
                google::protobuf::RepeatedPtrField<v1::NamedCount>* out) {
  for (const auto& [name, count] : counts) {
    v1::NamedCount* one = out->Add();
    one->set_name(name);
    one->set_count(count);
  }
}

void FillCluster(const engine::ClusterStatus& cluster, v1::ClusterStatus* out) {
  out->set_configured(cluster.configured);
  out->set_reachable(cluster.reachable);
  out->set_too_slow(cluster.too_slow);
  out->set_can_put(cluster.can_put);
  out->set_daemons(cluster.daemons);
  out->set_queue_bytes(cluster.queue_bytes);
  out->set_last_error(Printable(cluster.last_error));
  out->set_last_error_unix_us(FromSigned(cluster.last_error_us));
  FillCounts(cluster.lookups, out->mutable_lookups());
  FillCounts(cluster.puts, out->mutable_puts());
  FillCounts(cluster.refused, out->mutable_refused());
}

void FillDevices(const DaemonStatus& status, v1::GetStatusResponse* out) {
  for (const DaemonStatus::Device& device : status.devices) {
    v1::DeviceStatus* one = out->add_devices();
    one->set_name(device.name);
    one->set_state(Name(device.readiness));
    one->set_reason(Printable(device.reason));
    one->set_used_bytes(device.memory.used_bytes);
    one->set_pooled_bytes(device.memory.pooled_bytes);
    one->set_most_bytes(device.memory.limit_bytes);
  }
}

void FillWorkers(const DaemonStatus& status, v1::GetStatusResponse* out) {
  for (const auto& [pool, stats] : status.workers) {
    v1::WorkerStatus* one = out->add_workers();
    one->set_pool(pool);
    one->set_busy(static_cast<uint32_t>(std::max(stats.workers - stats.idle, 0)));
    one->set_idle(static_cast<uint32_t>(std::max(stats.idle, 0)));
    one->set_done(stats.done);
    one->set_failed(stats.failed);
    one->set_crashed(stats.crashed);
    one->set_timed_out(stats.timed_out);
    one->set_refused(stats.refused);
    one->set_lost(stats.lost_busy);
    if (const auto found = status.quarantined.find(pool); found != status.quarantined.end())
      one->set_quarantined(found->second);
  }
}

// The counts are those of the metrics.
void FillContents(const DaemonStatus::Contents& contents, v1::ContentStatus* out) {
  out->set_memory_bytes(FromSigned(contents.memory_bytes));
  out->set_used_bytes(FromSigned(contents.used_bytes));
  out->set_most_memory_bytes(FromSigned(contents.most_memory_bytes));
  out->set_memory_contents(contents.memory_contents);
  out->set_disk_bytes(FromSigned(contents.disk_bytes));
  out->set_most_disk_bytes(FromSigned(contents.most_disk_bytes));
  out->set_disk_contents(contents.disk_contents);
  out->set_opened(metrics::ContentOpens({"memory"}).value() +
                  metrics::ContentOpens({"disk"}).value());
  out->set_needed(metrics::ContentOpens({"needed"}).value());
  out->set_added(metrics::ContentOpens({"added"}).value());
  out->set_evicted(metrics::ContentEvictions({"memory"}).value() +
                   metrics::ContentEvictions({"disk"}).value());
  out->set_damaged(metrics::ContentDamaged().value());
}

void FillStatus(const DaemonStatus& status, v1::GetStatusResponse* out) {
  out->set_state(Name(status.state));
  for (const std::string& reason : status.reasons) out->add_reasons(Printable(reason));
  out->set_started_unix_us(FromSigned(status.started_us));
  FillDevices(status, out);
  out->set_sessions(status.sessions);
  out->set_most_sessions(status.most_sessions);
  for (const DaemonStatus::Pool& pool : status.pools) {
    v1::PoolStatus* one = out->add_pools();
    one->set_name(pool.name);
    one->set_waiting(pool.waiting);
    one->set_busy(static_cast<uint32_t>(pool.busy));
    one->set_threads(static_cast<uint32_t>(pool.threads));
  }
  out->set_client_bytes(FromSigned(status.client_bytes));
  out->set_most_client_bytes(FromSigned(status.most_client_bytes));
  out->set_resident_bytes(FromSigned(status.resident_bytes));
  out->set_cache_state(cache::Name(status.cache.state));
  out->set_cache_reason(Printable(status.cache.reason));
  out->set_cache_bytes(FromSigned(status.cache_bytes));
  out->set_most_cache_bytes(FromSigned(status.most_cache_bytes));
  FillContents(status.contents, out->mutable_contents());
  FillCluster(status.cluster, out->mutable_cluster());
  FillWorkers(status, out);
  out->set_recent_failures(status.recent_failures);
}

}  // namespace

grpc::ServerUnaryReactor* Service::GetStatus(grpc::CallbackServerContext* context,
                                             const v1::GetStatusRequest* request,
                                             v1::GetStatusResponse* response) {
  return Serve(engine_, {context, Method::kGetStatus, *request, *response, watch_}, kInPool,
               [=, this](RequestContext&) {
                 response->set_version(UOPD_VERSION);
                 response->set_instance(engine_.instance());
                 response->set_pid(getpid());
                 FillStatus(engine_.health().Status(), response);
                 return absl::OkStatus();
               });
}

grpc::ServerUnaryReactor* Service::ListSessions(grpc::CallbackServerContext* context,
                                                const v1::ListSessionsRequest* request,
                                                v1::ListSessionsResponse* response) {
  return Serve(
      engine_, {context, Method::kListSessions, *request, *response, watch_}, kInPool,
      [=, this](RequestContext&) {
        const size_t most =
            request->most() == 0 ? kMostSessions : std::min<size_t>(request->most(), kMostSessions);
        size_t left_out = 0;
        for (const auto& session : engine_.sessions().List(request->tenant(), most, &left_out)) {
          v1::SessionStatus* out = response->add_sessions();
          out->set_id_prefix(session.id_prefix);
          out->set_tenant(session.tenant);
          out->set_peer(session.peer);
          out->set_age_seconds(InSeconds(session.age));
          out->set_idle_seconds(InSeconds(session.idle));
          out->set_ttl_seconds(InSeconds(session.ttl));
          out->set_buffers(session.buffers);
          out->set_bytes(FromSigned(session.bytes));
          out->set_calls(static_cast<uint32_t>(std::max(session.calls, 0)));
          out->set_running(session.running);
          out->set_running_seconds(InSeconds(session.running_for));
        }
        response->set_left_out(left_out);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* Service::ListSettings(grpc::CallbackServerContext* context,
                                                const v1::ListSettingsRequest* request,
                                                v1::ListSettingsResponse* response) {
  return Serve(engine_, {context, Method::kListSettings, *request, *response, watch_}, kInPool,
               [=, this](RequestContext&) {
                 for (const engine::SettingView& setting : engine_.settings().InEffect()) {
                   v1::Setting* out = response->add_settings();
                   out->set_key(std::string(setting.key));
                   out->set_value(Printable(setting.value));
                   out->set_source(ConfigSourceName(setting.source));
                   out->set_default_value(setting.default_value);
                   out->set_reloadable(setting.reloadable);
                 }
                 return absl::OkStatus();
               });
}

grpc::ServerUnaryReactor* Service::GetCluster(grpc::CallbackServerContext* context,
                                              const v1::GetClusterRequest* request,
                                              v1::GetClusterResponse* response) {
  return Serve(engine_, {context, Method::kGetCluster, *request, *response, watch_}, kInPool,
               [=, this](RequestContext&) {
                 FillCluster(engine::ClusterStatusOf(engine_.store().maybe_cluster()),
                             response->mutable_cluster());
                 return absl::OkStatus();
               });
}

grpc::ServerUnaryReactor* Service::GetLogTail(grpc::CallbackServerContext* context,
                                              const v1::GetLogTailRequest* request,
                                              v1::GetLogTailResponse* response) {
  return Serve(engine_, {context, Method::kGetLogTail, *request, *response, watch_}, kInPool,
               [=](RequestContext&) {
                 const size_t most =
                     request->most_lines() == 0 ? LogTail::kMostLines : request->most_lines();
                 for (const std::string& line : LogTail::Global().Latest(most))
                   response->add_lines(Printable(line));
                 return absl::OkStatus();
               });
}

// The main thread waits for the signal. The call itself is work that the drain waits for, so the
// answer leaves before the end.
grpc::ServerUnaryReactor* Service::Drain(grpc::CallbackServerContext* context,
                                         const v1::DrainRequest* request,
                                         v1::DrainResponse* response) {
  return Serve(engine_, {context, Method::kDrain, *request, *response, watch_}, kInPool,
               [=, this](RequestContext& call) -> absl::Status {
                 if (request->instance() != engine_.instance()) {
                   return absl::FailedPreconditionError(
                       "the daemon is another one than the request names: it was restarted");
                 }
                 response->set_timeout_seconds(InSeconds(engine_.settings().drain_timeout()));
                 // A second signal would end the process at once; somebody else may have sent the
                 // first one.
                 static std::atomic<bool> asked{false};
                 if (engine_.gate().leaving() || asked.exchange(true)) return absl::OkStatus();
                 UOPD_LOG(kInfo, "an operator asks for the end", {"tenant", call.caller.tenant});
                 if (kill(getpid(), SIGTERM) == 0) return absl::OkStatus();
                 asked = false;
                 return absl::InternalError("the process cannot signal itself");
               });
}

}  // namespace uopd::rpc
