// SPDX-License-Identifier: MIT
#include "client/cpp/net/session.h"

#include <cstdio>
#include <utility>

#include "client/cpp/net/grpc_status.h"
#include "core/base/process_name.h"
#include "core/base/text.h"
#include "core/ir/io/wire.h"

namespace uopd::client {
namespace {

constexpr size_t kUploadChunk = 1 << 20;
constexpr int kMaxReceive =
    256 << 20;  // only has to exceed what the daemon sends, which has its own limits
constexpr uint32_t kTimesOnly = 2;  // DEBUG=2 and less has no code
constexpr size_t kMaxExplained = 4096;
constexpr int kCallTries = 5;  // with the waits between them about a second in total

constexpr std::chrono::seconds kMostConnecting{1};  // that a fork waits for

// So the daemon frees the session soon after this process has ended, if both are on one machine.
void NameThisProcess(v1::ClientProcess& out) {
  const ProcessName name = ProcessName::OfThisProcess();
  out.set_boot_id(name.boot_id);
  out.set_pid_namespace(name.pid_namespace);
  out.set_pid(name.pid);
  out.set_start_time(name.start_time);
}

}  // namespace

// The tries of one call.
class Session::Retry {
 public:
  explicit Retry(Session& session) : session_(session) {}
  // True if the call should be sent once more: the transport or the session was lost, and the
  // session has been resumed or the daemon may come back. Waits before it returns true.
  bool Again(const grpc::Status& status) {
    const bool opens = session_.id().empty();
    // Nobody cancels the calls that open a session but a daemon that ends.
    const bool ended = opens && status.error_code() == grpc::CANCELLED;
    const bool leaving = ended || IsLeaving(status);
    const bool lost =
        leaving || status.error_code() == grpc::UNAVAILABLE || MissingKind(status) == "session";
    left_ = left_ || leaving;
    if (IsLeaving(status)) said_ = status;
    if (!lost || ++tries_ == (left_ ? kTriesOfRestart : kCallTries)) return false;
    if (opens && !left_) return false;
    if (!backoff_) backoff_.emplace(std::random_device()());
    if (!session_.Sleep(backoff_->Next())) return false;
    if (leaving) session_.Reconnect();
    return opens || session_.Resume().resumed != Resumed::kGone;
  }

  // The error to show after the last try: a daemon that said why it does not serve counts for more
  // than that nobody answered later.
  grpc::Status Shown(const grpc::Status& last) const {
    const bool silent =
        last.error_code() == grpc::UNAVAILABLE || last.error_code() == grpc::CANCELLED;
    return silent && !said_.ok() ? said_ : last;
  }

