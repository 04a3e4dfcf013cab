// SPDX-License-Identifier: MIT
// A gRPC server in this process that plays a daemon, for tests of what a client sends to one and
// how it takes failures.
#pragma once
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/digest.h"
#include "core/base/mutex.h"
#include "uopd/connection.h"
#include "uopd/v1/uopd.grpc.pb.h"

namespace uopd::client {

// Serves the calls of a session as a daemon does. An Execute sets each buffer that it makes to its
// digest, and appends the digest to the other ones.
class FakeDaemon final : public v1::UopdService::Service {
 public:
  grpc::Status Hello(grpc::ServerContext*, const v1::HelloRequest* request,
                     v1::HelloResponse* response) override {
    MutexLock lock(mutex_);
    response->set_api_version(1);
    response->set_ir_version(request->ir_version());
    response->add_devices()->set_name("CPU:0");
    response->set_instance("start " + std::to_string(starts_));
    response->set_content_key(content_key_);
    response->mutable_limits()->set_max_message_bytes(16 << 20);
    return grpc::Status::OK;
  }
  grpc::Status OpenSession(grpc::ServerContext*, const v1::OpenSessionRequest* request,
                           v1::OpenSessionResponse* response) override {
    MutexLock lock(mutex_);
    if (!request->resume_token().empty()) {
      ++resumes_;
      if (refuses_to_resume_ > 0) {
        --refuses_to_resume_;
        return {grpc::RESOURCE_EXHAUSTED, "too many calls"};
      }
      if (session_.empty()) return {grpc::NOT_FOUND, "no such session"};
    } else {
      if (refuses_sessions_) return {grpc::RESOURCE_EXHAUSTED, "too many sessions"};
      ForgetSession();
      session_ = "s" + std::to_string(++sessions_);
    }
    response->set_session_id(session_);
    response->set_resume_token("t");
    response->set_ttl_ms(60000);
    response->set_last_sequence(last_sequence_);
    return grpc::Status::OK;
  }
  grpc::Status CancelExecute(grpc::ServerContext*, const v1::CancelExecuteRequest* request,
                             v1::CancelExecuteResponse*) override {
    MutexLock lock(mutex_);
    cancelled_.insert(request->request_id());
    wake_.notify_all();
    return grpc::Status::OK;
  }
  // Has the contents with these digests, and takes the proofs of all. Like an older daemon, if it
  // has no key.
  grpc::Status OpenContents(grpc::ServerContext*, const v1::OpenContentsRequest* request,
                            v1::OpenContentsResponse* response) override {
    MutexLock lock(mutex_);
    ++asked_;
    if (content_key_.empty() || refuses_contents_) return {grpc::UNIMPLEMENTED, "no such call"};
    if (request->session_id() != session_) return {grpc::NOT_FOUND, "no such session"};
    for (int i = 0; i < request->contents_size(); ++i) {
      const v1::NamedContent& content = request->contents(i);
      std::string& buffer = buffers_[content.buffer().handle()];
      if (HashBytes(buffer).view() == content.sha256()) {
        contents_[content.sha256()] = buffer;
      } else if (const auto at = contents_.find(content.sha256()); at != contents_.end()) {
        buffer = at->second;
      } else {
        buffers_.erase(content.buffer().handle());
        response->add_needed(static_cast<uint32_t>(i));
      }
    }
    return grpc::Status::OK;
  }
  grpc::Status Pipeline(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::PipelineResponse, v1::PipelineRequest>* stream) override {
    v1::PipelineRequest request;
    uint64_t failed_epoch = 0;
    while (stream->Read(&request)) {
      v1::PipelineResponse response;
      response.set_sequence(request.sequence());
      {
        MutexLock lock(mutex_);
        if (request.epoch() != 0 && request.epoch() == failed_epoch) {
          response.set_code(static_cast<int>(absl::StatusCode::kAborted));
        } else {
          Serve(request, response, lock, *context);
        }
        if (response.code() != 0)
          failed_epoch = request.epoch();
        else
          last_sequence_ = request.sequence();
        if (always_breaks_) return {grpc::UNAVAILABLE, "it breaks always"};
        if (forgets_after_ > 0 && --forgets_after_ == 0) {
          ++starts_;
          ForgetSession();
        }
        if (reads_no_more_) {
          reads_no_more_ = false;
          response.set_code(static_cast<int>(absl::StatusCode::kNotFound));
          response.mutable_missing_error()->set_kind("session");
          stream->Write(response);
          lock.Wait(wake_, [&]() UOPD_REQUIRES(mutex_) { return released_; });
          return grpc::Status::OK;
        }
        if (break_after_ > 0 && --break_after_ == 0) {
          return {grpc::UNAVAILABLE, "the connection broke"};  // the answer is lost
        }
      }
      stream->Write(response);
    }
    return grpc::Status::OK;
  }

