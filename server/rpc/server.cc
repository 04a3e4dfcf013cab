// SPDX-License-Identifier: MIT
#include "server/rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "core/base/text.h"

namespace uopd::rpc {
namespace {

// Memory for messages in flight, in messages of the largest size.
constexpr int64_t kMessagesInFlight = 64;
constexpr int64_t kLeastQuota = int64_t{256} << 20;

ServiceLimits LimitsOf(const Config& config) {
  return {.max_message_bytes = static_cast<uint64_t>(config.limits_max_message_bytes()),
          .max_graph_nodes = static_cast<uint64_t>(config.limits_max_graph_nodes()),
          .session_bytes = static_cast<uint64_t>(config.limits_session_bytes()),
          .max_cache_bytes = static_cast<uint64_t>(config.cache_max_bytes())};
}

bool IsUnix(const std::string& address) {
  return absl::StartsWith(address, "unix:") || absl::StartsWith(address, "unix-abstract:");
}

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

}  // namespace

bool IsLocal(const std::string& address) {
  if (IsUnix(address)) return true;
  const std::string host = HostOf(address);
  return host == "localhost" || host == "[::1]" || absl::StartsWith(host, "127.");
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(engine::Engine& engine,
                                                      const Config& config) {
  const std::string& listen = config.server_listen();
  if (!IsLocal(listen) && !config.server_allow_insecure_remote()) {
    return absl::InvalidArgumentError(
        Cat("setting server.listen (", listen,
            ") can be reached from other machines without authentication or encryption; "
            "server.allow_insecure_remote permits it"));
  }
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();

  std::unique_ptr<Server> out(new Server(engine, LimitsOf(config)));
  const auto max_message = static_cast<int>(config.limits_max_message_bytes());
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(listen, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&out->service_);
  builder.SetMaxReceiveMessageSize(max_message);
  builder.SetMaxSendMessageSize(max_message);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // two daemons on one port is a mistake
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  grpc::ResourceQuota quota("uopd");
  quota.Resize(static_cast<size_t>(
      std::max(kLeastQuota, kMessagesInFlight * config.limits_max_message_bytes())));
  builder.SetResourceQuota(quota);
  out->server_ = builder.BuildAndStart();
  if (out->server_ == nullptr || (port == 0 && !IsUnix(listen))) {
    return absl::UnavailableError(Cat("setting server.listen (", listen, ") cannot be bound"));
  }
  out->address_ = IsUnix(listen) ? listen : Cat(HostOf(listen), ":", port);
  if (auto* health = out->server_->GetHealthCheckService()) {
    health->SetServingStatus(true);
    health->SetServingStatus("uopd.v1.UopdService", true);
  }
  return out;
}

Server::~Server() {
  if (server_ != nullptr) Shutdown(std::chrono::system_clock::now());
}

void Server::SetNotServing() {
  if (auto* health = server_->GetHealthCheckService()) health->SetServingStatus(false);
}

void Server::Shutdown(std::chrono::system_clock::time_point deadline) {
  server_->Shutdown(deadline);
  server_->Wait();
}

}  // namespace uopd::rpc
