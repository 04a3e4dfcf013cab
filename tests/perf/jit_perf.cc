// SPDX-License-Identifier: MIT
// What a client pays for a replay of a Jit: the training step of a 3-layer perceptron with Adam,
// batch after batch, and the graph of ResNet-50. CPU time of the client's process, all its threads.
// The peer is the same number of messages of the same size on the same kind of stream, which the
// daemon answers without doing anything: what gRPC alone costs.
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>

#include <algorithm>

#include "client/cpp/net/session.h"
#include "core/base/telemetry/trace.h"
#include "core/base/text.h"
#include "tests/perf/perf.h"
#include "tests/support/daemon.h"
#include "tests/support/models/models.h"
#include "uopd/connection.h"
#include "uopd/jit.h"
#include "uopd/nn.h"
#include "uopd/optim.h"

namespace uopd::perf::jit_perf {
namespace {

using client::Tensor;

constexpr int kRounds = 10, kSteps = 200;

double ClientCpuUs() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto us = [](const timeval& t) {
    return 1e6 * static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec);
  };
  return us(usage.ru_utime) + us(usage.ru_stime);
}

double ThreadCpuUs() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e6 * static_cast<double>(t.tv_sec) + 1e-3 * static_cast<double>(t.tv_nsec);
}

// Sends messages that only carry bytes, and reads their answers.
class Messages {
 public:
  Messages(const std::string& address, const std::string& session)
      : stub_(v1::UopdService::NewStub(
            grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))),
        stream_(stub_->Pipeline(&context_)) {
    request_.mutable_free_buffers()->set_session_id(session);
  }
  ~Messages() {
    stream_->WritesDone();
    stream_->Finish().ok();
  }
  bool Send(size_t bytes) {
    // Handles that nobody has: eight bytes and more each.
    auto* handles = request_.mutable_free_buffers()->mutable_handles();
    while (request_.ByteSizeLong() < bytes) handles->Add((uint64_t{1} << 62) + bytes);
    return stream_->Write(request_) && stream_->Read(&response_) && response_.code() == 0;
  }

 private:
  std::unique_ptr<v1::UopdService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::PipelineRequest, v1::PipelineResponse>> stream_;
  v1::PipelineRequest request_;
  v1::PipelineResponse response_;
};

