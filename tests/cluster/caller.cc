// SPDX-License-Identifier: MIT
#include "tests/cluster/caller.h"

#include <chrono>

#include "core/base/text.h"

namespace uopd::cluster {
namespace {

using Clock = std::chrono::steady_clock;

absl::Status StatusOf(const grpc::Status& status) {
  return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
}

std::unique_ptr<v1::UopdService::Stub> StubOf(const std::string& address) {
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(-1);
  args.SetMaxSendMessageSize(-1);
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
  return v1::UopdService::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args));
}

template <class Request>
void AddArguments(const Work& work, Request& request) {
  request.add_arguments()->set_return_data(true);
  for (const std::string& input : work.inputs) request.add_arguments()->set_data(input);
}

template <class Response>
absl::StatusOr<Caller::Answer> Check(const Work& work, const grpc::Status& status,
                                     const Response& response, Clock::time_point begin) {
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  if (!status.ok()) return StatusOf(status);
  if (response.data_size() != 1 || response.data(0) != work.result)
    return absl::DataLossError("a wrong answer");
  return Caller::Answer{.tuned = response.cache().kernels_tuned() == 1, .seconds = seconds.count()};
}

}  // namespace

Caller::Caller(const std::string& address) : stub_(StubOf(address)) {}

absl::Status Caller::Open() {
  if (!session_.empty()) return absl::OkStatus();
  grpc::ClientContext context;
  v1::OpenSessionResponse response;
  UOPD_TRY(StatusOf(stub_->OpenSession(&context, {}, &response)));
  session_ = response.session_id();
  return absl::OkStatus();
}

absl::StatusOr<Caller::Answer> Caller::Run(const Work& work, uint32_t beam) {
  v1::RunRequest request;
  request.set_graph(work.graph);
  request.mutable_options()->set_beam(beam);
  AddArguments(work, request);
  grpc::ClientContext context;
  v1::RunResponse response;
  const auto begin = Clock::now();
  const grpc::Status status = stub_->Run(&context, request, &response);
  return Check(work, status, response, begin);
}

absl::StatusOr<Caller::Answer> Caller::Execute(const Work& work, const std::string& digest) {
  UOPD_TRY(Open());
  v1::ExecuteRequest request;
  request.set_session_id(session_);
  request.set_digest(digest);
  AddArguments(work, request);
  grpc::ClientContext context;
  v1::ExecuteResponse response;
  const auto begin = Clock::now();
  const grpc::Status status = stub_->Execute(&context, request, &response);
  return Check(work, status, response, begin);
}

absl::StatusOr<v1::PrepareResponse> Caller::Prepare(const std::string& graph) {
  UOPD_TRY(Open());
  v1::PrepareRequest request;
  request.set_session_id(session_);
  request.set_graph(graph);
  grpc::ClientContext context;
  v1::PrepareResponse response;
  UOPD_TRY(StatusOf(stub_->Prepare(&context, request, &response)));
  return response;
}

absl::StatusOr<std::map<std::string, std::string>> QuarantineOf(const std::string& address) {
  grpc::ClientContext context;
  v1::ListQuarantineResponse response;
  UOPD_TRY(StatusOf(StubOf(address)->ListQuarantine(&context, {}, &response)));
  std::map<std::string, std::string> out;
  for (const auto& job : response.jobs()) out[job.id()] = job.reason();
  return out;
}

absl::StatusOr<int64_t> RowsOf(const std::string& address, const std::string& store) {
  grpc::ClientContext context;
  v1::GetCacheStatsResponse response;
  UOPD_TRY(StatusOf(StubOf(address)->GetCacheStats(&context, {}, &response)));
  for (const auto& one : response.stores()) {
    if (one.store() == store) return static_cast<int64_t>(one.rows());
  }
  return 0;
}

}  // namespace uopd::cluster
