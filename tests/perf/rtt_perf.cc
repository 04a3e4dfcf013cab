// SPDX-License-Identifier: MIT
// Round trip of a prepared program that adds two 16-element tensors, inputs inline and result
// returned, against an empty unary call to the same server over the same channel.
#include <grpcpp/grpcpp.h>

#include <cstring>

#include "tests/perf/calls.h"
#include "tests/perf/perf.h"
#include "tests/support/daemon.h"
#include "uopd/v1/uopd.grpc.pb.h"

namespace uopd::perf::rtt_perf {
namespace {

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  std::unique_ptr<test::Daemon> daemon;
  std::string address = options.address;
  if (address.empty()) {
    UOPD_ASSIGN(daemon, test::Daemon::Start({options.daemon, "", {"--compile-fast-tier=false"}}));
    address = daemon->address();
  }
  auto stub =
      v1::UopdService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  v1::OpenSessionResponse session;
  {
    grpc::ClientContext ctx;
    UOPD_TRY(Checked(stub->OpenSession(&ctx, v1::OpenSessionRequest(), &session)));
  }
  v1::PrepareResponse prepared;
  {
    grpc::ClientContext ctx;
    v1::PrepareRequest request;
    request.set_session_id(session.session_id());
    request.set_graph(AddGraph(16));
    UOPD_TRY(Checked(stub->Prepare(&ctx, request, &prepared)));
  }
  v1::ExecuteRequest execute;
  execute.set_session_id(session.session_id());
  execute.set_digest(prepared.digest());
  std::vector<float> values(16);
  for (int i = 0; i < 16; ++i) values[static_cast<size_t>(i)] = static_cast<float>(i);
  const std::string bytes(reinterpret_cast<const char*>(values.data()), 64);
  execute.add_arguments()->set_data(bytes);
  execute.add_arguments()->set_data(bytes);
  execute.add_arguments()->set_return_data(true);
  v1::FreeBuffersRequest empty;
  empty.set_session_id(session.session_id());

  grpc::Status failure;
  auto add = [&] {
    grpc::ClientContext ctx;
    v1::ExecuteResponse response;
    const grpc::Status s = stub->Execute(&ctx, execute, &response);
    float last = 0;
    if (s.ok() && response.data_size() == 1 && response.data(0).size() == 64)
      std::memcpy(&last, response.data(0).data() + 60, 4);
    if (!s.ok())
      failure = s;
    else if (last != 30)
      failure = grpc::Status(grpc::INTERNAL, "the sum is wrong");
  };
  auto nothing = [&] {
    grpc::ClientContext ctx;
    v1::FreeBuffersResponse response;
    if (const grpc::Status s = stub->FreeBuffers(&ctx, empty, &response); !s.ok()) failure = s;
  };
  RunPaired(200, add, nothing);  // warm up
  const Paired times = RunPaired(static_cast<int>(20000 * options.scale), add, nothing);
  UOPD_TRY(Checked(failure));
  std::vector<Measurement> out;
  for (const auto& [name, p] : {std::pair("p50", 0.5), std::pair("p99", 0.99)}) {
    out.push_back({std::string("rtt.add16.") + name, "us", Percentile(times.a, p) * 1e6,
                   "empty unary call", Percentile(times.b, p) * 1e6});
  }
  return out;
}

const Register kRegister("rtt",
                         "prepared add of two 16-element tensors over gRPC, against an empty call",
                         Run);

}  // namespace
}  // namespace uopd::perf::rtt_perf
