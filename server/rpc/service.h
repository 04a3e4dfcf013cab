// SPDX-License-Identifier: MIT
// The UopdService of gRPC: where each call runs (service.cc), and the queries (queries.cc,
// cache/cache_queries.cc, tune/tune_queries.cc, operate/daemon_queries.cc). The work itself is done
// elsewhere.
//
// Thread-safe. The engine outlives it.
#pragma once
#include "server/engine/engine.h"
#include "server/rpc/call/calls.h"
#include "server/rpc/stream/streams.h"
#include "uopd/v1/uopd.grpc.pb.h"

namespace uopd::rpc {

class Service final : public v1::UopdService::CallbackService {
 public:
  Service(engine::Engine& engine, ServiceLimits limits, StreamLimits stream_limits)
      : engine_(engine), limits_(limits), stream_limits_(stream_limits), watch_([&engine] {
          return WatchLimits{engine.settings().stream_idle(), engine.gate().draining()};
        }) {}

#define UOPD_UNARY(name, audience)                                                               \
  grpc::ServerUnaryReactor* name(grpc::CallbackServerContext* context,                           \
                                 const v1::name##Request* request, v1::name##Response* response) \
      override;
#define UOPD_QUERY(name, audience) UOPD_UNARY(name, audience)
#define UOPD_STREAM(name, audience)  // below
#include "proto/methods.def"
#undef UOPD_UNARY
#undef UOPD_QUERY
#undef UOPD_STREAM
  grpc::ServerReadReactor<v1::UploadRequest>* Upload(grpc::CallbackServerContext* context,
                                                     v1::UploadResponse* response) override;
  grpc::ServerWriteReactor<v1::DownloadResponse>* Download(
      grpc::CallbackServerContext* context, const v1::DownloadRequest* request) override;
  grpc::ServerBidiReactor<v1::PipelineRequest, v1::PipelineResponse>* Pipeline(
      grpc::CallbackServerContext* context) override;

  grpc::ServerWriteReactor<v1::ExportCacheResponse>* ExportCache(
      grpc::CallbackServerContext* context, const v1::ExportCacheRequest* request) override {
    return StartCacheExport(engine_, watch_, context, request);
  }
  grpc::ServerBidiReactor<v1::ImportCacheRequest, v1::ImportCacheResponse>* ImportCache(
      grpc::CallbackServerContext* context) override {
    return StartCacheImport(engine_, watch_, context);
  }

  grpc::ServerWriteReactor<v1::WatchTuneResponse>* WatchTune(
      grpc::CallbackServerContext* context, const v1::WatchTuneRequest* request) override {
    return StartTuneWatch(engine_, watch_, context, request);
  }

  // The daemon has a side socket. Called before the service is served.
  void OfferSide() { side_ = true; }

 private:
  engine::Engine& engine_;
  bool side_ = false;
  const ServiceLimits limits_;
  const StreamLimits stream_limits_;
  StreamWatch watch_;
};

}  // namespace uopd::rpc
