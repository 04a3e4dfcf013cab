// SPDX-License-Identifier: MIT
#include "server/rpc/service.h"

#include "server/rpc/call/unary.h"
#include "server/rpc/stream/streams.h"

namespace uopd::rpc {

using engine::RequestContext;
using engine::ResolvedRequest;
using engine::Session;

namespace {
constexpr auto kAlways = [] { return true; };
}  // namespace

grpc::ServerUnaryReactor* Service::Hello(grpc::CallbackServerContext* context,
                                         const v1::HelloRequest* request,
                                         v1::HelloResponse* response) {
  // Opening a device may take its driver seconds.
  const auto quick = [this] { return engine_.devices().Settled(); };
  return Serve(
      engine_, {context, Method::kHello, *request, *response, watch_}, quick,
      [=, this](RequestContext&) { return rpc::Hello(engine_, limits_, *request, response); });
}

grpc::ServerUnaryReactor* Service::OpenSession(grpc::CallbackServerContext* context,
                                               const v1::OpenSessionRequest* request,
                                               v1::OpenSessionResponse* response) {
  return Serve(engine_, {context, Method::kOpenSession, *request, *response, watch_}, kAlways,
               [=, this](RequestContext& call) {
                 const engine::Opener opener{PeerOf(*context), call.caller.tenant};
                 return rpc::OpenSession(engine_, opener, side_, *request, response);
               });
}

// Not on the strand, because closing also ends the calls that wait there. What a running call uses
// is freed when the call is done.
grpc::ServerUnaryReactor* Service::CloseSession(grpc::CallbackServerContext* context,
                                                const v1::CloseSessionRequest* request,
                                                v1::CloseSessionResponse* response) {
  return Serve(engine_, {context, Method::kCloseSession, *request, *response, watch_}, kAlways,
               [=, this](RequestContext& call) {
                 return engine_.sessions().Close(request->session_id(), call.caller.tenant);
               });
}

grpc::ServerUnaryReactor* Service::CreateBuffers(grpc::CallbackServerContext* context,
                                                 const v1::CreateBuffersRequest* request,
                                                 v1::CreateBuffersResponse* response) {
  return ServeSession(
      engine_, {context, Method::kCreateBuffers, *request, *response, watch_},
      request->session_id(), [=] { return IsQuick(*request); },
      [=, this](RequestContext&, Session& session) {
        return rpc::CreateBuffers(engine_, session, *request);
      });
}

grpc::ServerUnaryReactor* Service::FreeBuffers(grpc::CallbackServerContext* context,
                                               const v1::FreeBuffersRequest* request,
                                               v1::FreeBuffersResponse* response) {
  return ServeSession(engine_, {context, Method::kFreeBuffers, *request, *response, watch_},
                      request->session_id(), kAlways, [=](RequestContext&, Session& session) {
                        rpc::FreeBuffers(session, *request);
                        return absl::OkStatus();
                      });
}

// Never on the thread that received it: contents are read and hashed.
grpc::ServerUnaryReactor* Service::OpenContents(grpc::CallbackServerContext* context,
                                                const v1::OpenContentsRequest* request,
                                                v1::OpenContentsResponse* response) {
  return ServeSession(
      engine_, {context, Method::kOpenContents, *request, *response, watch_}, request->session_id(),
      [] { return false; },
      [=, this](RequestContext& call, Session& session) {
        return rpc::OpenContents(engine_, session, call.limits(), *request, response);
      });
}

grpc::ServerReadReactor<v1::UploadRequest>* Service::Upload(grpc::CallbackServerContext* context,
                                                            v1::UploadResponse* response) {
  return StartUpload(engine_, watch_, context, response);
}

grpc::ServerWriteReactor<v1::DownloadResponse>* Service::Download(
    grpc::CallbackServerContext* context, const v1::DownloadRequest* request) {
  return StartDownload(engine_, watch_, context, request);
}

// Compiling does not change the session. The session is used only to renew its lease, so the order
// of the calls does not matter.
grpc::ServerUnaryReactor* Service::Prepare(grpc::CallbackServerContext* context,
                                           const v1::PrepareRequest* request,
                                           v1::PrepareResponse* response) {
  return ServePrepare(engine_, {context, Method::kPrepare, *request, *response, watch_},
                      request->session_id(), [=, this](RequestContext& call, Done done) {
                        rpc::Prepare(engine_,
                                     {call, Resolve(engine_, *request), *request, response},
                                     std::move(done));
                      });
}

grpc::ServerUnaryReactor* Service::Execute(grpc::CallbackServerContext* context,
                                           const v1::ExecuteRequest* request,
                                           v1::ExecuteResponse* response) {
  return ServeExecute(
      engine_, {context, Method::kExecute, *request, *response, watch_}, *request,
      [=, this](RequestContext& call, Session& session, ResolvedRequest wanted, Done done) {
        rpc::Execute(engine_, session, {call, std::move(wanted), *request, response},
                     std::move(done));
      });
}

// Not on the strand: there it would wait for the calls that it tells of.
grpc::ServerUnaryReactor* Service::GetProgress(grpc::CallbackServerContext* context,
                                               const v1::GetProgressRequest* request,
                                               v1::GetProgressResponse* response) {
  return Serve(
      engine_, {context, Method::kGetProgress, *request, *response, watch_}, kAlways,
      [=, this](RequestContext& call) -> absl::Status {
        UOPD_TRY(engine_.sessions().Use(request->session_id(), call.caller.tenant).status());
        const auto found = engine_.compiles().ProgressOf(request->session_id());
        response->set_programs(found.programs);
        response->set_kernels(found.kernels);
        response->set_kernels_ready(found.ready);
        response->set_kernels_to_tune(static_cast<uint32_t>(engine_.compiles().kernels_to_tune()));
        return absl::OkStatus();
      });
}

// Not on the strand: there it would wait for the call that it has to end.
grpc::ServerUnaryReactor* Service::CancelExecute(grpc::CallbackServerContext* context,
                                                 const v1::CancelExecuteRequest* request,
                                                 v1::CancelExecuteResponse* response) {
  return Serve(engine_, {context, Method::kCancelExecute, *request, *response, watch_}, kAlways,
               [=, this](RequestContext& call) -> absl::Status {
                 UOPD_ASSIGN(engine::SessionUse session,
                             engine_.sessions().Use(request->session_id(), call.caller.tenant));
                 return rpc::CancelExecute(*session, *request);
               });
}

grpc::ServerUnaryReactor* Service::Run(grpc::CallbackServerContext* context,
                                       const v1::RunRequest* request, v1::RunResponse* response) {
  return ServeRun(engine_, {context, Method::kRun, *request, *response, watch_}, *request,
                  [=, this](RequestContext& call, ResolvedRequest wanted, Where where, Done done) {
                    rpc::Run(engine_, where, {call, std::move(wanted), *request, response},
                             std::move(done));
                  });
}

grpc::ServerBidiReactor<v1::PipelineRequest, v1::PipelineResponse>* Service::Pipeline(
    grpc::CallbackServerContext* context) {
  return StartPipeline(engine_, watch_, stream_limits_, context);
}

}  // namespace uopd::rpc
