// SPDX-License-Identifier: MIT
// The streaming calls. Each reactor owns itself and the scope of its RPC, from its start to OnDone.
// gRPC calls it on gRPC's threads, with one event of a kind at a time.
//
// A stream that waits for its client holds neither a session nor a Work of the engine. So it renews
// no lease and delays no drain. The watch ends streams that wait too long.
#pragma once
#include <grpcpp/grpcpp.h>

#include "server/engine/engine.h"
#include "server/rpc/stream/stream_watch.h"
#include "uopd/v1/uopd.pb.h"

namespace uopd::rpc {

struct StreamLimits {
  size_t pipeline_bytes = 8 << 20;  // of requests, and of answers, that one pipeline holds
};

grpc::ServerReadReactor<v1::UploadRequest>* StartUpload(engine::Engine& engine, StreamWatch& watch,
                                                        grpc::CallbackServerContext* context,
                                                        v1::UploadResponse* response);
grpc::ServerWriteReactor<v1::DownloadResponse>* StartDownload(engine::Engine& engine,
                                                              StreamWatch& watch,
                                                              grpc::CallbackServerContext* context,
                                                              const v1::DownloadRequest* request);
grpc::ServerWriteReactor<v1::ExportCacheResponse>* StartCacheExport(
    engine::Engine& engine, StreamWatch& watch, grpc::CallbackServerContext* context,
    const v1::ExportCacheRequest* request);
grpc::ServerBidiReactor<v1::ImportCacheRequest, v1::ImportCacheResponse>* StartCacheImport(
    engine::Engine& engine, StreamWatch& watch, grpc::CallbackServerContext* context);
grpc::ServerWriteReactor<v1::WatchTuneResponse>* StartTuneWatch(
    engine::Engine& engine, StreamWatch& watch, grpc::CallbackServerContext* context,
    const v1::WatchTuneRequest* request);
grpc::ServerBidiReactor<v1::PipelineRequest, v1::PipelineResponse>* StartPipeline(
    engine::Engine& engine, StreamWatch& watch, const StreamLimits& limits,
    grpc::CallbackServerContext* context);

}  // namespace uopd::rpc
