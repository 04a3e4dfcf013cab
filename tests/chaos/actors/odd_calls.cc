// SPDX-License-Identifier: MIT
// Every call with senseless numbers and texts: sizes, offsets, handles, tokens, digests.
#include "core/base/digest.h"
#include "core/base/text.h"
#include "tests/chaos/actor.h"
#include "tests/chaos/guest.h"
#include "tests/e2e/graphs.h"

namespace uopd::chaos::odd_calls {
namespace {

constexpr double kDeadline = 2;

class Odd {
 public:
  Odd(World& world, int copy)
      : world_(world), random_(world.Random("odd_calls", copy)), guest_(world, "odd_calls") {}

  void Run() {
    while (guest_.Await()) {
      OneCall();
      world_.report().Count("odd_calls");
      if (Below(8) == 0) world_.Pause(0.02);
    }
  }

 private:
  uint64_t Below(uint64_t n) { return random_() % n; }

  uint64_t Number() {
    static constexpr uint64_t kEdges[] = {0,
                                          1,
                                          2,
                                          7,
                                          1 << 10,
                                          1 << 20,
                                          1 << 26,
                                          uint64_t{1} << 31,
                                          UINT32_MAX,
                                          uint64_t{1} << 40,
                                          uint64_t{1} << 62,
                                          uint64_t{1} << 63,
                                          UINT64_MAX};
    return Below(4) == 0 ? random_() >> Below(64) : kEdges[Below(std::size(kEdges))];
  }
  uint64_t Handle() { return Below(3) == 0 ? Number() : 1 + Below(4); }
  std::string Text() {
    std::string out(Below(3) == 0 ? Below(5000) : Below(40), '\0');
    for (char& c : out) c = static_cast<char>('!' + Below(90));
    return out;
  }
  std::string Session() { return Below(12) == 0 ? Text() : guest_.session(); }
  std::string Device() { return Below(2) == 0 ? "" : Below(2) == 0 ? "CPU:0" : Text(); }

  // Fills the header of an upload.
  v1::UploadRequest UploadMessage() {
    v1::UploadRequest out;
    out.set_session_id(Session());
    out.mutable_buffer()->set_handle(Handle());
    out.mutable_buffer()->set_bytes(Number());
    out.mutable_buffer()->set_device(Device());
    out.set_offset(Below(3) == 0 ? Number() : 0);
    out.set_data(std::string(Below(3) == 0 ? Below(2 << 20) : Below(100), 'x'));
    return out;
  }

  // Some are the contents of uploads, with their SHA-256 or another one.
  v1::OpenContentsRequest ContentsMessage() {
    v1::OpenContentsRequest out;
    out.set_session_id(Session());
    for (uint64_t n = Below(Below(20) == 0 ? 5000 : 6); n > 0; --n) {
      v1::NamedContent& content = *out.add_contents();
      const std::string uploaded(Below(100), 'x');
      content.mutable_buffer()->set_handle(Handle());
      content.mutable_buffer()->set_bytes(Below(3) == 0 ? Number() : uploaded.size());
      content.mutable_buffer()->set_device(Device());
      content.set_sha256(Below(4) == 0 ? Text() : std::string(HashBytes(uploaded).view()));
      if (Below(2) == 0)
        content.set_proof(Below(4) == 0 ? Text() : std::string(HashBytes("proof").view()));
    }
    return out;
  }

  v1::ExecuteRequest ExecuteMessage() {
    v1::ExecuteRequest out;
    out.set_session_id(Session());
    out.set_request_id(Below(4));
    if (Below(3) == 0) out.set_digest(Text());
    if (Below(4) != 0) out.set_graph(e2e::AddGraph(1 + static_cast<int64_t>(Below(50))));
    for (uint64_t n = Below(6); n > 0; --n) {
      v1::Argument& argument = *out.add_arguments();
      if (Below(2) == 0) argument.set_buffer(Handle());
      if (Below(2) == 0) argument.set_data(std::string(Below(300), 'y'));
      argument.set_return_data(Below(2) == 0);
    }
    for (uint64_t n = Below(3); n > 0; --n) out.add_variables(static_cast<int64_t>(Number()));
    for (uint64_t n = Below(4); n > 0; --n) out.add_free_buffers(Handle());
    out.mutable_options()->set_debug(static_cast<uint32_t>(Below(3) == 0 ? Number() : 0));
    out.mutable_options()->set_noopt(Below(4) == 0);
    out.mutable_options()->set_fast_math(Below(4) == 0);
    return out;
  }

  template <class Request, class Response>
  void Unary(grpc::Status (Stub::*call)(grpc::ClientContext*, const Request&, Response*),
             const Request& request, const char* name) {
    grpc::ClientContext context;
    guest_.Limit(context, kDeadline);
    Response response;
    guest_.Note(name, (guest_.stub().*call)(&context, request, &response));
  }

