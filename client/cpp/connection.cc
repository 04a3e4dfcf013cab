// SPDX-License-Identifier: MIT
#include "client/cpp/connection.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <optional>
#include <random>
#include <thread>

#include "absl/container/flat_hash_set.h"
#include "client/cpp/backoff.h"
#include "client/cpp/grpc_status.h"
#include "core/base/mutex.h"
#include "core/base/text.h"
#include "core/ir/io/wire.h"
#include "uopd/v1/uopd.grpc.pb.h"

namespace uopd::client {
namespace {

constexpr uint32_t kApiVersion = 1;
constexpr size_t kChunk = 1 << 20;
constexpr int kMaxReceive =
    256 << 20;  // only has to exceed what the daemon sends, which has its own limits
constexpr uint32_t kTimesOnly = 2;  // DEBUG=2 and less has no code
constexpr size_t kMaxExplained = 4096;
constexpr int kTries = 5;  // with the waits between them about a second in total

}  // namespace

struct Connection::Impl {
  ConnectOptions options;
  std::unique_ptr<v1::UopdService::Stub> stub;
  v1::HelloResponse hello;
  std::string session_id,
      resume_token;  // set before the renewing thread starts; session_id never changes
  std::chrono::milliseconds ttl{0};

  // Digests of graphs whose code has been shown.
  absl::flat_hash_set<std::string> explained;

  Mutex mutex;
  std::condition_variable wake;
  bool closing UOPD_GUARDED_BY(mutex) = false;
  std::thread renewer;

  void Prepare(grpc::ClientContext& context) const {
    PrepareFor(context, absl::ToChronoMilliseconds(options.timeout));
  }
  void PrepareFor(grpc::ClientContext& context, std::chrono::milliseconds timeout) const {
    context.set_deadline(std::chrono::system_clock::now() + timeout);
    if (!options.credentials.token.empty()) {
      context.AddMetadata("authorization", Cat("Bearer ", options.credentials.token));
    }
  }

  // Sends a request. Sends it again if the transport failed and `again` says that this is safe.
  template <class Request, class Response>
  grpc::Status Call(grpc::Status (v1::UopdService::Stub::*method)(grpc::ClientContext*,
                                                                  const Request&, Response*),
                    const Request& request, Response* response, uint64_t* bytes, bool again) {
    grpc::Status status;
    Retry retry(*this);
    do {
      grpc::ClientContext context;
      Prepare(context);
      if (bytes != nullptr) *bytes += request.ByteSizeLong();
      status = (stub.get()->*method)(&context, request, response);
    } while (again && retry.Again(status));
    return status;
  }

  // The tries of one call.
  class Retry {
   public:
    explicit Retry(Impl& impl) : impl_(impl) {}
    // True if the call should be sent once more: the transport or the session was lost, and the
    // session has been resumed or the daemon may come back. Waits before it returns true.
    bool Again(const grpc::Status& status) {
      const bool lost =
          status.error_code() == grpc::UNAVAILABLE || MissingKind(status) == "session";
      if (!lost || ++tries_ == kTries || impl_.resume_token.empty()) return false;
      if (!backoff_) backoff_.emplace(std::random_device()());
      if (!impl_.Sleep(backoff_->Next())) return false;
      return impl_.Resume();
    }

   private:
    Impl& impl_;
    std::optional<Backoff> backoff_;  // most calls need none
    int tries_ = 0;
  };

  // Returns false if the connection is being closed.
  bool Sleep(std::chrono::milliseconds time) {
    MutexLock lock(mutex);
    const auto until = std::chrono::steady_clock::now() + time;
    return !lock.WaitUntil(wake, until, [this]() UOPD_REQUIRES(mutex) { return closing; });
  }

  // Code does not change from run to run, so it is asked for once for every graph.
  void AskForCodeOnce(v1::ExecuteRequest& request) {
    if (request.options().debug() <= kTimesOnly) return;
    if (explained.contains(request.digest())) {
      request.mutable_options()->set_debug(kTimesOnly);
    }
  }

  void ShowDebugText(const v1::ExecuteRequest& request, const v1::ExecuteResponse& response) {
    if (request.options().debug() > kTimesOnly) {
      if (explained.size() >= kMaxExplained) explained.clear();
      explained.insert(request.digest());
    }
    const std::string& text = response.debug_text();
    if (text.empty()) return;
    if (options.debug_text) return options.debug_text(text);
    std::fwrite(text.data(), 1, text.size(), stderr);
  }

