// SPDX-License-Identifier: MIT
#include "cache/reapi/reapi_channel.h"

#include <grpcpp/create_channel.h>

#include <algorithm>
#include <random>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "core/base/digest.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::cache {
namespace {

// A message has at most 4 MiB where nobody says otherwise; what stands around the blobs needs a
// little of that.
constexpr int64_t kMessageBytes = int64_t{4} << 20;
constexpr int64_t kFrameBytes = int64_t{64} << 10;
constexpr int kMaxReceivedBytes = 8 << 20;

std::shared_ptr<grpc::Channel> Connect(const ReapiOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxReceivedBytes);
  // The circuit breaker decides when the server is tried again; gRPC's own pauses would grow to
  // minutes.
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

namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

std::string Prefix(const ReapiChannel& channel) {
  return channel.instance().empty() ? std::string() : channel.instance() + "/";
}

// A UUID of version 4, which tells two uploads of the same blob apart.
std::string RandomUuid() {
  thread_local std::random_device random;
  const auto word = [] { return static_cast<uint32_t>(random()); };
  const uint32_t middle = word(), end = word();
  return absl::StrFormat("%08x-%04x-4%03x-%04x-%04x%08x", word(), middle >> 16, middle & 0xfff,
                         0x8000 | (end >> 18), end & 0xffff, word());
}

grpc::Status InnerStatus(const reapi::BlobStatus& status) {
  return {static_cast<grpc::StatusCode>(status.code()), ""};
}

// What a batch should have answered: a word about the one blob.
const grpc::Status kNoWord(grpc::UNKNOWN, "");

absl::StatusOr<std::string> ReadInBatch(ReapiChannel& channel, const reapi::Digest& digest,
                                        Deadline deadline) {
  reapi::BatchReadBlobsRequest request;
  request.set_instance_name(channel.instance());
  *request.add_digests() = digest;
  reapi::BatchReadBlobsResponse reply;
  UOPD_TRY(channel.Run("BatchReadBlobs", deadline, [&](grpc::ClientContext& context) {
    grpc::Status status = channel.blobs().BatchReadBlobs(&context, request, &reply);
    if (!status.ok()) return status;
    return reply.responses_size() == 1 ? InnerStatus(reply.responses(0).status()) : kNoWord;
  }));
  return std::move(*reply.mutable_responses(0)->mutable_data());
}

absl::StatusOr<std::string> ReadAsStream(ReapiChannel& channel, const reapi::Digest& digest,
                                         Deadline deadline) {
  google::bytestream::ReadRequest request;
  request.set_resource_name(
      Cat(Prefix(channel), "blobs/", digest.hash(), "/", digest.size_bytes()));
  const auto size = static_cast<size_t>(digest.size_bytes());
  std::string out;
  UOPD_TRY(channel.Run("Read", deadline, [&](grpc::ClientContext& context) {
    const auto stream = channel.streams().Read(&context, request);
    google::bytestream::ReadResponse piece;
    while (stream->Read(&piece)) {
      out += piece.data();
      if (out.size() <= size) continue;
      // More than the blob has: its signature cannot be right, and the rest is not worth the
      // memory.
      context.TryCancel();
      while (stream->Read(&piece)) {
      }
      stream->Finish().ok();
      return grpc::Status::OK;
    }
    return stream->Finish();
  }));
  return out;
}

absl::Status WriteInBatch(ReapiChannel& channel, const reapi::Digest& digest,
                          std::string_view bytes, Deadline deadline) {
  reapi::BatchUpdateBlobsRequest request;
  request.set_instance_name(channel.instance());
  reapi::BatchUpdateBlobsRequest::Request& blob = *request.add_requests();
  *blob.mutable_digest() = digest;
  blob.mutable_data()->assign(bytes);
  return channel.Run("BatchUpdateBlobs", deadline, [&](grpc::ClientContext& context) {
    reapi::BatchUpdateBlobsResponse reply;
    grpc::Status status = channel.blobs().BatchUpdateBlobs(&context, request, &reply);
    if (!status.ok()) return status;
    return reply.responses_size() == 1 ? InnerStatus(reply.responses(0).status()) : kNoWord;
  });
}

absl::Status WriteAsStream(ReapiChannel& channel, const reapi::Digest& digest,
                           std::string_view bytes, Deadline deadline) {
  const std::string name = Cat(Prefix(channel), "uploads/", RandomUuid(), "/blobs/", digest.hash(),
                               "/", digest.size_bytes());
  return channel.Run("Write", deadline, [&](grpc::ClientContext& context) {
    google::bytestream::WriteResponse reply;
    const auto stream = channel.streams().Write(&context, &reply);
    for (size_t at = 0; at < bytes.size(); at += kPieceBytes) {
      const std::string_view piece = bytes.substr(at, kPieceBytes);
      google::bytestream::WriteRequest request;
      request.set_resource_name(name);
      request.set_write_offset(static_cast<int64_t>(at));
      request.mutable_data()->assign(piece);
      request.set_finish_write(at + piece.size() == bytes.size());
      // A server that has the blob already ends the stream.
      if (!stream->Write(request)) break;
    }
    stream->WritesDone();
    grpc::Status status = stream->Finish();
    if (!status.ok()) return status;
    return reply.committed_size() == digest.size_bytes() ? status : kNoWord;
  });
}

}  // namespace

reapi::Digest DigestOf(std::string_view bytes) {
  reapi::Digest out;
  out.set_hash(HashBytes(bytes).Hex());
  out.set_size_bytes(static_cast<int64_t>(bytes.size()));
  return out;
}

absl::StatusOr<std::string> ReadBlob(ReapiChannel& channel, const reapi::Digest& digest,
                                     Deadline deadline) {
  UOPD_ASSIGN(const ReapiLimits limits, channel.Limits(deadline));
  // A size that no record has. Nothing is read, and nothing is no record either.
  if (digest.size_bytes() <= 0 ||
      static_cast<uint64_t>(digest.size_bytes()) > channel.max_record_bytes())
    return std::string();
  if (static_cast<size_t>(digest.size_bytes()) <= limits.batch_bytes)
    return ReadInBatch(channel, digest, deadline);
  return ReadAsStream(channel, digest, deadline);
}

absl::Status WriteBlob(ReapiChannel& channel, const reapi::Digest& digest, std::string_view bytes,
                       Deadline deadline) {
  UOPD_ASSIGN(const ReapiLimits limits, channel.Limits(deadline));
  if (bytes.size() <= limits.batch_bytes) return WriteInBatch(channel, digest, bytes, deadline);
  return WriteAsStream(channel, digest, bytes, deadline);
}

}  // namespace uopd::cache