  void OneCall() {
    switch (Below(12)) {
      case 0: {
        v1::HelloRequest request;
        request.set_api_version_min(static_cast<uint32_t>(Below(3)));
        request.set_api_version_max(static_cast<uint32_t>(Number()));
        request.set_ir_version(static_cast<uint32_t>(Below(3)));
        request.set_client(Text());
        return Unary(&Stub::Hello, request, "Hello");
      }
      case 1: {
        v1::OpenSessionRequest request;
        request.set_ttl_ms(Number() % 4000);  // longer sessions would outlive the run
        if (Below(3) == 0) request.set_resume_token(Text());
        return Unary(&Stub::OpenSession, request, "OpenSession");
      }
      case 2: {
        v1::CloseSessionRequest request;
        request.set_session_id(Session());
        Unary(&Stub::CloseSession, request, "CloseSession");
        return guest_.Drop();
      }
      case 3: {
        v1::CreateBuffersRequest request;
        request.set_session_id(Session());
        for (uint64_t n = Below(20); n > 0; --n) {
          v1::BufferSpec& spec = *request.add_buffers();
          spec.set_handle(Handle()), spec.set_bytes(Number()), spec.set_device(Device());
        }
        return Unary(&Stub::CreateBuffers, request, "CreateBuffers");
      }
      case 4: {
        v1::FreeBuffersRequest request;
        request.set_session_id(Session());
        for (uint64_t n = Below(20); n > 0; --n) request.add_handles(Handle());
        return Unary(&Stub::FreeBuffers, request, "FreeBuffers");
      }
      case 5:
        return Upload();
      case 6:
        return Download();
      case 7:
        return Pipeline();
      case 8:
        return Unary(&Stub::GetCacheStats, v1::GetCacheStatsRequest(), "GetCacheStats");
      case 9: {
        v1::ExplainCacheRequest request;
        if (Below(2) == 0) request.mutable_a()->set_digest(Text());
        if (Below(2) == 0) request.mutable_b()->set_graph(Text());
        return Unary(&Stub::ExplainCache, request, "ExplainCache");
      }
      case 10:
        return Unary(&Stub::OpenContents, ContentsMessage(), "OpenContents");
      default:
        return Unary(&Stub::Execute, ExecuteMessage(), "Execute");
    }
  }

  void Upload() {
    grpc::ClientContext context;
    guest_.Limit(context, kDeadline);
    v1::UploadResponse response;
    const auto writer = guest_.stub().Upload(&context, &response);
    for (uint64_t n = Below(4); n > 0 && writer->Write(UploadMessage()); --n) {
    }
    writer->WritesDone();
    guest_.Note("Upload", writer->Finish());
  }

  void Download() {
    grpc::ClientContext context;
    guest_.Limit(context, kDeadline);
    v1::DownloadRequest request;
    request.set_session_id(Session());
    request.set_handle(Handle());
    request.set_offset(Below(2) == 0 ? 0 : Number());
    request.set_bytes(Below(2) == 0 ? 0 : Number());
    const auto reader = guest_.stub().Download(&context, request);
    uint64_t left = Below(4);
    for (v1::DownloadResponse chunk; reader->Read(&chunk);) {
      if (left-- == 0) context.TryCancel();
    }
    guest_.Note("Download", reader->Finish());
  }

  void Pipeline() {
    grpc::ClientContext context;
    guest_.Limit(context, kDeadline);
    const auto stream = guest_.stub().Pipeline(&context);
    for (uint64_t n = Below(8); n > 0; --n) {
      v1::PipelineRequest message;
      switch (Below(5)) {
        case 0:
          break;  // no call
        case 1:
          *message.mutable_upload() = UploadMessage();
          break;
        case 2:
          message.mutable_free_buffers()->set_session_id(Session());
          message.mutable_free_buffers()->add_handles(Handle());
          break;
        case 3:
          message.mutable_create_buffers()->set_session_id(Session());
          message.mutable_create_buffers()->add_buffers()->set_bytes(Number());
          break;
        default:
          *message.mutable_execute() = ExecuteMessage();
      }
      if (!stream->Write(message)) break;
    }
    stream->WritesDone();
    for (v1::PipelineResponse answer; stream->Read(&answer);) {
      guest_.Note("Pipeline", {static_cast<grpc::StatusCode>(answer.code()), answer.message()});
    }
    guest_.Note("Pipeline", stream->Finish());
  }

  World& world_;
  std::mt19937_64 random_;
  Guest guest_;
};

const Register kRegister({.name = "odd_calls",
                          .doc = "every call with numbers and texts that nobody means",
                          .copies = 1,
                          .act = [](World& world, int copy) { Odd(world, copy).Run(); }});

}  // namespace
}  // namespace uopd::chaos::odd_calls
