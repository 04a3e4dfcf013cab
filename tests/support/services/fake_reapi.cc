// SPDX-License-Identifier: MIT
#include "tests/support/services/fake_reapi.h"

#include <grpcpp/server_builder.h>

#include <fstream>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "core/base/digest.h"

namespace uopd::test {
namespace {

constexpr size_t kStreamBytes = size_t{1} << 20;

std::string FileText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

grpc::Status NoSuch() { return {grpc::NOT_FOUND, "there is none"}; }

bool IsRight(const reapi::Digest& digest, const std::string& data) {
  return digest.hash() == HashBytes(data).Hex() &&
         digest.size_bytes() == static_cast<int64_t>(data.size());
}

}  // namespace

struct FakeReapi::Services final : reapi::Capabilities::Service,
                                   reapi::ActionCache::Service,
                                   reapi::ContentAddressableStorage::Service,
                                   google::bytestream::ByteStream::Service {
  explicit Services(FakeReapi& fake) : fake(fake) {}

  grpc::Status GetCapabilities(grpc::ServerContext* context,
                               const reapi::GetCapabilitiesRequest* /*request*/,
                               reapi::ServerCapabilities* reply) override {
    fake.Begin(*context);
    reapi::CacheCapabilities& can = *reply->mutable_cache_capabilities();
    if (fake.options_.has_sha256) can.add_digest_functions(reapi::DigestFunction::SHA256);
    can.mutable_action_cache_update_capabilities()->set_update_enabled(
        fake.options_.update_enabled);
    can.set_max_batch_total_size_bytes(fake.options_.max_batch_bytes);
    return grpc::Status::OK;
  }

  grpc::Status GetActionResult(grpc::ServerContext* context,
                               const reapi::GetActionResultRequest* request,
                               reapi::ActionResult* reply) override {
    fake.Begin(*context);
    const MutexLock lock(fake.mu_);
    if (!fake.read_status_.ok()) return fake.read_status_;
    const auto it = fake.results_.find(request->action_digest().hash());
    if (it == fake.results_.end()) return NoSuch();
    *reply = it->second;
    if (fake.spoil_ && !reply->stdout_raw().empty()) fake.spoil_(*reply->mutable_stdout_raw());
    if (fake.spoil_result_) fake.spoil_result_(*reply);
    return grpc::Status::OK;
  }

  grpc::Status UpdateActionResult(grpc::ServerContext* context,
                                  const reapi::UpdateActionResultRequest* request,
                                  reapi::ActionResult* reply) override {
    fake.Begin(*context);
    const MutexLock lock(fake.mu_);
    if (!fake.write_status_.ok()) return fake.write_status_;
    reapi::ActionResult result = request->action_result();
    if (fake.options_.moves_output) {
      const auto move = [&](std::string& raw, reapi::Digest& blob) UOPD_REQUIRES(fake.mu_) {
        blob.set_hash(HashBytes(raw).Hex());
        blob.set_size_bytes(static_cast<int64_t>(raw.size()));
        fake.blobs_[blob.hash()] = std::exchange(raw, {});
      };
      if (!result.stdout_raw().empty())
        move(*result.mutable_stdout_raw(), *result.mutable_stdout_digest());
      if (!result.stderr_raw().empty())
        move(*result.mutable_stderr_raw(), *result.mutable_stderr_digest());
    }
    *reply = result;
    fake.results_[request->action_digest().hash()] = std::move(result);
    return grpc::Status::OK;
  }

  grpc::Status BatchUpdateBlobs(grpc::ServerContext* context,
                                const reapi::BatchUpdateBlobsRequest* request,
                                reapi::BatchUpdateBlobsResponse* reply) override {
    fake.Begin(*context);
    const MutexLock lock(fake.mu_);
    for (const auto& one : request->requests()) {
      auto& answer = *reply->add_responses();
      *answer.mutable_digest() = one.digest();
      grpc::Status status = fake.write_status_;
      if (status.ok() && !IsRight(one.digest(), one.data()))
        status = {grpc::INVALID_ARGUMENT, "a wrong digest"};
      answer.mutable_status()->set_code(status.error_code());
      if (status.ok()) fake.blobs_[one.digest().hash()] = one.data();
    }
    return grpc::Status::OK;
  }

  grpc::Status BatchReadBlobs(grpc::ServerContext* context,
                              const reapi::BatchReadBlobsRequest* request,
                              reapi::BatchReadBlobsResponse* reply) override {
    fake.Begin(*context);
    const MutexLock lock(fake.mu_);
    for (const reapi::Digest& digest : request->digests()) {
      auto& answer = *reply->add_responses();
      *answer.mutable_digest() = digest;
      const auto it = fake.blobs_.find(digest.hash());
      const grpc::Status status = it == fake.blobs_.end() ? NoSuch() : fake.read_status_;
      answer.mutable_status()->set_code(status.error_code());
      if (!status.ok()) continue;
      answer.set_data(it->second);
      if (fake.spoil_) fake.spoil_(*answer.mutable_data());
    }
    return grpc::Status::OK;
  }

  grpc::Status Read(grpc::ServerContext* context, const google::bytestream::ReadRequest* request,
                    grpc::ServerWriter<google::bytestream::ReadResponse>* writer) override {
    fake.Begin(*context);
    std::string data;
    {
      const MutexLock lock(fake.mu_);
      ++fake.streams_;
      const std::vector<std::string> parts = absl::StrSplit(request->resource_name(), '/');
      const auto it = parts.size() < 2 ? fake.blobs_.end() : fake.blobs_.find(parts.end()[-2]);
      if (it == fake.blobs_.end()) return NoSuch();
      if (!fake.read_status_.ok()) return fake.read_status_;
      data = it->second;
      if (fake.spoil_) fake.spoil_(data);
    }
    google::bytestream::ReadResponse piece;
    for (size_t at = 0; at < data.size(); at += kStreamBytes) {
      piece.set_data(data.substr(at, kStreamBytes));
      if (!writer->Write(piece)) break;
    }
    return grpc::Status::OK;
  }

  grpc::Status Write(grpc::ServerContext* context,
                     grpc::ServerReader<google::bytestream::WriteRequest>* reader,
                     google::bytestream::WriteResponse* reply) override {
    fake.Begin(*context);
    google::bytestream::WriteRequest piece;
    std::string name, data;
    bool finished = false;
    while (reader->Read(&piece)) {
      if (!piece.resource_name().empty()) name = piece.resource_name();
      if (finished || piece.write_offset() != static_cast<int64_t>(data.size()))
        return {grpc::INVALID_ARGUMENT, "a piece out of place"};
      data += piece.data();
      finished = piece.finish_write();
    }
    const std::vector<std::string> parts = absl::StrSplit(name, '/');
    const MutexLock lock(fake.mu_);
    ++fake.streams_;
    if (!fake.write_status_.ok()) return fake.write_status_;
    if (!finished || parts.size() != 6 || parts[1] != "uploads" || parts[2].size() != 36 ||
        parts[3] != "blobs" || parts[4] != HashBytes(data).Hex() ||
        parts[5] != std::to_string(data.size()))
      return {grpc::INVALID_ARGUMENT, "a wrong name or digest"};
    reply->set_committed_size(static_cast<int64_t>(data.size()));
    fake.blobs_[parts[4]] = std::move(data);
    return grpc::Status::OK;
  }

  FakeReapi& fake;
};

FakeReapi::FakeReapi(const FakeReapiOptions& options)
    : options_(options), services_(std::make_unique<Services>(*this)) {
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (!options.certificates.empty()) {
    grpc::SslServerCredentialsOptions tls;
    tls.pem_key_cert_pairs.push_back({FileText(options.certificates + "/key.pem"),
                                      FileText(options.certificates + "/cert.pem")});
    credentials = grpc::SslServerCredentials(tls);
  }
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", credentials, &port_);
  builder.RegisterService(static_cast<reapi::Capabilities::Service*>(services_.get()));
  builder.RegisterService(static_cast<reapi::ActionCache::Service*>(services_.get()));
  builder.RegisterService(static_cast<reapi::ContentAddressableStorage::Service*>(services_.get()));
  builder.RegisterService(static_cast<google::bytestream::ByteStream::Service*>(services_.get()));
  server_ = builder.BuildAndStart();
}

FakeReapi::~FakeReapi() { server_->Shutdown(std::chrono::system_clock::now()); }

void FakeReapi::Begin(const grpc::ServerContext& context) {
  std::chrono::milliseconds delay;
  {
    const MutexLock lock(mu_);
    ++calls_;
    const auto it = context.client_metadata().find("authorization");
    authorization_ = it == context.client_metadata().end()
                         ? std::string()
                         : std::string(it->second.data(), it->second.size());
    delay = delay_;
  }
  const auto end = std::chrono::steady_clock::now() + delay;
  while (std::chrono::steady_clock::now() < end && !context.IsCancelled())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void FakeReapi::SetDelay(std::chrono::milliseconds delay) {
  const MutexLock lock(mu_);
  delay_ = delay;
}

void FakeReapi::SetWriteStatus(const grpc::Status& status) {
  const MutexLock lock(mu_);
  write_status_ = status;
}

void FakeReapi::SetReadStatus(const grpc::Status& status) {
  const MutexLock lock(mu_);
  read_status_ = status;
}

void FakeReapi::SetSpoil(std::function<void(std::string&)> spoil) {
  const MutexLock lock(mu_);
  spoil_ = std::move(spoil);
}

void FakeReapi::SetSpoilResult(std::function<void(reapi::ActionResult&)> spoil) {
  const MutexLock lock(mu_);
  spoil_result_ = std::move(spoil);
}

void FakeReapi::Clear() {
  const MutexLock lock(mu_);
  results_.clear();
  blobs_.clear();
}

void FakeReapi::ClearBlobs() {
  const MutexLock lock(mu_);
  blobs_.clear();
}

std::string FakeReapi::last_authorization() {
  const MutexLock lock(mu_);
  return authorization_;
}

int FakeReapi::calls() {
  const MutexLock lock(mu_);
  return calls_;
}

size_t FakeReapi::results() {
  const MutexLock lock(mu_);
  return results_.size();
}

size_t FakeReapi::blobs() {
  const MutexLock lock(mu_);
  return blobs_.size();
}

int FakeReapi::streams() {
  const MutexLock lock(mu_);
  return streams_;
}

}  // namespace uopd::test
