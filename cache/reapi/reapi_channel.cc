// SPDX-License-Identifier: MIT
#include "cache/reapi/reapi_channel.h"

#include <grpcpp/create_channel.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::cache {
namespace {

// A message has at most 4 MiB where nobody says otherwise; what stands around the blobs needs a little of that.
constexpr int64_t kMessageBytes = int64_t{4} << 20;
constexpr int64_t kFrameBytes = int64_t{64} << 10;
constexpr int kMaxReceivedBytes = 8 << 20;

std::shared_ptr<grpc::Channel> Connect(const ReapiOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxReceivedBytes);
  // The circuit breaker decides when the server is tried again; gRPC's own pauses would grow to minutes.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);  // of one try to connect
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // The server is named by a setting; a proxy of the environment has no say in it.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetUserAgentPrefix("uopd");
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (options.url.tls) {
    credentials = grpc::SslCredentials({.pem_root_certs = options.ca,
                                        .pem_private_key = options.key,
                                        .pem_cert_chain = options.cert});
  }
  const HostPort& server = options.url.server;
  auto channel =
      grpc::CreateCustomChannel(HostPortText(server.host, server.port), credentials, arguments);
  channel->GetState(/*try_to_connect=*/true);  // the first lookup need not wait for it
  return channel;
}

std::string Authorization(const ReapiOptions& options) {
  if (options.password.empty()) return {};
  if (options.url.user.empty()) return Cat("Bearer ", options.password);
  return Cat("Basic ", absl::Base64Escape(Cat(options.url.user, ":", options.password)));
}

}  // namespace

ReapiChannel::ReapiChannel(const ReapiOptions& options) : ReapiChannel(options, Connect(options)) {}

ReapiChannel::ReapiChannel(const ReapiOptions& options,
                           const std::shared_ptr<grpc::Channel>& channel)
    : options_(options),
      authorization_(Authorization(options)),
      capabilities_(reapi::Capabilities::NewStub(channel)),
      actions_(reapi::ActionCache::NewStub(channel)),
      blobs_(reapi::ContentAddressableStorage::NewStub(channel)),
      streams_(google::bytestream::ByteStream::NewStub(channel)) {}

void ReapiChannel::Prepare(grpc::ClientContext& context, Deadline deadline) const {
  using std::chrono::system_clock;
  const auto left = deadline - std::chrono::steady_clock::now();
  context.set_deadline(system_clock::now() +
                       std::chrono::duration_cast<system_clock::duration>(left));
  if (!authorization_.empty()) context.AddMetadata("authorization", authorization_);
}

absl::Status ReapiChannel::StatusOf(const char* name, const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = Cat(
      "The shared tier answers ",
      absl::StatusCodeToString(static_cast<absl::StatusCode>(status.error_code())), " to ", name);
  switch (status.error_code()) {
    case grpc::NOT_FOUND:
      return absl::NotFoundError(message);
    case grpc::RESOURCE_EXHAUSTED:
    case grpc::FAILED_PRECONDITION:
    case grpc::INVALID_ARGUMENT:
    case grpc::PERMISSION_DENIED:
      return absl::ResourceExhaustedError(message);
    default:
      break;
  }
  const MutexLock lock(mu_);
  asked_ = false;
  return status.error_code() == grpc::DEADLINE_EXCEEDED ? absl::DeadlineExceededError(message)
                                                        : absl::UnavailableError(message);
}

absl::StatusOr<ReapiLimits> ReapiChannel::Limits(Deadline deadline) {
  {
    const MutexLock lock(mu_);
    if (asked_) return limits_;
  }
  reapi::GetCapabilitiesRequest request;
  request.set_instance_name(instance());
  reapi::ServerCapabilities reply;
  const absl::Status status = Run("GetCapabilities", deadline, [&](grpc::ClientContext& context) {
    return capabilities_->GetCapabilities(&context, request, &reply);
  });
  // Without them nothing can be done, whatever the reason is.
  if (!status.ok())
    return absl::IsDeadlineExceeded(status) ? status : absl::UnavailableError(status.message());
  const reapi::CacheCapabilities& can = reply.cache_capabilities();
  if (std::ranges::find(can.digest_functions(), reapi::DigestFunction::SHA256) ==
      can.digest_functions().end())
    return absl::UnavailableError("The shared tier has no blobs by SHA-256");
  const int64_t most = can.max_batch_total_size_bytes();
  ReapiLimits limits;
  limits.may_update = can.action_cache_update_capabilities().update_enabled();
  limits.batch_bytes = static_cast<size_t>(std::max<int64_t>(
      (most > 0 ? std::min(most, kMessageBytes) : kMessageBytes) - kFrameBytes, 0));
  const MutexLock lock(mu_);
  asked_ = true;
  limits_ = limits;
  return limits;
}

}  // namespace uopd::cache
