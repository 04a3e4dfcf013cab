// SPDX-License-Identifier: MIT
// Whole models as a client sees them: input sent, output received. Beside ONNX Runtime and OpenVINO,
// which run in a Python process (tests/perf/peers/models.py), one after the other by turns.
#include <unistd.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "client/cpp/client.h"
#include "client/cpp/connection.h"
#include "core/base/text.h"
#include "tests/perf/peer_process.h"
#include "tests/perf/perf.h"
#include "tests/support/daemon.h"
#include "tests/support/models/models.h"

namespace uopd::perf {
namespace {

using client::Client;
using client::Tensor;

// A model with its weights on the daemon.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual absl::Status Run() = 0;
};

class ResNet50 final : public Subject {
 public:
  ResNet50(Client& client, int64_t batch)
      : client_(client),
        model_(client, test::ResNet::Shape50()),
        dims_{batch, 3, 224, 224},
        input_(static_cast<size_t>(batch) * 3 * 224 * 224) {
    for (size_t i = 0; i < input_.size(); ++i)
      input_[i] = static_cast<float>((i * 7919) % 2003) / 1000 - 1;
  }

  // Memory that nothing was written to is one page of zeros: no weights to read.
  absl::Status Fill() {
    std::vector<Tensor> all = model_.parameters();
    for (Tensor& t : all) t.Assign(client_.Uniform(t.dims(), -0.05, 0.05));
    for (Tensor t : model_.state()) {
      t.Assign(client_.Uniform(t.dims(), 0.5, 1.5));
      all.push_back(t);
    }
    return client::Realize(all);
  }

  absl::Status Run() override {
    const Tensor logits = model_.Forward(client_.FromHost(input_, dims_), false);
    UOPD_ASSIGN(const std::vector<float> values, logits.ToHost<float>());
    if (!std::isfinite(values[0])) return absl::InternalError("a logit is not finite");
    return absl::OkStatus();
  }

 private:
  Client& client_;
  test::ResNet model_;
  const client::Dims dims_;
  std::vector<float> input_;
};

struct Row {
  std::string name;
  std::function<absl::StatusOr<std::unique_ptr<Subject>>(Client&)> make;
};

absl::StatusOr<std::unique_ptr<Subject>> MakeResNet50(Client& client, int64_t batch) {
  auto out = std::make_unique<ResNet50>(client, batch);
  UOPD_TRY(out->Fill());
  return out;
}

std::vector<Row> Rows() {
  return {{"resnet50.b1", [](Client& c) { return MakeResNet50(c, 1); }},
          {"resnet50.b8", [](Client& c) { return MakeResNet50(c, 8); }}};
}

absl::Status Measure(const Row& row, const std::string& address, PeerProcess& peers, double seconds,
                     std::vector<Measurement>& out) {
  UOPD_ASSIGN(auto connection, client::Connection::Connect({.address = address}));
  Client client(connection);
  UOPD_ASSIGN(const std::unique_ptr<Subject> subject, row.make(client));
  UOPD_TRY(subject->Run());
  constexpr int kTogether = 5;
  std::vector<double> ours;
  std::map<std::string, std::vector<double>> theirs;
  UOPD_TRY(peers.Ask(Cat(row.name, " 1")).status());
  for (const double until = NowSeconds() + seconds; ours.empty() || NowSeconds() < until;) {
    usleep(50'000);  // the threads of the side before go to sleep
    UOPD_TRY(subject->Run());
    for (int i = 0; i < kTogether; ++i) {
      const double start = NowSeconds();
      UOPD_TRY(subject->Run());
      ours.push_back(1e3 * (NowSeconds() - start));
    }
    usleep(50'000);
    UOPD_ASSIGN(const std::string answer, peers.Ask(Cat(row.name, " ", kTogether)));
    const auto times = nlohmann::json::parse(answer, nullptr, false);
    if (times.is_discarded()) return absl::InternalError(Cat("the peers say ", answer));
    for (const auto& [library, values] : times.items()) {
      for (const auto& ms : values) theirs[library].push_back(ms.get<double>());
    }
  }
  Measurement m{Cat("models.", row.name), "ms", Percentile(ours, 0.5)};
  for (const auto& [library, times] : theirs) {
    const double ms = Percentile(times, 0.5);
    if (m.peer == 0 || ms < m.peer) m.peer = ms, m.peer_name = library;
  }
  out.push_back(m);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  UOPD_ASSIGN(const std::unique_ptr<PeerProcess> peers,
              PeerProcess::Start(UOPD_SOURCE_DIR "/tests/perf/peers/models.py"));
  std::unique_ptr<test::Daemon> daemon;
  std::string address = options.address;
  if (address.empty()) {
    UOPD_ASSIGN(daemon, test::Daemon::Start({options.daemon, "", {}}));
    address = daemon->address();
  }
  std::vector<Measurement> out;
  for (const Row& row : Rows()) {
    if (!row.name.starts_with(options.model)) continue;
    UOPD_TRY(WithFrame(Measure(row, address, *peers, 10 * options.scale, out),
                       Cat("measuring ", row.name)));
  }
  if (out.empty()) return absl::InvalidArgumentError(Cat("no model begins with ", options.model));
  return out;
}

const Register kRegister(
    "models", "whole models beside ONNX Runtime and OpenVINO: --model BEGINNING-OF-A-NAME", Run);

}  // namespace
}  // namespace uopd::perf
