// SPDX-License-Identifier: MIT
// Maps each message to calls of the engine: messages in, messages out, no gRPC streams.
//
// Functions with a Session run on its strand. Errors are those of the engine.
#pragma once
#include "server/engine/engine.h"
#include "uopd/v1/uopd.pb.h"

namespace uopd::rpc {

inline constexpr uint32_t kApiVersion = 1;
inline constexpr uint64_t kMaxChunkBytes = 1 << 20;
inline constexpr char kSideSuffix[] = ".side";

struct ServiceLimits {
  uint64_t max_message_bytes = 0, max_graph_nodes = 0, session_bytes = 0;
};

engine::CompileOptions ToCompileOptions(const v1::Options& options);

absl::Status Hello(engine::Engine& engine, const ServiceLimits& limits,
                   const v1::HelloRequest& request, v1::HelloResponse* response);
// `side`: the daemon has a side socket, so the answer has a token for it.
absl::Status OpenSession(engine::Engine& engine, const engine::Opener& opener, bool side,
                         const v1::OpenSessionRequest& request, v1::OpenSessionResponse* response);
absl::Status OpenContents(engine::Engine& engine, engine::Session& session,
                          const WorkLimits& limits, const v1::OpenContentsRequest& request,
                          v1::OpenContentsResponse* response);
absl::Status CreateBuffers(engine::Engine& engine, engine::Session& session,
                           const v1::CreateBuffersRequest& request);
void FreeBuffers(engine::Session& session, const v1::FreeBuffersRequest& request);
// These three functions call `done` when the answer is complete, on any thread, perhaps before they
// return. Until then all arguments stay where they are.
using Done = absl::AnyInvocable<void(absl::Status)>;
using Where = engine::ExecuteCall::Where;
// What a request asks for. The first step of each of these calls.
engine::ResolvedRequest Resolve(engine::Engine& engine, const v1::PrepareRequest& request);
engine::ResolvedRequest Resolve(engine::Engine& engine, const v1::ExecuteRequest& request);
engine::ResolvedRequest Resolve(engine::Engine& engine, const v1::RunRequest& request);
// A call with its message and what that asks for.
template <class Request, class Response>
struct ResolvedCall {
  engine::RequestContext& context;
  engine::ResolvedRequest wanted;
  const Request& request;
  Response* response;
};
using PrepareCall = ResolvedCall<v1::PrepareRequest, v1::PrepareResponse>;
using ExecuteCall = ResolvedCall<v1::ExecuteRequest, v1::ExecuteResponse>;
using OneRunCall = ResolvedCall<v1::RunRequest, v1::RunResponse>;
void Prepare(engine::Engine& engine, PrepareCall call, Done done);
void Execute(engine::Engine& engine, engine::Session& session, ExecuteCall call, Done done);
absl::Status CancelExecute(engine::Session& session, const v1::CancelExecuteRequest& request);
void Run(engine::Engine& engine, Where where, OneRunCall call, Done done);
// Writes one message of an upload. `expected` is the offset at which its data must begin. It is
// then set to the offset for the next message.
absl::Status WriteChunk(engine::Engine& engine, engine::Session& session, uint64_t handle,
                        const std::string& data, uint64_t* expected);
// Reads at most one chunk of a buffer, into `data` or where the request says.
absl::Status ReadChunk(engine::Engine& engine, engine::Session& session,
                       const v1::DownloadRequest& request, std::string* data);
// An upload of a pipeline: one chunk, in the message or where the message says.
absl::Status UploadChunk(engine::Engine& engine, engine::Session& session,
                         const v1::UploadRequest& request);

// True if the call takes only microseconds, so that the receiving thread may run it.
bool IsQuick(const engine::ResolvedRequest& wanted, const v1::ExecuteRequest& request);
bool IsQuick(const engine::ResolvedRequest& wanted, const v1::RunRequest& request);
bool IsQuick(const v1::CreateBuffersRequest& request);
bool IsQuick(const engine::Session& session, const v1::UploadRequest& request);

}  // namespace uopd::rpc
