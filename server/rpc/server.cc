// SPDX-License-Identifier: MIT
#include "server/rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "core/base/telemetry/log.h"
#include "core/base/telemetry/log_limiter.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "server/net/address.h"
#include "server/net/guard_check.h"
#include "server/rpc/call/request_record.h"

namespace uopd::rpc {
namespace {

// Memory for messages in flight, as a number of messages of the largest size.
constexpr int64_t kMessagesInFlight = 64;
constexpr int64_t kLeastQuota = int64_t{256} << 20;
// Where little memory is for clients, messages in flight must not be more than a quarter of it, and
// a few must fit.
constexpr int64_t kFewMessages = 4, kShareInFlight = 4;

int64_t AtMostAShare(int64_t bytes, const Config& config) {
  return std::max(kFewMessages * config.limits_max_message_bytes(),
                  std::min(bytes, config.limits_total_bytes() / kShareInFlight));
}

ServiceLimits LimitsOf(const Config& config) {
  return {.max_message_bytes = static_cast<uint64_t>(config.limits_max_message_bytes()),
          .max_graph_nodes = static_cast<uint64_t>(config.limits_max_graph_nodes()),
          .session_bytes = static_cast<uint64_t>(config.limits_session_bytes())};
}

// A daemon that ends waits so long while no client takes anything of what was sent: as long as one
// of its streams waits for room (IdleLimitNs).
constexpr std::chrono::seconds kUnconfirmedLimit{10};
// The first bytes of every HTTP/2 client.
constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

net::FrameLimits FrameLimitsOf(const Config& config) {
  const auto streams = static_cast<double>(config.limits_connection_streams());
  const auto resets = static_cast<double>(config.limits_connection_resets_per_s());
  return {.header_bytes = static_cast<uint64_t>(config.limits_header_bytes()),
          .resets_per_s = resets,
          // A client may cancel all that it has.
          .resets_burst = std::max(streams, resets / 2),
          .frames_per_s = static_cast<double>(config.limits_connection_frames_per_s())};
}

// The bytes of unfinished messages that all connections may hold together: room for several clients
// that each send a message of the largest size.
uint64_t MaxUnfinishedBytes(const Config& config) {
  constexpr int64_t kMessages = 8, kShare = 64;
  return static_cast<uint64_t>(AtMostAShare(
      std::max(kMessages * config.limits_max_message_bytes(), config.limits_total_bytes() / kShare),
      config));
}

void OnEnded(const std::string& peer, const char* reason) {
  metrics::ConnectionsEnded({reason}).Increment();
  static LogLimiter limiter(10);
  uint64_t dropped = 0;
  if (!limiter.Take(&dropped)) return;
  UOPD_LOG(kWarn, "connection ended because of its HTTP/2 frames", {"peer", peer},
           {"reason", reason}, {"dropped", dropped});
}

net::AcceptorOptions AcceptorOptionsOf(const Config& config) {
  net::AcceptorOptions out;
  out.greeting = kPreface;
  out.max_connections = static_cast<size_t>(config.limits_connections());
  out.max_per_peer = static_cast<size_t>(config.limits_peer_connections());
  out.connections = &metrics::Connections();
  out.on_refused = [](const char* reason) { metrics::ConnectionsRefused({reason}).Increment(); };
  out.frames = FrameLimitsOf(config);
  out.max_unfinished_bytes = MaxUnfinishedBytes(config);
  out.on_ended = OnEnded;
  return out;
}

void HandOver(grpc::experimental::ExternalConnectionAcceptor& to, int listener, int fd) {
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.listener_fd = listener;
  connection.fd = fd;
  to.HandleNewConnection(&connection);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(engine::Engine& engine, const Config& config,
                                                      std::unique_ptr<net::Listener> bound) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  ShowFaults();

  std::unique_ptr<Server> out(
      new Server(engine, LimitsOf(config),
                 {.pipeline_bytes = static_cast<size_t>(config.limits_pipeline_bytes())}));
  const auto max_message = static_cast<int>(config.limits_max_message_bytes());
  grpc::ServerBuilder builder;
  out->connections_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  builder.RegisterService(&out->service_);
  builder.SetMaxReceiveMessageSize(max_message);
  builder.SetMaxSendMessageSize(max_message);
  // Finds clients that are gone without closing their connection.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(config.limits_connection_streams()));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE,
                             static_cast<int>(config.limits_header_bytes()));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  grpc::ResourceQuota quota("uopd");
  // Near its quota gRPC shrinks windows and resets streams of clients that did nothing wrong, so it
  // is never small.
  quota.Resize(static_cast<size_t>(std::max(
      kLeastQuota, AtMostAShare(kMessagesInFlight * config.limits_max_message_bytes(), config))));
  builder.SetResourceQuota(quota);
  out->listener_ = std::move(bound);
  UOPD_TRY(out->listener_->Open());
  const net::Address& address = out->listener_->address();
  if (config.server_side_socket() && address.kind != net::Address::kTcp) {
    auto side = SideSocket::Start(engine, address, config);
    if (side.ok()) {
      out->side_ = *std::move(side);
      out->service_.OfferSide();
    } else {  // clients send everything in messages
      UOPD_LOG(kWarn, "no side socket", {"reason", StatusText(side.status())});
    }
  }
  out->server_ = builder.BuildAndStart();
  if (out->server_ == nullptr) return absl::UnavailableError("gRPC server does not start");
  UOPD_TRY(net::CheckGuard([to = out->connections_.get()](int fd) { HandOver(*to, -1, fd); }));
  out->address_ = ToText(address);
  if (auto* health = out->server_->GetHealthCheckService()) {
    health->SetServingStatus(true);
    health->SetServingStatus("uopd.v1.UopdService", true);
    out->device_health_ = std::make_unique<DeviceHealth>(engine, *health);
  }
  out->acceptor_ = std::make_unique<net::Acceptor>(
      *out->listener_, AcceptorOptionsOf(config),
      [to = out->connections_.get()](int listener, int fd) { HandOver(*to, listener, fd); });
  return out;
}

Server::~Server() {
  if (server_ != nullptr) Shutdown(std::chrono::system_clock::now());
}

void Server::SetNotServing() {
  device_health_ = nullptr;
  if (auto* health = server_->GetHealthCheckService()) health->SetServingStatus(false);
}

bool Server::AwaitConfirmed(std::chrono::steady_clock::time_point deadline) {
  using Clock = std::chrono::steady_clock;
  uint64_t last = 0;
  for (auto changed = Clock::now();;) {
    const uint64_t bytes = acceptor_->UnconfirmedBytes();
    const auto now = Clock::now();
    if (bytes == 0 || now >= deadline) return last > 0;
    if (bytes != std::exchange(last, bytes)) changed = now;
    if (now - changed >= kUnconfirmedLimit) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void Server::StopAccepting() {
  device_health_ = nullptr;
  side_ = nullptr;
  acceptor_ = nullptr;
  listener_ = nullptr;
}

void Server::Shutdown(std::chrono::system_clock::time_point deadline) {
  StopAccepting();
  server_->Shutdown(deadline);
  server_->Wait();
}

}  // namespace uopd::rpc
