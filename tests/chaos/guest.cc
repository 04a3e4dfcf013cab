// SPDX-License-Identifier: MIT
#include "tests/chaos/guest.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "absl/status/status.h"
#include "core/base/text.h"

namespace uopd::chaos {
namespace {

// Milliseconds for which work may continue after its deadline. The first is what the daemon
// promises. The second is added for the load of the scenario. It is longer where other programs
// take processor time (machine.h).
constexpr double kBeyondMs = 100, kBeyondHardMs = 1000;

// Arguments for a program whose signature is not known: temporary buffers of the size that the
// program needs.
template <class Request>
void AddArguments(Request& request, int n) {
  for (int i = 0; i < n; ++i) request.add_arguments()->set_return_data(i == 0);
}

}  // namespace

bool Guest::Ready(bool session) {
  const auto place = world_.Where();
  if (!place) return false;
  if (stub_ == nullptr || place->generation != place_.generation) {
    place_ = *place;
    stub_ = Connect(place_.grpc);
    session_.clear();
  }
  if (!session || !session_.empty()) return true;
  grpc::ClientContext context;
  Limit(context, 10);
  v1::OpenSessionRequest request;
  request.set_ttl_ms(5000);
  v1::OpenSessionResponse response;
  const grpc::Status status = stub_->OpenSession(&context, request, &response);
  session_ = response.session_id();
  return Note("OpenSession", status).ok();
}

bool Guest::Await() {
  while (!world_.Over()) {
    if (Ready()) return true;
    world_.Pause(0.2);
  }
  return false;
}

void Guest::Limit(grpc::ClientContext& context, double deadline_s) {
  context.set_deadline(In(deadline_s));
  context.AddMetadata("x-request-id", Cat("limit-", static_cast<int64_t>(deadline_s * 1e3), "-",
                                          name_, "-", ++calls_));
}

void Guest::Drop() {
  stub_.reset();
  session_.clear();
}

grpc::Status Guest::Note(const std::string& call, const grpc::Status& status) {
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  world_.report().Count(Cat(name_, ".", std::string(absl::StatusCodeToString(code))));
  const bool wrong = status.error_code() == grpc::StatusCode::INTERNAL ||
                     status.error_code() == grpc::StatusCode::UNKNOWN;
  if (wrong && world_.generation() == place_.generation && !world_.Over()) {
    world_.report().Violation("internal", Cat(name_, ": ", call, ": ", status.error_message()));
  }
  if (status.error_code() == grpc::StatusCode::NOT_FOUND) session_.clear();
  return status;
}

grpc::Status Guest::Prepare(const std::string& graph, double deadline_s) {
  grpc::ClientContext context;
  Limit(context, deadline_s);
  v1::PrepareRequest request;
  request.set_session_id(session_);
  request.set_graph(graph);
  v1::PrepareResponse response;
  return Note("Prepare", stub_->Prepare(&context, request, &response));
}

grpc::Status Guest::Run(const std::string& graph, int arguments, double deadline_s) {
  grpc::ClientContext context;
  Limit(context, deadline_s);
  v1::RunRequest request;
  request.set_graph(graph);
  AddArguments(request, arguments);
  v1::RunResponse response;
  return Note("Run", stub_->Run(&context, request, &response));
}

grpc::Status Guest::Execute(const std::string& graph, int arguments, double deadline_s) {
  grpc::ClientContext context;
  Limit(context, deadline_s);
  v1::ExecuteRequest request;
  request.set_session_id(session_);
  request.set_graph(graph);
  AddArguments(request, arguments);
  v1::ExecuteResponse response;
  return Note("Execute", stub_->Execute(&context, request, &response));
}

grpc::Status Guest::Explain(const std::string& graph, double deadline_s) {
  grpc::ClientContext context;
  Limit(context, deadline_s);
  v1::ExplainCacheRequest request;
  request.mutable_a()->set_graph(graph);
  v1::ExplainCacheResponse response;
  return Note("ExplainCache", stub_->ExplainCache(&context, request, &response));
}

grpc::Status Guest::Pipeline(const std::string& graph, int arguments, double deadline_s) {
  grpc::ClientContext context;
  Limit(context, deadline_s);
  const auto stream = stub_->Pipeline(&context);
  v1::PipelineRequest message;
  message.mutable_prepare()->set_graph(graph);
  stream->Write(message);
  message.mutable_execute()->set_session_id(session_);
  message.mutable_execute()->set_graph(graph);
  AddArguments(*message.mutable_execute(), arguments);
  stream->Write(message);
  stream->WritesDone();
  for (v1::PipelineResponse answer; stream->Read(&answer);) {
    Note("Pipeline", {static_cast<grpc::StatusCode>(answer.code()), answer.message()});
  }
  return Note("Pipeline", stream->Finish());
}

void CheckDeadlines(World& world) {
  Report& report = world.report();
  const double lag = Percentile(report.SamplesOf("machine_lag_ms"), 1);
  // The median: in a second in which a process is killed, its time may count as that of others.
  const double slowdown = std::max(1.0, Percentile(report.SamplesOf("machine_slowdown"), 0.5));
  std::istringstream log(world.Log());
  for (std::string line; std::getline(log, line);) {
    const size_t id = line.find(" req=limit-"), us = line.find(" us=");
    if (id == std::string::npos || us == std::string::npos) continue;
    const double limit_ms = std::atof(line.c_str() + id + 11);
    const double beyond_ms = std::atof(line.c_str() + us + 4) / 1e3 - limit_ms;
    if (beyond_ms <= 0) continue;
    report.Sample("beyond_deadline_ms", beyond_ms);
    if (beyond_ms > kBeyondMs) report.Count("beyond_deadline_100_ms");
    // A delay that this machine causes for every thread is not the daemon's.
    if (beyond_ms > kBeyondMs + std::max(kBeyondHardMs * slowdown, 10 * lag)) {
      report.Violation("deadline", line.substr(0, 400));
    }
  }
}

}  // namespace uopd::chaos
