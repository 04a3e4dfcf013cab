// SPDX-License-Identifier: MIT
// The streaming calls. Each reactor owns itself and its RPC's scope from construction to OnDone; gRPC calls it on its own
// threads, one event of a kind at a time.
#pragma once
#include <grpcpp/grpcpp.h>

#include "server/engine/engine.h"
#include "uopd/v1/uopd.pb.h"

namespace uopd::rpc {

grpc::ServerReadReactor<v1::UploadRequest>* StartUpload(engine::Engine& engine,
                                                        grpc::CallbackServerContext* context,
                                                        v1::UploadResponse* response);
grpc::ServerWriteReactor<v1::DownloadResponse>* StartDownload(engine::Engine& engine,
                                                              grpc::CallbackServerContext* context,
                                                              const v1::DownloadRequest* request);
grpc::ServerBidiReactor<v1::PipelineRequest, v1::PipelineResponse>* StartPipeline(
    engine::Engine& engine, grpc::CallbackServerContext* context);

}  // namespace uopd::rpc