  void Serve(const v1::PipelineRequest& request, v1::PipelineResponse& response, MutexLock& lock,
             const grpc::ServerContext& context) UOPD_REQUIRES(mutex_) {
    auto fail = [&](absl::StatusCode code, const std::string& message,
                    const std::string& kind = "") {
      response.set_code(static_cast<int>(code));
      response.set_message(message);
      if (!kind.empty()) response.mutable_missing_error()->set_kind(kind);
    };
    if (SessionOf(request) != session_)
      return fail(absl::StatusCode::kNotFound, "no such session", "session");
    if (request.has_upload()) {
      const v1::UploadRequest& upload = request.upload();
      std::string& buffer = buffers_[upload.buffer().handle()];
      buffer.resize(upload.buffer().bytes());
      buffer.replace(upload.offset(), upload.data().size(), upload.data());
      ++uploads_;
      if (uploads_ == failing_upload_) fail(absl::StatusCode::kResourceExhausted, "no room");
      return;
    }
    if (request.has_download()) {
      const v1::DownloadRequest& download = request.download();
      if (!buffers_.contains(download.handle()))
        return fail(absl::StatusCode::kNotFound, "no such buffer", "buffer");
      response.mutable_download()->set_data(
          buffers_[download.handle()].substr(download.offset(), download.bytes()));
      return;
    }
    const v1::ExecuteRequest& execute = request.execute();
    if (!execute.graph().empty()) graphs_.insert(execute.digest());
    if (!graphs_.contains(execute.digest()))
      return fail(absl::StatusCode::kNotFound, "unknown program", "program");
    if (execute.digest() == "hang") {
      lock.Wait(wake_, [&]() UOPD_REQUIRES(mutex_) {
        return cancelled_.contains(execute.request_id()) || context.IsCancelled() || released_;
      });
    }
    if (cancelled_.contains(execute.request_id()))
      return fail(absl::StatusCode::kCancelled, "cancelled");
    if (failures_.contains(execute.digest()))
      return fail(absl::StatusCode::kResourceExhausted, "no room for " + execute.digest());
    const bool first = ran_.insert(execute.request_id()).second;
    if (first) order_.push_back(execute.digest());
    for (const v1::Argument& a : execute.arguments()) {
      if (a.buffer() != 0 && first) buffers_[a.buffer()] += execute.digest();
      if (a.return_data()) response.mutable_execute()->add_data(execute.digest());
    }
  }

  static std::string SessionOf(const v1::PipelineRequest& request) {
    if (request.has_upload()) return request.upload().session_id();
    if (request.has_download()) return request.download().session_id();
    if (request.has_free_buffers()) return request.free_buffers().session_id();
    return request.execute().session_id();
  }

  // Forgets everything, as a daemon that is restarted, or the session alone.
  void Restart() {
    MutexLock lock(mutex_);
    ++starts_;
    graphs_.clear();
    ForgetSession();
  }
  void EndSession() {
    MutexLock lock(mutex_);
    ForgetSession();
  }
  void ForgetSession() UOPD_REQUIRES(mutex_) {
    session_.clear();
    buffers_.clear();
    ran_.clear();
    last_sequence_ = 0;
  }

