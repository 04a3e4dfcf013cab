// SPDX-License-Identifier: MIT
// The UopdService of gRPC: which call runs where. Everything it does is elsewhere.
//
// Thread-safe. The engine outlives it.
#pragma once
#include "server/engine/engine.h"
#include "server/rpc/calls.h"
#include "server/rpc/streams.h"
#include "uopd/v1/uopd.grpc.pb.h"

namespace uopd::rpc {

class Service final : public v1::UopdService::CallbackService {
 public:
  Service(engine::Engine& engine, ServiceLimits limits, StreamLimits stream_limits)
      : engine_(engine),
        limits_(limits),
        stream_limits_(stream_limits),
        watch_([&engine] { return WatchLimits{engine.stream_idle(), engine.draining()}; }) {}

  grpc::ServerUnaryReactor* Hello(grpc::CallbackServerContext* context,
                                  const v1::HelloRequest* request,
                                  v1::HelloResponse* response) override;
  grpc::ServerUnaryReactor* OpenSession(grpc::CallbackServerContext* context,
                                        const v1::OpenSessionRequest* request,
                                        v1::OpenSessionResponse* response) override;
  grpc::ServerUnaryReactor* CloseSession(grpc::CallbackServerContext* context,
                                         const v1::CloseSessionRequest* request,
                                         v1::CloseSessionResponse* response) override;
  grpc::ServerUnaryReactor* CreateBuffers(grpc::CallbackServerContext* context,
                                          const v1::CreateBuffersRequest* request,
                                          v1::CreateBuffersResponse* response) override;
  grpc::ServerUnaryReactor* FreeBuffers(grpc::CallbackServerContext* context,
                                        const v1::FreeBuffersRequest* request,
                                        v1::FreeBuffersResponse* response) override;
  grpc::ServerReadReactor<v1::UploadRequest>* Upload(grpc::CallbackServerContext* context,
                                                     v1::UploadResponse* response) override;
  grpc::ServerWriteReactor<v1::DownloadResponse>* Download(
      grpc::CallbackServerContext* context, const v1::DownloadRequest* request) override;
  grpc::ServerUnaryReactor* Prepare(grpc::CallbackServerContext* context,
                                    const v1::PrepareRequest* request,
                                    v1::PrepareResponse* response) override;
  grpc::ServerUnaryReactor* Execute(grpc::CallbackServerContext* context,
                                    const v1::ExecuteRequest* request,
                                    v1::ExecuteResponse* response) override;
  grpc::ServerUnaryReactor* CancelExecute(grpc::CallbackServerContext* context,
                                          const v1::CancelExecuteRequest* request,
                                          v1::CancelExecuteResponse* response) override;
  grpc::ServerUnaryReactor* Run(grpc::CallbackServerContext* context, const v1::RunRequest* request,
                                v1::RunResponse* response) override;
  grpc::ServerBidiReactor<v1::PipelineRequest, v1::PipelineResponse>* Pipeline(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* GetCacheStats(grpc::CallbackServerContext* context,
                                          const v1::GetCacheStatsRequest* request,
                                          v1::GetCacheStatsResponse* response) override;
  grpc::ServerUnaryReactor* ExplainCache(grpc::CallbackServerContext* context,
                                         const v1::ExplainCacheRequest* request,
                                         v1::ExplainCacheResponse* response) override;
  grpc::ServerUnaryReactor* ListQuarantine(grpc::CallbackServerContext* context,
                                           const v1::ListQuarantineRequest* request,
                                           v1::ListQuarantineResponse* response) override;
  grpc::ServerUnaryReactor* ClearQuarantine(grpc::CallbackServerContext* context,
                                            const v1::ClearQuarantineRequest* request,
                                            v1::ClearQuarantineResponse* response) override;

 private:
  engine::Engine& engine_;
  const ServiceLimits limits_;
  const StreamLimits stream_limits_;
  StreamWatch watch_;
};

}  // namespace uopd::rpc