  // Resumes the session after a disconnect. False if the session is gone. True if the daemon cannot
  // be reached, because it may still have the session.
  bool Resume() {
    grpc::ClientContext context;
    Prepare(context);
    context.set_wait_for_ready(false);
    v1::OpenSessionRequest request;
    request.set_resume_token(resume_token);
    v1::OpenSessionResponse response;
    const grpc::Status status = stub->OpenSession(&context, request, &response);
    if (status.error_code() == grpc::UNAVAILABLE) return true;
    if (!status.ok() || response.session_id() != session_id) return false;
    resume_token = response.resume_token();
    return true;
  }

  // Any call renews the lease. The smallest one is CreateBuffers without buffers.
  void RenewUntilClosed() {
    MutexLock lock(mutex);
    while (!closing) {
      const auto next = std::chrono::steady_clock::now() + ttl / 3;
      if (lock.WaitUntil(wake, next, [this]() UOPD_REQUIRES(mutex) { return closing; })) return;
      grpc::ClientContext context;
      PrepareFor(context, std::chrono::seconds(2));
      v1::CreateBuffersRequest request;
      request.set_session_id(session_id);
      v1::CreateBuffersResponse response;
      // A failure is ignored: the next call of the client will report it.
      stub->CreateBuffers(&context, request, &response).ok();
    }
  }