 private:
  Session& session_;
  std::optional<Backoff> backoff_;  // most calls need none
  grpc::Status said_;               // by the daemon that is shutting down
  bool left_ = false;               // a daemon said that it is shutting down
  int tries_ = 0;
};

std::string Session::id() const {
  MutexLock lock(mutex_);
  return session_id_;
}

void Session::AddCredentials(grpc::ClientContext& context) const {
  if (!options_.credentials.token.empty())
    context.AddMetadata("authorization", Cat("Bearer ", options_.credentials.token));
}

void Session::FillFor(grpc::ClientContext& context, std::chrono::milliseconds timeout) const {
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  AddCredentials(context);
}
void Session::Fill(grpc::ClientContext& context) const {
  FillFor(context, absl::ToChronoMilliseconds(options_.timeout));
}

// Sends a request. Sends it again if the transport failed and `again` says that this is safe.
template <class Request, class Response>
grpc::Status Session::CallOnce(grpc::Status (v1::UopdService::Stub::*method)(grpc::ClientContext*,
                                                                             const Request&,
                                                                             Response*),
                               const Request& request, Response* response, bool again) {
  grpc::Status status;
  Retry retry(*this);
  do {
    grpc::ClientContext context;
    Fill(context);
    const auto stub = stub_.get();
    status = (stub.get()->*method)(&context, request, response);
  } while (again && retry.Again(status));
  return retry.Shown(status);
}

bool Session::Sleep(std::chrono::milliseconds time) {
  MutexLock lock(mutex_);
  const auto until = std::chrono::steady_clock::now() + time;
  return !lock.WaitUntil(wake_, until,
                         [this]() UOPD_REQUIRES(mutex_) { return closing_ || paused_; });
}

void Session::StopSleeping() {
  {
    MutexLock lock(mutex_);
    closing_ = true;
  }
  wake_.notify_all();
}

void Session::StopWaiting() {
  {
    MutexLock lock(mutex_);
    paused_ = true;
  }
  wake_.notify_all();
}

void Session::Pause() {
  StopWaiting();
  renewer_.join();
  // A channel that ends while it connects leaves work to gRPC which nobody would do, so that gRPC
  // would not shut down for as long as connecting may take.
  const auto until = std::chrono::system_clock::now() + kMostConnecting;
  while (channel_->GetState(false) == GRPC_CHANNEL_CONNECTING &&
         channel_->WaitForStateChange(GRPC_CHANNEL_CONNECTING, until)) {
  }
  stub_.Set(nullptr);
  channel_.reset();
}

void Session::Reconnect() {
  MutexLock lock(mutex_);
  if (!paused_) OpenChannel();
}

void Session::Continue() {
  OpenChannel();
  {
    MutexLock lock(mutex_);
    paused_ = false;
  }
  renewer_ = std::thread([this] { RenewUntilClosed(); });
}

void Session::OpenChannel() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxReceive);
  arguments.SetMaxSendMessageSize(-1);
  // Otherwise gRPC shares the transports of all channels to an address: a new one would begin with
  // a transport of an older one that broke when the daemon ended, which nobody has noticed yet.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // While the daemon is away, Backoff says when to try again. After its own waits gRPC would refuse
  // calls that come when the daemon is back.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, Backoff::kFirst.count() / 2);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, Backoff::kFirst.count() / 2);
  channel_ =
      grpc::CreateCustomChannel(options_.address, grpc::InsecureChannelCredentials(), arguments);
  stub_.Set(v1::UopdService::NewStub(channel_));
}

void Session::AskForCodeOnce(v1::ExecuteRequest& request) {
  if (request.options().debug() <= kTimesOnly) return;
  MutexLock lock(mutex_);
  if (explained_.contains(request.digest())) request.mutable_options()->set_debug(kTimesOnly);
}

void Session::ShowDebugText(const v1::ExecuteRequest& request,
                            const v1::ExecuteResponse& response) {
  if (request.options().debug() > kTimesOnly) {
    MutexLock lock(mutex_);
    if (explained_.size() >= kMaxExplained) explained_.clear();
    explained_.insert(request.digest());
  }
  const std::string& text = response.debug_text();
  if (text.empty()) return;
  if (options_.debug_text) return options_.debug_text(text);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

Session::Resumption Session::Resume() {
  grpc::ClientContext context;
  Fill(context);
  context.set_wait_for_ready(false);
  v1::OpenSessionRequest request;
  NameThisProcess(*request.mutable_process());
  {
    MutexLock lock(mutex_);
    request.set_resume_token(resume_token_);
  }
  v1::OpenSessionResponse response;
  const grpc::Status status = stub_->OpenSession(&context, request, &response);
  // Whatever else the daemon says, it may still have the session.
  if (!status.ok() && status.error_code() != grpc::NOT_FOUND)
    return {.resumed = Resumed::kNotNow, .why = Explained(status)};
  if (!status.ok() || response.session_id() != id()) return {.resumed = Resumed::kGone};
  Note(response);
  return {.resumed = Resumed::kYes, .last_sequence = response.last_sequence()};
}

absl::StatusOr<Session::Opened> Session::OpenAnother() {
  UOPD_ASSIGN(const v1::HelloResponse hello, SayHello(false));
  v1::OpenSessionResponse response;
  UOPD_TRY(OpenOne(static_cast<uint64_t>(ttl_.count()), response, false));
  bool restarted = false;
  {
    MutexLock lock(mutex_);
    restarted = std::exchange(instance_, hello.instance()) != hello.instance();
    content_key_ = hello.content_key();
  }
  max_message_bytes_.store(hello.limits().max_message_bytes(), std::memory_order_relaxed);
  Note(response);
  return Opened{absl::FailedPreconditionError(
      Cat(restarted ? "the daemon at " : "the session on ", options_.address,
          restarted ? " was restarted" : " has ended",
          ", and what it held of this tensor is lost: make the tensor again"))};
}

void Session::Note(const v1::OpenSessionResponse& response) {
  MutexLock lock(mutex_);
  session_id_ = response.session_id();
  resume_token_ = response.resume_token();
  side_ = {response.side().suffix(), response.side().token()};
  has_side_.store(response.has_side(), std::memory_order_relaxed);
}

Session::Side Session::TakeSide() {
  MutexLock lock(mutex_);
  return std::exchange(side_, {});
}

// Any call renews the lease. The smallest one is CreateBuffers without buffers.
void Session::RenewUntilClosed() {
  while (Sleep(ttl_ / 3)) {
    grpc::ClientContext context;
    FillFor(context, std::chrono::seconds(2));
    v1::CreateBuffersRequest request;
    request.set_session_id(id());
    v1::CreateBuffersResponse response;
    // A failure is ignored: the next call of the client will report it.
    stub_->CreateBuffers(&context, request, &response).ok();
  }
}

absl::Status Session::Explained(const absl::Status& status, std::string_view missing_kind) const {
  if (missing_kind == "session") {
    return absl::FailedPreconditionError(
        Cat("the session on ", options_.address, " has ended, and its tensors with it"));
  }
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)
             ? WithFrame(status, Cat("calling the daemon at ", options_.address))
             : status;
}