absl::Status Replay(const std::string& address, int rounds, std::vector<Measurement>& out) {
  UOPD_ASSIGN(auto connection, client::Connection::Connect({.address = address}));
  client::Client client(connection);
  client::Linear a(client, 784, 128), b(client, 128, 64), c(client, 64, 10);
  auto adam = client::Adam(client, {a.weight, a.bias, b.weight, b.bias, c.weight, c.bias});
  client::Jit step(client, [&](std::span<const Tensor> in) -> absl::StatusOr<std::vector<Tensor>> {
    const Tensor loss = c(b(a(in[0]).Relu()).Relu()).CrossEntropy(in[1]);
    UOPD_TRY(loss.Backward());
    UOPD_TRY(adam->Step({loss}));
    return std::vector{loss};
  });
  // Inputs on the daemon, so that a message has handles only.
  const Tensor x = client.Rand({128, 784}), y = client.Zeros({128}, ir::Dtype::I32);
  UOPD_TRY(client::Realize({x, y}));
  for (int i = 0; i < 20; ++i) UOPD_TRY(step({x, y}).status());
  UOPD_TRY(client.Sync());
  const uint64_t before = client.traffic().total();
  UOPD_TRY(step({x, y}).status());
  UOPD_TRY(client.Sync());
  const uint64_t bytes = client.traffic().total() - before;
  Messages messages(address, connection->session().id());
  std::vector<double> replay, calling, alone;
  for (int round = 0; round < rounds; ++round) {
    double cpu = ClientCpuUs(), thread = ThreadCpuUs();
    for (int i = 0; i < kSteps; ++i) {
      UOPD_TRY(step({x, y}).status());
      if (i % 50 == 49) UOPD_TRY(client.Sync());
    }
    calling.push_back((ThreadCpuUs() - thread) / kSteps);
    replay.push_back((ClientCpuUs() - cpu) / kSteps);
    cpu = ClientCpuUs();
    for (int i = 0; i < kSteps; ++i) {
      if (!messages.Send(bytes)) return absl::InternalError("the stream broke");
    }
    alone.push_back((ClientCpuUs() - cpu) / kSteps);
  }
  client::Jit add(client, [](std::span<const Tensor> in) { return std::vector{in[0] + in[1]}; });
  const Tensor one = client.Ones({16}), zero = client.Zeros({16});
  UOPD_TRY(client::Realize({one, zero}));
  for (int i = 0; i < 20; ++i) UOPD_TRY(add({one, zero}).status());
  // One after the other: a thread that waits on one stream would serve the other one too.
  Paired paired;
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < 100; ++i) {
      const double start = NowSeconds();
      UOPD_ASSIGN(const std::vector<Tensor> sum, add({one, zero}));
      UOPD_TRY(sum[0].ToBytes().status());
      paired.a.push_back(NowSeconds() - start);
    }
    for (int i = 0; i < 100; ++i) {
      const double start = NowSeconds();
      if (!messages.Send(bytes)) return absl::InternalError("the stream broke");
      paired.b.push_back(NowSeconds() - start);
    }
  }
  out.push_back({"jit.replay.round_trip", "us", 1e6 * Percentile(paired.a, 0.5), "a message alone",
                 1e6 * Percentile(paired.b, 0.5)});
  out.push_back(
      {"jit.replay.cpu", "us", Percentile(replay, 0.5), "messages alone", Percentile(alone, 0.5)});
  out.push_back({"jit.replay.calling_thread", "us", Percentile(calling, 0.5)});
  out.push_back({"jit.replay.message", "bytes", static_cast<double>(bytes)});
  return absl::OkStatus();
}

absl::Status Build(int rounds, std::vector<Measurement>& out) {
  client::Client client(std::make_shared<client::OfflineExecutor>());
  test::ResNet network(client, test::ResNet::Shape50());
  const Tensor image = client.Empty({1, 3, 224, 224});
  std::vector<double> first, again;
  for (int round = 0; round < rounds; ++round) {
    client::Client fresh(std::make_shared<client::OfflineExecutor>());
    test::ResNet cold(fresh, test::ResNet::Shape50());
    test::Unmaterialise(fresh, cold.parameters());
    test::Unmaterialise(fresh, cold.state());
    const Tensor input = fresh.Empty({1, 3, 224, 224});
    int64_t start = NowNs();
    UOPD_TRY(cold.Forward(input, false).status());
    first.push_back(1e-6 * static_cast<double>(NowNs() - start));
    start = NowNs();
    UOPD_TRY(network.Forward(image, false).status());
    if (round > 0) again.push_back(1e-6 * static_cast<double>(NowNs() - start));
  }
  out.push_back({"jit.build.resnet50.first", "ms", Percentile(first, 0.5)});
  out.push_back({"jit.build.resnet50.again", "ms", Percentile(again, 0.5)});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  std::unique_ptr<test::Daemon> daemon;
  std::string address = options.address;
  if (address.empty()) {
    UOPD_ASSIGN(daemon, test::Daemon::Start({options.daemon, "", {}}));
    address = daemon->address();
  }
  std::vector<Measurement> out;
  const int rounds = std::max(3, static_cast<int>(kRounds * options.scale));
  UOPD_TRY(Replay(address, rounds, out));
  UOPD_TRY(Build(rounds, out));
  return out;
}

const Register kRegister("jit", "CPU time of a client for a replay, and for building ResNet-50",
                         Run);

}  // namespace
}  // namespace uopd::perf::jit_perf
