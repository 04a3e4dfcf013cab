// SPDX-License-Identifier: MIT
#include "tests/chaos/caller.h"

#include "core/base/text.h"

namespace uopd::chaos {

std::unique_ptr<Stub> Connect(const std::string& address) {
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(-1);
  args.SetMaxSendMessageSize(-1);
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return v1::UopdService::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args));
}

std::chrono::system_clock::time_point In(double seconds) {
  return std::chrono::system_clock::now() +
         std::chrono::duration_cast<std::chrono::system_clock::duration>(
             std::chrono::duration<double>(seconds));
}

v1::Argument Data(std::string bytes) {
  v1::Argument out;
  out.set_data(std::move(bytes));
  return out;
}

v1::Argument Buffer(uint64_t handle) {
  v1::Argument out;
  out.set_buffer(handle);
  return out;
}

v1::Argument Returned(uint64_t handle) {
  v1::Argument out = Buffer(handle);
  out.set_return_data(true);
  return out;
}

bool Caller::Ready(bool* fresh) {
  if (fresh != nullptr) *fresh = false;
  while (!world_.Over()) {
    const auto place = world_.Where();
    if (!place) return false;
    if (stub_ == nullptr || place->generation != place_.generation) {
      place_ = *place;
      stub_ = Connect(place_.grpc);
      session_.clear();
    }
    if (!session_.empty()) return true;
    v1::OpenSessionResponse response;
    const Verdict opened = Call(
        "OpenSession",
        [&](Stub& stub, grpc::ClientContext& context) {
          // gRPC 1.51 reads errno too late after connect(): a connection that is under way can fail
          // with the error of another call, for example "No such file or directory". Such a
          // connection is tried again. A daemon that refuses connections runs into the deadline.
          context.set_wait_for_ready(true);
          return stub.OpenSession(&context, {}, &response);
        },
        kPatienceToConnect);
    if (opened == kOk) {
      session_ = response.session_id();
      if (fresh != nullptr) *fresh = true;
      return true;
    }
    if (opened == kFailed) world_.Pause(0.2);
  }
  return false;
}

void Caller::Close() {
  if (session_.empty() || world_.generation() != place_.generation) return;
  grpc::ClientContext context;
  context.set_deadline(In(10));
  v1::CloseSessionRequest request;
  request.set_session_id(session_);
  v1::CloseSessionResponse response;
  stub_->CloseSession(&context, request, &response);
  session_.clear();
}

Caller::Verdict Caller::Call(const std::string& what, const Fn& call, double deadline_s) {
  grpc::ClientContext context;
  context.set_deadline(In(deadline_s));
  const double start = Now();
  const grpc::Status status = call(*stub_, context);
  return Judge(what, status, Now() - start);
}

Caller::Verdict Caller::Judge(const std::string& what, const grpc::Status& status, double seconds) {
  world_.report().Count("calls");
  if (status.ok()) return kOk;
  if (world_.generation() != place_.generation) {
    world_.report().Count("calls_cut_by_a_kill");
    return kDisturbed;
  }
  if (world_.Over()) return kDisturbed;  // the daemon may be stopping
  const std::string text = Cat(name_, ": ", what, ": code ", static_cast<int>(status.error_code()),
                               " after ", seconds, " s: ", status.error_message());
  world_.report().Violation(
      status.error_code() == grpc::StatusCode::INTERNAL ? "internal" : "avoidable_error", text);
  return kFailed;
}

Caller::Verdict Caller::Execute(const std::string& what, const v1::ExecuteRequest& request,
                                v1::ExecuteResponse* response) {
  return Call(what, [&](Stub& stub, grpc::ClientContext& context) {
    return stub.Execute(&context, request, response);
  });
}

Caller::Verdict Caller::Prepare(const std::string& graph, v1::PrepareResponse* response) {
  v1::PrepareRequest request;
  request.set_session_id(session_);
  request.set_graph(graph);
  return Call("Prepare", [&](Stub& stub, grpc::ClientContext& context) {
    return stub.Prepare(&context, request, response);
  });
}

Caller::Verdict Caller::Upload(uint64_t handle, const std::string& data) {
  return Call("Upload", [&](Stub& stub, grpc::ClientContext& context) {
    v1::UploadResponse response;
    auto writer = stub.Upload(&context, &response);
    v1::UploadRequest message;
    message.set_session_id(session_);
    message.mutable_buffer()->set_handle(handle);
    message.mutable_buffer()->set_bytes(data.size());
    for (size_t at = 0; at < data.size(); at += size_t{1} << 20) {
      message.set_data(data.substr(at, size_t{1} << 20));
      if (!writer->Write(message)) break;
      message.Clear();
    }
    writer->WritesDone();
    return writer->Finish();
  });
}

Caller::Verdict Caller::Download(uint64_t handle, std::string* out) {
  out->clear();
  return Call("Download", [&](Stub& stub, grpc::ClientContext& context) {
    v1::DownloadRequest request;
    request.set_session_id(session_);
    request.set_handle(handle);
    auto reader = stub.Download(&context, request);
    for (v1::DownloadResponse chunk; reader->Read(&chunk);) *out += chunk.data();
    return reader->Finish();
  });
}

Caller::Verdict Caller::Free(const std::vector<uint64_t>& handles) {
  v1::FreeBuffersRequest request;
  request.set_session_id(session_);
  for (const uint64_t handle : handles) request.add_handles(handle);
  v1::FreeBuffersResponse response;
  return Call("FreeBuffers", [&](Stub& stub, grpc::ClientContext& context) {
    return stub.FreeBuffers(&context, request, &response);
  });
}

void Caller::Check(bool right, const std::string& what) {
  world_.report().Count("results_checked");
  if (!right) world_.report().Violation("wrong_result", Cat(name_, ": ", what));
}

}  // namespace uopd::chaos
