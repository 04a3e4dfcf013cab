// SPDX-License-Identifier: MIT
// The calls about tuning operations that have one message each way. The work is done by
// engine::TuneOperations.
#include <algorithm>
#include <chrono>

#include "server/rpc/cache/cache_messages.h"
#include "server/rpc/call/calls.h"
#include "server/rpc/call/unary.h"
#include "server/rpc/service.h"
#include "server/rpc/tune/tune_messages.h"

namespace uopd::rpc {

using engine::KernelPhase;
using engine::RequestContext;

namespace {

constexpr auto kOnDisk = [] { return false; };  // may use the store
constexpr uint64_t kMicrosecondsInAMs = 1000;

uint64_t Count(const engine::TuneChanges& summary, KernelPhase phase) {
  return summary.counts[static_cast<size_t>(phase)];
}

uint64_t WholeMs(int64_t us) {
  return static_cast<uint64_t>(std::max<int64_t>(us, 0)) / kMicrosecondsInAMs;
}

void Fill(size_t number, const engine::TunedKernelState& kernel, v1::TunedKernel* out) {
  out->set_number(static_cast<uint32_t>(number));
  out->set_name(Printable(kernel.name));
  out->set_device(Printable(kernel.device));
  out->set_launches(kernel.launches);
  out->set_state(Name(kernel.phase));
  out->set_detail(Printable(kernel.detail));
  out->set_opts(kernel.opts);
  out->set_trying(kernel.trying);
  out->set_best_seconds(kernel.best_s);
  out->set_heuristic_seconds(kernel.heuristic_s);
  out->set_measured(kernel.measured);
  out->set_failed(kernel.failed);
  out->set_pruned(kernel.pruned);
  out->set_duplicates(kernel.duplicates);
  out->set_search_ms(WholeMs(kernel.search_us));
  out->set_search(kernel.search);
  out->set_limited(kernel.limited);
  for (const engine::TunePoint& point : kernel.points) {
    v1::TunePoint* to = out->add_points();
    to->set_candidate(point.candidate);
    to->set_seconds(point.seconds);
  }
}

}  // namespace

void Fill(const engine::TuneChanges& summary, v1::Tune* out) {
  const engine::TuneState& head = summary.head;
  out->set_id(head.id);
  out->set_tenant(head.tenant);
  out->set_title(Printable(head.title));
  out->set_graph(std::string(head.graph.view()));
  out->set_beam(static_cast<uint32_t>(head.options.beam));
  out->set_state(Name(head.phase));
  out->set_error(Printable(head.error));
  out->set_budget_ms(WholeMs(head.budget_us));
  out->set_budget_candidates(head.budget_candidates);
  out->set_spent_ms(WholeMs(head.spent_us));
  out->set_candidates(head.candidates);
  out->set_created_unix_us(static_cast<uint64_t>(std::max<int64_t>(head.created_us, 0)));
  out->set_ended_unix_us(static_cast<uint64_t>(std::max<int64_t>(head.ended_us, 0)));
  out->set_attempts(static_cast<uint32_t>(head.attempts));
  out->set_host(Printable(summary.host));
  const auto count = [&](KernelPhase phase) {
    return static_cast<uint32_t>(Count(summary, phase));
  };
  out->set_kernels(static_cast<uint32_t>(summary.kernels));
  out->set_kernels_searching(count(KernelPhase::kSearching));
  out->set_kernels_tuned(count(KernelPhase::kTuned));
  out->set_kernels_found(count(KernelPhase::kFound));
  out->set_kernels_failed(count(KernelPhase::kFailed));
  out->set_kernels_skipped(count(KernelPhase::kSkipped));
  out->set_pruned(summary.pruned);
  out->set_duplicates(summary.duplicates);
  out->set_waits_for(Printable(summary.waits_for));
}

v1::WatchTuneResponse ToMessage(const engine::TuneChanges& changes) {
  v1::WatchTuneResponse out;
  Fill(changes, out.mutable_tune());
  out.set_kernels_replaced(changes.replan);
  out.set_more(changes.more);
  for (const auto& [number, kernel] : changes.changed) Fill(number, kernel, out.add_kernels());
  return out;
}

// Planning takes as long as a first Prepare, and waits like one.
grpc::ServerUnaryReactor* Service::StartTune(grpc::CallbackServerContext* context,
                                             const v1::StartTuneRequest* request,
                                             v1::StartTuneResponse* response) {
  return ServePrepare(
      engine_, {context, Method::kStartTune, *request, *response, watch_}, "",
      [=, this](RequestContext& call, Done done) {
        engine::TuneWish wish{.graph = {request->graph().digest(), request->graph().graph()},
                              .options = ToCompileOptions(request->options()),
                              .budget_ms = request->budget_ms(),
                              .budget_candidates = request->budget_candidates(),
                              .request_id = request->request_id(),
                              .title = request->title()};
        engine_.programs().StartTune(
            call, std::move(wish),
            [response, done = std::move(done)](
                absl::StatusOr<engine::TuneOperations::OperationPtr> started) mutable {
              if (!started.ok()) return done(started.status());
              Fill((*started)->Summary(), response->mutable_tune());
              done(absl::OkStatus());
            });
      });
}

grpc::ServerUnaryReactor* Service::ListTunes(grpc::CallbackServerContext* context,
                                             const v1::ListTunesRequest* request,
                                             v1::ListTunesResponse* response) {
  constexpr int kMaxListed = 512;
  return Serve(engine_, {context, Method::kListTunes, *request, *response, watch_}, kOnDisk,
               [=, this](RequestContext& call) {
                 for (const auto& op : engine_.operate().tune.List(call.caller)) {
                   if (response->tunes_size() == kMaxListed) break;
                   Fill(op->Summary(), response->add_tunes());
                 }
                 return absl::OkStatus();
               });
}

grpc::ServerUnaryReactor* Service::CancelTune(grpc::CallbackServerContext* context,
                                              const v1::CancelTuneRequest* request,
                                              v1::CancelTuneResponse* response) {
  return Serve(engine_, {context, Method::kCancelTune, *request, *response, watch_}, kOnDisk,
               [=, this](RequestContext& call) -> absl::Status {
                 UOPD_ASSIGN(const auto op,
                             engine_.operate().tune.Cancel(call.caller, request->id()));
                 Fill(op->Summary(), response->mutable_tune());
                 return absl::OkStatus();
               });
}

grpc::ServerUnaryReactor* Service::ResumeTune(grpc::CallbackServerContext* context,
                                              const v1::ResumeTuneRequest* request,
                                              v1::ResumeTuneResponse* response) {
  return Serve(engine_, {context, Method::kResumeTune, *request, *response, watch_}, kOnDisk,
               [=, this](RequestContext& call) -> absl::Status {
                 UOPD_ASSIGN(const auto op,
                             engine_.operate().tune.Resume(call.caller, request->id(),
                                                           request->more_budget_ms(),
                                                           request->more_candidates()));
                 Fill(op->Summary(), response->mutable_tune());
                 return absl::OkStatus();
               });
}

}  // namespace uopd::rpc