absl::Status Session::MissingBuffer(const absl::Status& status) {
  return WithFrame(absl::InternalError(StatusText(status)), "using a buffer of this session");
}

absl::Status Session::Explained(const grpc::Status& status) const {
  return Explained(FromGrpc(status), MissingKind(status));
}

absl::StatusOr<v1::HelloResponse> Session::SayHello(bool again) {
  v1::HelloRequest hello;
  hello.set_api_version_min(kApiVersion);
  hello.set_api_version_max(kApiVersion);
  hello.set_ir_version(ir::kIrVersion);
  hello.set_client(options_.client_name);
  v1::HelloResponse out;
  const grpc::Status status = CallOnce(&v1::UopdService::Stub::Hello, hello, &out, again);
  if (!status.ok()) return Explained(status);
  if (out.api_version() != kApiVersion || out.ir_version() != ir::kIrVersion) {
    return absl::FailedPreconditionError(Cat("the daemon speaks API ", out.api_version(),
                                             " and IR ", out.ir_version(), ", this client API ",
                                             kApiVersion, " and IR ", ir::kIrVersion));
  }
  return out;
}

absl::Status Session::OpenOne(uint64_t ttl_ms, v1::OpenSessionResponse& response, bool again) {
  v1::OpenSessionRequest open;
  open.set_ttl_ms(ttl_ms);
  NameThisProcess(*open.mutable_process());
  const grpc::Status status = CallOnce(&v1::UopdService::Stub::OpenSession, open, &response, again);
  return status.ok() ? absl::OkStatus() : Explained(status);
}

absl::StatusOr<std::unique_ptr<Session>> Session::Connect(ConnectOptions options) {
  std::unique_ptr<Session> out(new Session);
  out->options_ = std::move(options);
  out->OpenChannel();
  UOPD_ASSIGN(out->hello_, out->SayHello(true));
  out->max_message_bytes_ = out->hello_.limits().max_message_bytes();
  return out;
}

absl::StatusOr<std::unique_ptr<Session>> Session::Open(ConnectOptions options) {
  UOPD_ASSIGN(std::unique_ptr<Session> out, Connect(std::move(options)));
  Session& s = *out;
  v1::OpenSessionResponse session;
  UOPD_TRY(
      s.OpenOne(static_cast<uint64_t>(absl::ToInt64Milliseconds(s.options_.ttl)), session, true));
  {
    MutexLock lock(s.mutex_);
    s.instance_ = s.hello_.instance();
    s.content_key_ = s.hello_.content_key();
  }
  s.Note(session);
  s.ttl_ = std::chrono::milliseconds(std::max<uint64_t>(session.ttl_ms(), 300));
  s.renewer_ = std::thread([&s] { s.RenewUntilClosed(); });
  return out;
}

Session::~Session() {
  if (!renewer_.joinable()) return;  // it was not opened
  StopSleeping();
  renewer_.join();
  grpc::ClientContext context;
  FillFor(context, std::chrono::seconds(2));
  v1::CloseSessionRequest request;
  request.set_session_id(id());
  v1::CloseSessionResponse response;
  stub_->CloseSession(&context, request, &response).ok();  // if it fails, the lease expires
}