  absl::Status Explained(const grpc::Status& status) const {
    if (MissingKind(status) == "session") {
      return absl::FailedPreconditionError(
          Cat("the session on ", options.address, " has ended, and its tensors with it"));
    }
    absl::Status out = FromGrpc(status);
    return absl::IsUnavailable(out) ? WithFrame(out, Cat("calling the daemon at ", options.address))
                                    : out;
  }
};

Connection::Connection(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::shared_ptr<Connection>> Connection::Connect(ConnectOptions options) {
  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxReceive);
  arguments.SetMaxSendMessageSize(-1);
  impl->stub = v1::UopdService::NewStub(grpc::CreateCustomChannel(
      impl->options.address, grpc::InsecureChannelCredentials(), arguments));
  v1::HelloRequest hello;
  hello.set_api_version_min(kApiVersion);
  hello.set_api_version_max(kApiVersion);
  hello.set_ir_version(ir::kIrVersion);
  hello.set_client(impl->options.client_name);
  grpc::Status status =
      impl->Call(&v1::UopdService::Stub::Hello, hello, &impl->hello, nullptr, false);
  if (!status.ok()) return impl->Explained(status);
  if (impl->hello.api_version() != kApiVersion || impl->hello.ir_version() != ir::kIrVersion) {
    return absl::FailedPreconditionError(Cat(
        "the daemon speaks API ", impl->hello.api_version(), " and IR ", impl->hello.ir_version(),
        ", this client API ", kApiVersion, " and IR ", ir::kIrVersion));
  }
  v1::OpenSessionRequest open;
  open.set_ttl_ms(static_cast<uint64_t>(absl::ToInt64Milliseconds(impl->options.ttl)));
  v1::OpenSessionResponse session;
  status = impl->Call(&v1::UopdService::Stub::OpenSession, open, &session, nullptr, false);
  if (!status.ok()) return impl->Explained(status);
  impl->session_id = session.session_id();
  impl->resume_token = session.resume_token();
  impl->ttl = std::chrono::milliseconds(std::max<uint64_t>(session.ttl_ms(), 300));
  impl->renewer = std::thread([i = impl.get()] { i->RenewUntilClosed(); });
  return std::shared_ptr<Connection>(new Connection(std::move(impl)));
}

Connection::~Connection() {
  {
    MutexLock lock(impl_->mutex);
    impl_->closing = true;
  }
  impl_->wake.notify_all();
  impl_->renewer.join();
  grpc::ClientContext context;
  impl_->PrepareFor(context, std::chrono::seconds(2));
  v1::CloseSessionRequest request;
  request.set_session_id(impl_->session_id);
  v1::CloseSessionResponse response;
  impl_->stub->CloseSession(&context, request, &response).ok();  // if it fails, the lease expires
}

const v1::HelloResponse& Connection::hello() const { return impl_->hello; }

uint64_t Connection::max_message_bytes() const { return impl_->hello.limits().max_message_bytes(); }

absl::StatusOr<v1::ExecuteResponse> Connection::Execute(v1::ExecuteRequest& request) {
  request.set_session_id(impl_->session_id);
  impl_->AskForCodeOnce(request);
  v1::ExecuteResponse response;
  const grpc::Status status = impl_->Call(&v1::UopdService::Stub::Execute, request, &response,
                                          &traffic_.execute_bytes, request.request_id() != 0);
  if (status.ok()) {
    impl_->ShowDebugText(request, response);
    return response;
  }
  // A caller that sees NOT_FOUND sends the graph. So only an unknown program may be NOT_FOUND here.
  if (MissingKind(status) == "buffer")
    return WithFrame(absl::InternalError(status.error_message()), "using a buffer of this session");
  return impl_->Explained(status);
}

absl::Status Connection::Upload(uint64_t handle, std::string_view device, std::string_view bytes) {
  grpc::Status status;
  Impl::Retry retry(*impl_);
  do {  // writing the same bytes again is harmless
    grpc::ClientContext context;
    impl_->Prepare(context);
    v1::UploadResponse response;
    auto writer = impl_->stub->Upload(&context, &response);
    v1::UploadRequest request;
    request.set_session_id(impl_->session_id);
    request.mutable_buffer()->set_handle(handle);
    request.mutable_buffer()->set_bytes(bytes.size());
    request.mutable_buffer()->set_device(std::string(device));
    size_t at = 0;
    do {
      const std::string_view chunk = bytes.substr(at, kChunk);
      request.set_data(chunk.data(), chunk.size());
      traffic_.upload_bytes += request.ByteSizeLong();
      if (!writer->Write(request)) break;
      at += chunk.size();
      request.Clear();
    } while (at < bytes.size());
    writer->WritesDone();
    status = writer->Finish();
    if (status.ok() && response.bytes() != bytes.size()) {
      return absl::InternalError(
          Cat("the daemon took ", response.bytes(), " bytes of ", bytes.size()));
    }
  } while (retry.Again(status));
  if (status.ok()) return absl::OkStatus();
  return impl_->Explained(status);
}

absl::StatusOr<std::string> Connection::Download(uint64_t handle, uint64_t bytes) {
  grpc::Status status;
  Impl::Retry retry(*impl_);
  do {
    grpc::ClientContext context;
    impl_->Prepare(context);
    v1::DownloadRequest request;
    request.set_session_id(impl_->session_id);
    request.set_handle(handle);
    traffic_.other_bytes += request.ByteSizeLong();
    auto reader = impl_->stub->Download(&context, request);
    std::string out;
    out.reserve(bytes);
    v1::DownloadResponse part;
    while (reader->Read(&part)) {
      if (out.size() + part.data().size() > bytes) {
        context.TryCancel();
        break;
      }
      out += part.data();
    }
    status = reader->Finish();
    if (status.ok()) return out;
  } while (retry.Again(status));
  return impl_->Explained(status);
}

absl::Status Connection::CancelExecute(uint64_t request_id) {
  v1::CancelExecuteRequest request;
  request.set_session_id(impl_->session_id);
  request.set_request_id(request_id);
  v1::CancelExecuteResponse response;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  const grpc::Status status = impl_->stub->CancelExecute(&context, request, &response);
  return status.ok() ? absl::OkStatus() : impl_->Explained(status);
}

absl::StatusOr<v1::PrepareResponse> Connection::Prepare(v1::PrepareRequest& request) {
  request.set_session_id(impl_->session_id);
  v1::PrepareResponse response;
  const grpc::Status status =
      impl_->Call(&v1::UopdService::Stub::Prepare, request, &response, &traffic_.other_bytes, true);
  if (!status.ok()) return impl_->Explained(status);
  return response;
}

#define UOPD_UNARY(name)
#define UOPD_QUERY(name)                                                                      \
  absl::StatusOr<v1::name##Response> Connection::name(const v1::name##Request& request) {     \
    v1::name##Response response;                                                              \
    const grpc::Status status = impl_->Call(&v1::UopdService::Stub::name, request, &response, \
                                            &traffic_.other_bytes, true);                     \
    if (!status.ok()) return impl_->Explained(status);                                        \
    return response;                                                                          \
  }
#define UOPD_STREAM(name)
#include "proto/methods.def"
#undef UOPD_UNARY
#undef UOPD_QUERY
#undef UOPD_STREAM

}  // namespace uopd::client
