// SPDX-License-Identifier: MIT
#include "server/rpc/call/call_scope.h"

#include <atomic>
#include <iterator>

#include "absl/strings/str_format.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "server/rpc/call/request_record.h"
#include "server/rpc/call/status.h"

namespace uopd::rpc {
namespace {

Gauge& InFlight() {
  static Gauge& gauge = metrics::RpcInFlight();
  return gauge;
}

std::string RequestId(const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  if (auto it = metadata.find("x-request-id"); it != metadata.end() && it->second.size() <= 64) {
    return {it->second.data(), it->second.size()};
  }
  static std::atomic<uint64_t> next{1};
  return absl::StrFormat("%x", next.fetch_add(1, std::memory_order_relaxed));
}

// The trace that the caller names. Empty unless there is exactly one valid header.
TraceParent TraceOf(const grpc::CallbackServerContext& context) {
  const auto [first, last] = context.client_metadata().equal_range("traceparent");
  if (first == last || std::next(first) != last) return {};
  return TraceParent::Parse({first->second.data(), first->second.size()}).value_or(TraceParent());
}

}  // namespace

engine::RequestContext ContextOf(grpc::CallbackServerContext& context) {
  engine::RequestContext out;
  const auto deadline = context.deadline();  // by the system's clock
  if (deadline != std::chrono::system_clock::time_point::max()) {
    out.deadline =
        engine::RequestContext::Clock::now() + (deadline - std::chrono::system_clock::now());
  }
  out.cancelled = [&context] { return context.IsCancelled(); };
  return out;
}

std::string PeerOf(const grpc::CallbackServerContext& context) {
  // Forms: ipv4:127.0.0.1:4711, ipv6:[::1]:4711, or unix: with or without a path.
  const std::string address = context.peer();
  return address.starts_with("unix") ? "unix" : address.substr(0, address.rfind(':'));
}

absl::StatusOr<std::string> TenantOf(const engine::Engine& engine,
                                     const grpc::CallbackServerContext& context) {
  const auto tenants = engine.tenants().Now();
  if (!tenants->required()) return "";
  const auto it = context.client_metadata().find("authorization");
  if (it == context.client_metadata().end()) return tenants->Authenticate("");
  return tenants->Authenticate({it->second.data(), it->second.size()});
}

void NameCaller(const grpc::CallbackServerContext& context, std::string_view session,
                engine::Caller& caller) {
  caller.peer = PeerOf(context);
  caller.flow = session.empty() ? context.peer() : std::string(session);
}

absl::Status AdmitCall(engine::Engine& engine, const grpc::CallbackServerContext& context) {
  engine::PeerRates& rates = engine.clients().rates;
  return rates.limited() ? rates.Take(PeerOf(context), NowNs()) : absl::OkStatus();
}

absl::Status RefuseCall(engine::Engine& engine, const grpc::CallbackServerContext& context,
                        absl::Status why) {
  engine::PeerRates& rates = engine.clients().rates;
  if (rates.limited()) UOPD_TRY(rates.Take(Cat(PeerOf(context), ", refused"), NowNs()));
  return why;
}

int64_t BytesOf(const google::protobuf::Message& message) {
  constexpr size_t kCarriers = 512;
  return static_cast<int64_t>(kCarriers + message.SpaceUsedLong());
}

CallScope::CallScope(engine::Engine& engine, grpc::CallbackServerContext& context, Method method)
    : engine_(engine), method_(method), token_(engine, context), request_(ContextOf(context)) {
  request_.id = RequestId(context);
  request_.trace = TraceOf(context);
  InFlight().Add(1);
  auto tenant = TenantOf(engine, context);
  if (!tenant.ok()) {
    admitted_ = RefuseCall(engine, context, tenant.status());
    return;
  }
  const Audience audience = Info(method).audience;
  const bool is_operator = OperatorsSeeAll(audience) && engine.tenants().Now()->IsOperator(*tenant);
  if (audience == Audience::kOperator && !is_operator) {
    admitted_ = RefuseCall(engine, context,
                           absl::PermissionDeniedError(
                               Cat(*tenant, " is no operator of this daemon (server.operators)")));
    return;
  }
  request_.caller.tenant = *std::move(tenant);
  request_.caller.sees_all = is_operator;
  auto work = engine.gate().Begin();
  admitted_ = work.status();
  if (!work.ok()) return;
  work_ = *std::move(work);
  admitted_ = AdmitCall(engine, context);
}

grpc::Status CallScope::End(const absl::Status& status, const absl::Status& counted) {
  InFlight().Add(-1);
  RecordEnd(engine_, method_, request_, counted);
  return ToGrpc(status);
}

}  // namespace uopd::rpc