absl::StatusOr<v1::ExecuteResponse> Session::Execute(v1::ExecuteRequest& request) {
  request.set_session_id(id());
  AskForCodeOnce(request);
  v1::ExecuteResponse response;
  const grpc::Status status =
      CallOnce(&v1::UopdService::Stub::Execute, request, &response, request.request_id() != 0);
  if (!status.ok()) {
    const absl::Status error = Explained(status);
    return MissingKind(status) == "buffer" ? MissingBuffer(error) : error;
  }
  ShowDebugText(request, response);
  return response;
}

absl::Status Session::Upload(uint64_t handle, std::string_view device, std::string_view bytes) {
  grpc::Status status;
  Retry retry(*this);
  do {  // writing the same bytes again is harmless
    grpc::ClientContext context;
    Fill(context);
    v1::UploadResponse response;
    auto writer = stub_->Upload(&context, &response);
    v1::UploadRequest request;
    request.set_session_id(id());
    request.mutable_buffer()->set_handle(handle);
    request.mutable_buffer()->set_bytes(bytes.size());
    request.mutable_buffer()->set_device(std::string(device));
    size_t at = 0;
    do {
      const std::string_view chunk = bytes.substr(at, kUploadChunk);
      request.set_data(chunk.data(), chunk.size());
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
  return Explained(status);
}

absl::StatusOr<std::string> Session::Download(uint64_t handle, uint64_t bytes) {
  grpc::Status status;
  Retry retry(*this);
  do {
    grpc::ClientContext context;
    Fill(context);
    v1::DownloadRequest request;
    request.set_session_id(id());
    request.set_handle(handle);
    auto reader = stub_->Download(&context, request);
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
  return Explained(status);
}

Session::Lease Session::lease() const {
  MutexLock lock(mutex_);
  return {session_id_, content_key_};
}

absl::StatusOr<v1::OpenContentsResponse> Session::OpenContents(v1::OpenContentsRequest& request) {
  request.set_session_id(id());
  v1::OpenContentsResponse response;
  const grpc::Status status =
      CallOnce(&v1::UopdService::Stub::OpenContents, request, &response, true);
  if (!status.ok()) return Explained(status);
  return response;
}

absl::Status Session::CancelExecute(RequestIds ids) {
  v1::CancelExecuteRequest request;
  request.set_session_id(id());
  request.set_request_id(ids.first);
  request.set_more(ids.more);
  v1::CancelExecuteResponse response;
  grpc::ClientContext context;
  FillFor(context, std::chrono::seconds(10));
  const grpc::Status status = stub_->CancelExecute(&context, request, &response);
  return status.ok() ? absl::OkStatus() : Explained(status);
}

absl::StatusOr<v1::GetProgressResponse> Session::GetProgress() {
  v1::GetProgressRequest request;
  request.set_session_id(id());
  v1::GetProgressResponse response;
  grpc::ClientContext context;
  FillFor(context, std::chrono::milliseconds(500));
  const grpc::Status status = stub_->GetProgress(&context, request, &response);
  if (!status.ok()) return Explained(status);
  return response;
}

absl::StatusOr<v1::PrepareResponse> Session::Prepare(v1::PrepareRequest& request) {
  request.set_session_id(id());
  v1::PrepareResponse response;
  const grpc::Status status = CallOnce(&v1::UopdService::Stub::Prepare, request, &response, true);
  if (!status.ok()) return Explained(status);
  return response;
}

#define UOPD_UNARY(name, audience)
#define UOPD_QUERY(name, audience)                                                                \
  absl::StatusOr<v1::name##Response> Session::name(const v1::name##Request& request) {            \
    v1::name##Response response;                                                                  \
    const grpc::Status status = CallOnce(&v1::UopdService::Stub::name, request, &response, true); \
    if (!status.ok()) return Explained(status);                                                   \
    return response;                                                                              \
  }
#define UOPD_STREAM(name, audience)
#include "proto/methods.def"
#undef UOPD_UNARY
#undef UOPD_QUERY
#undef UOPD_STREAM

}  // namespace uopd::client
