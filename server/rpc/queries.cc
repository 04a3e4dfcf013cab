// SPDX-License-Identifier: MIT
// The calls for operators and for debugging. They have no session and one message each way
// (UOPD_QUERY).
#include <algorithm>

#include "core/base/telemetry/log.h"
#include "server/engine/operate/clear_failures.h"
#include "server/rpc/call/calls.h"
#include "server/rpc/call/unary.h"
#include "server/rpc/service.h"

namespace uopd::rpc {

using engine::RequestContext;

namespace {

constexpr auto kHere = [] { return true; };        // takes microseconds
constexpr auto kElsewhere = [] { return false; };  // uses the store, or takes longer

uint64_t Size(int64_t v) { return static_cast<uint64_t>(std::max<int64_t>(v, 0)); }

void Describe(engine::Engine& engine, engine::DeviceState& state, v1::DeviceDescription& out) {
  const devices::Device& device = state.device();
  out.set_name(device.info().name);
  out.set_model(device.info().model);
  out.set_target(device.target().Key());
  const Speeds none = *Speeds::FromText("");
  const Speeds measured = engine.operate().speeds.Get(state).value_or(none);
  for (const Speeds::Field& field : Speeds::Fields()) {
    const double assumed = device.target().speeds.*field.value, found = measured.*field.value;
    if (assumed == 0 && found == 0) continue;
    v1::DeviceSpeed* speed = out.add_speeds();
    speed->set_name(std::string(field.name));
    speed->set_unit(std::string(field.unit));
    speed->set_assumed(assumed);
    speed->set_measured(found);
  }
}

engine::GraphRef GraphOf(const v1::GraphKey& key) { return {key.digest(), key.graph()}; }

}  // namespace

grpc::ServerUnaryReactor* Service::GetCacheStats(grpc::CallbackServerContext* context,
                                                 const v1::GetCacheStatsRequest* request,
                                                 v1::GetCacheStatsResponse* response) {
  return Serve(engine_, {context, Method::kGetCacheStats, *request, *response, watch_}, kElsewhere,
               [=, this](RequestContext&) {
                 const cache::Health health = engine_.store().health();
                 response->set_state(cache::Name(health.state));
                 response->set_reason(health.reason);
                 uint64_t bytes = 0;
                 for (const cache::StatsSnapshot& stats : engine_.store().stats().Snapshot()) {
                   v1::StoreStats* out = response->add_stores();
                   out->set_store(stats.store);
                   out->set_rows(Size(stats.rows));
                   out->set_bytes(Size(stats.bytes));
                   out->set_hits(Size(stats.hits));
                   out->set_misses(Size(stats.misses));
                   out->set_corrupt(Size(stats.corrupt));
                   out->set_key_mismatches(Size(stats.mismatches));
                   out->set_puts(Size(stats.puts));
                   out->set_evictions(Size(stats.evictions));
                   bytes += Size(stats.bytes);
                 }
                 response->set_file_bytes(bytes);
                 response->set_max_bytes(Size(engine_.store().max_bytes()));
                 return absl::OkStatus();
               });
}

grpc::ServerUnaryReactor* Service::DescribeDevices(grpc::CallbackServerContext* context,
                                                   const v1::DescribeDevicesRequest* request,
                                                   v1::DescribeDevicesResponse* response) {
  return Serve(engine_, {context, Method::kDescribeDevices, *request, *response, watch_},
               kElsewhere, [=, this](RequestContext&) {
                 for (const std::string& name : engine_.devices().names()) {
                   const auto device = engine_.devices().Get(name);
                   if (device.ok()) Describe(engine_, **device, *response->add_devices());
                 }
                 return absl::OkStatus();
               });
}

grpc::ServerUnaryReactor* Service::ExplainCache(grpc::CallbackServerContext* context,
                                                const v1::ExplainCacheRequest* request,
                                                v1::ExplainCacheResponse* response) {
  return Serve(engine_, {context, Method::kExplainCache, *request, *response, watch_}, kElsewhere,
               [=, this](RequestContext& call) -> absl::Status {
                 UOPD_ASSIGN(
                     const engine::KeyExplanation found,
                     engine_.explainer().Explain(call, GraphOf(request->a()), GraphOf(request->b()),
                                                 ToCompileOptions(request->options())));
                 response->set_digest_a(std::string(found.a.view()));
                 response->set_cached(found.cached);
                 if (found.has_b) response->set_digest_b(std::string(found.b.view()));
                 response->set_search_refused(found.search_refused);
                 response->set_similarity(found.similarity);
                 for (const ir::Difference& difference : found.differences) {
                   v1::KeyDifference* out = response->add_differences();
                   out->set_path(difference.path);
                   out->set_field(difference.field);
                   out->set_a(difference.a);
                   out->set_b(difference.b);
                   out->set_node_a(difference.node_a);
                   out->set_node_b(difference.node_b);
                 }
                 return absl::OkStatus();
               });
}

grpc::ServerUnaryReactor* Service::ListQuarantine(grpc::CallbackServerContext* context,
                                                  const v1::ListQuarantineRequest* request,
                                                  v1::ListQuarantineResponse* response) {
  return Serve(engine_, {context, Method::kListQuarantine, *request, *response, watch_}, kHere,
               [=, this](RequestContext&) {
                 for (const auto& failure : engine_.failures().List()) {
                   v1::QuarantinedJob* out = response->add_jobs();
                   out->set_id(failure.key.Hex());
                   out->set_pool(Name(failure.kind));
                   out->set_reason(ClientText(StatusText(failure.status)));
                   out->set_since_unix_s(Size(failure.since_us / 1'000'000));
                   out->set_passing(true);
                 }
                 if (engine_.workers() == nullptr) return absl::OkStatus();
                 for (const auto& job : engine_.workers()->ListQuarantine()) {
                   v1::QuarantinedJob* out = response->add_jobs();
                   out->set_id(job.entry.job.Hex());
                   out->set_pool(job.pool);
                   out->set_reason(job.entry.reason);
                   out->set_since_unix_s(Size(job.entry.since_s));
                   out->set_passing(job.entry.passing());
                 }
                 return absl::OkStatus();
               });
}

grpc::ServerUnaryReactor* Service::ClearQuarantine(grpc::CallbackServerContext* context,
                                                   const v1::ClearQuarantineRequest* request,
                                                   v1::ClearQuarantineResponse* response) {
  return Serve(engine_, {context, Method::kClearQuarantine, *request, *response, watch_},
               kElsewhere, [=, this](RequestContext&) -> absl::Status {
                 UOPD_ASSIGN(
                     const size_t cleared,
                     engine::ClearFailures(engine_.failures(), engine_.workers(), request->id()));
                 response->set_cleared(cleared);
                 return absl::OkStatus();
               });
}

}  // namespace uopd::rpc
