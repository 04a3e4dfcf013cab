// SPDX-License-Identifier: MIT
// What each message asks of the engine: messages in, messages out, no threads and no streams.
//
// Functions with a Session run on its strand. Errors are the engine's.
#pragma once
#include "server/engine/engine.h"
#include "uopd/v1/uopd.pb.h"

namespace uopd::rpc {

inline constexpr uint32_t kApiVersion = 1;
inline constexpr uint64_t kMaxChunkBytes = 1 << 20;

struct ServiceLimits {
  uint64_t max_message_bytes = 0, max_graph_nodes = 0, session_bytes = 0;
};

engine::CompileOptions ToCompileOptions(const v1::Options& options);

absl::Status Hello(engine::Engine& engine, const ServiceLimits& limits,
                   const v1::HelloRequest& request, v1::HelloResponse* response);
absl::Status OpenSession(engine::Engine& engine, const std::string& peer,
                         const v1::OpenSessionRequest& request, v1::OpenSessionResponse* response);
absl::Status CreateBuffers(engine::Engine& engine, engine::Session& session,
                           const v1::CreateBuffersRequest& request);
void FreeBuffers(engine::Session& session, const v1::FreeBuffersRequest& request);
absl::Status Prepare(engine::Engine& engine, engine::RequestContext& context,
                     const v1::PrepareRequest& request, v1::PrepareResponse* response);
absl::Status Execute(engine::Engine& engine, engine::RequestContext& context,
                     engine::Session& session, const v1::ExecuteRequest& request,
                     v1::ExecuteResponse* response);
absl::Status CancelExecute(engine::Session& session, const v1::CancelExecuteRequest& request);
absl::Status Run(engine::Engine& engine, engine::RequestContext& context,
                 const v1::RunRequest& request, v1::RunResponse* response);
// One message of an upload; `expected` is where its data go, and then where those of the next one
// do.
absl::Status WriteChunk(engine::Engine& engine, engine::Session& session, uint64_t handle,
                        const std::string& data, uint64_t* expected);

// The program that a call needs.
struct Wanted {
  engine::GraphRef graph;  // borrows from the message
  engine::CompileOptions options;
};
Wanted WantedBy(const v1::PrepareRequest& request);
Wanted WantedBy(const v1::ExecuteRequest& request);
Wanted WantedBy(const v1::RunRequest& request);

// True when the call takes microseconds, so that the receiving thread may do it.
bool IsQuick(engine::Engine& engine, const v1::ExecuteRequest& request);
bool IsQuick(engine::Engine& engine, const v1::RunRequest& request);
bool IsQuick(const v1::CreateBuffersRequest& request);

}  // namespace uopd::rpc