  Mutex mutex_;
  std::condition_variable wake_;
  std::string content_key_ UOPD_GUARDED_BY(mutex_);
  bool refuses_contents_ UOPD_GUARDED_BY(mutex_) = false;
  int asked_ UOPD_GUARDED_BY(mutex_) = 0;                                // for contents
  std::map<std::string, std::string> contents_ UOPD_GUARDED_BY(mutex_);  // by SHA-256
  std::string session_ UOPD_GUARDED_BY(mutex_);                          // empty: it is gone
  int sessions_ UOPD_GUARDED_BY(mutex_) = 0, starts_ UOPD_GUARDED_BY(mutex_) = 1;
  int refuses_to_resume_ UOPD_GUARDED_BY(mutex_) = 0;  // times
  bool refuses_sessions_ UOPD_GUARDED_BY(mutex_) = false;
  // Answers the next message that the session is unknown, leaves the stream open and reads nothing.
  bool reads_no_more_ UOPD_GUARDED_BY(mutex_) = false;
  int forgets_after_ UOPD_GUARDED_BY(mutex_) = -1;  // messages
  std::map<uint64_t, std::string> buffers_ UOPD_GUARDED_BY(mutex_);
  std::set<std::string> graphs_ UOPD_GUARDED_BY(mutex_), failures_ UOPD_GUARDED_BY(mutex_);
  std::set<uint64_t> ran_ UOPD_GUARDED_BY(mutex_), cancelled_ UOPD_GUARDED_BY(mutex_);
  std::vector<std::string> order_ UOPD_GUARDED_BY(mutex_);  // digests that ran
  uint64_t last_sequence_ UOPD_GUARDED_BY(mutex_) = 0;
  int resumes_ UOPD_GUARDED_BY(mutex_) = 0, uploads_ UOPD_GUARDED_BY(mutex_) = 0;
  int failing_upload_ UOPD_GUARDED_BY(mutex_) = -1;
  int break_after_ UOPD_GUARDED_BY(mutex_) = -1;  // messages
  bool always_breaks_ UOPD_GUARDED_BY(mutex_) = false;
  bool released_ UOPD_GUARDED_BY(mutex_) = false;
};

// Starts a server of the service, and sets how a client reaches it.
inline std::unique_ptr<grpc::Server> Served(grpc::Service& service, ConnectOptions& options) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  auto out = builder.BuildAndStart();
  options.address = "127.0.0.1:" + std::to_string(port);
  options.timeout = absl::Seconds(20);
  return out;
}

class ConnectionTest : public ::testing::Test {
 protected:
  ConnectionTest() : server_(Served(daemon_, options_)) {}
  ~ConnectionTest() override {
    connection_.reset();
    MutexLock lock(daemon_.mutex_);
    daemon_.released_ = true;
    daemon_.wake_.notify_all();
  }
  void Connect() {
    auto c = Connection::Connect(options_);
    ASSERT_TRUE(c.ok()) << c.status();
    connection_ = *c;
  }
  // A call of a graph that is called `digest`, which makes and reads these buffers.
  Answer Run(const std::string& digest, std::vector<uint64_t> makes = {},
             std::vector<uint64_t> reads = {}) {
    Call call;
    call.digest = digest;
    call.graph = std::make_shared<const std::string>("graph");
    for (uint64_t handle : makes) call.arguments.push_back({.handle = handle, .made = true});
    for (uint64_t handle : reads) call.arguments.push_back({.handle = handle});
    return connection_->Submit(std::move(call));
  }
  std::vector<std::string> Order() {
    MutexLock lock(daemon_.mutex_);
    return daemon_.order_;
  }

  FakeDaemon daemon_;
  ConnectOptions options_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<Connection> connection_;
};

}  // namespace uopd::client
