// SPDX-License-Identifier: MIT
// Whole models as a client sees them: graph built, input sent, result received. Beside ONNX Runtime
// and OpenVINO, which run in a Python process (tests/perf/peers/models.py), one after the other by
// turns. The peers have the same weights and inputs, and their results are compared with ours.
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "tests/perf/models/subjects.h"
#include "tests/perf/peers/peer_process.h"
#include "tests/perf/perf.h"
#include "tests/support/daemon.h"
#include "uopd/client.h"
#include "uopd/connection.h"

namespace uopd::perf::models_perf {
namespace {

using client::Client;

// The time of measuring, and that of running before, at scale 1.
constexpr double kSeconds = 10, kSettleSeconds = 15;

struct Row {
  std::string name;     // as the peers know it
  std::string subject;  // as MakeSubject knows it
  // All sides may multiply numbers that are rounded to bf16.
  bool bf16 = false;
  // Of a result, relative to the largest one.
  double tolerance() const { return bf16 ? 0.1 : 1e-3; }
};

// With the switches of the environment, such as DEBUG=2.
absl::StatusOr<client::ClientOptions> OptionsOf(const Row& row) {
  client::ClientOptions options;
  UOPD_ASSIGN(options.execution, client::OptionsFromEnvironment());
  options.execution.allow_bf16 = row.bf16;
  return options;
}

std::vector<Row> Rows() {
  return {{"resnet50.b1", "resnet50.b1"},
          {"resnet50.b8", "resnet50.b8"},
          {"resnet50.b1.bf16", "resnet50.b1", true},
          {"mobilenetv2.b1", "mobilenetv2.b1"},
          {"bert.128", "bert.128"},
          {"gpt2.128", "gpt2.128"}};
}

absl::StatusOr<nlohmann::json> Ask(PeerProcess& peers, const std::string& question) {
  UOPD_ASSIGN(const std::string answer, peers.Ask(question));
  auto json = nlohmann::json::parse(answer, nullptr, false);
  if (json.is_discarded()) return absl::InternalError(Cat("the peers say ", answer));
  return json;
}

absl::Status Compare(const Row& row, const std::string& bytes, const nlohmann::json& results) {
  std::vector<float> ours(bytes.size() / sizeof(float));
  std::memcpy(ours.data(), bytes.data(), bytes.size());
  for (const auto& [library, values] : results.items()) {
    if (values.size() != ours.size())
      return absl::InternalError(
          Cat(library, " has ", values.size(), " results, not ", ours.size()));
    double most = 0, off = 0;
    for (size_t i = 0; i < ours.size(); ++i) {
      const double theirs = values[i].get<double>();
      if (!std::isfinite(ours[i])) return absl::InternalError(Cat("result ", i, " is not finite"));
      most = std::max(most, std::abs(theirs));
      off = std::max(off, std::abs(theirs - static_cast<double>(ours[i])));
    }
    if (most == 0 || off > row.tolerance() * most)
      return absl::InternalError(Cat("a result differs from that of ", library, " by ", off,
                                     "; the largest one is ", most));
  }
  return absl::OkStatus();
}

absl::Status Measure(const Row& row, const std::string& address, PeerProcess& peers, double scale,
                     std::vector<Measurement>& out) {
  UOPD_ASSIGN(auto connection, client::Connection::Connect({.address = address}));
  UOPD_ASSIGN(const client::ClientOptions switches, OptionsOf(row));
  Client client(connection, switches);
  UOPD_ASSIGN(const std::unique_ptr<Subject> subject, MakeSubject(row.subject, client));
  UOPD_TRY(subject->Fill());
  UOPD_ASSIGN(const std::string result, subject->Run());
  UOPD_ASSIGN(const nlohmann::json results, Ask(peers, Cat(row.name, " results")));
  UOPD_TRY(Compare(row, result, results));
  // Until the daemon has made the values that it keeps, as it has for a model that is used for
  // long.
  for (const double until = NowSeconds() + kSettleSeconds * scale; NowSeconds() < until;)
    UOPD_TRY(subject->Run().status());
  constexpr int kTogether = 5;
  std::vector<double> ours;
  std::map<std::string, std::vector<double>> theirs;
  for (const double until = NowSeconds() + kSeconds * scale;
       ours.empty() || NowSeconds() < until;) {
    usleep(50'000);  // the threads of the side before go to sleep
    UOPD_TRY(subject->Run().status());
    for (int i = 0; i < kTogether; ++i) {
      const double start = NowSeconds();
      UOPD_TRY(subject->Run().status());
      ours.push_back(1e3 * (NowSeconds() - start));
    }
    usleep(50'000);
    UOPD_ASSIGN(const nlohmann::json times, Ask(peers, Cat(row.name, " ", kTogether)));
    for (const auto& [library, values] : times.items()) {
      for (const auto& ms : values) theirs[library].push_back(ms.get<double>());
    }
  }
  Measurement m{Cat("models.", row.name), "ms", Percentile(ours, kQuartile)};
  for (const auto& [library, times] : theirs) {
    const double ms = Percentile(times, kQuartile);
    if (m.peer == 0 || ms < m.peer) m.peer = ms, m.peer_name = library;
  }
  out.push_back(m);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  UOPD_ASSIGN(const std::unique_ptr<PeerProcess> peers, PeerProcess::Start("models.py"));
  std::unique_ptr<test::Daemon> daemon;
  std::string address = options.address;
  if (address.empty()) {
    UOPD_ASSIGN(daemon, test::Daemon::Start({options.daemon, "", {"--compile-fast-tier=false"}}));
    address = daemon->address();
  }
  std::vector<Measurement> out;
  for (const Row& row : Rows()) {
    if (!row.name.starts_with(options.model)) continue;
    UOPD_TRY(
        WithFrame(Measure(row, address, *peers, options.scale, out), Cat("measuring ", row.name)));
  }
  if (out.empty()) return absl::InvalidArgumentError(Cat("no model begins with ", options.model));
  return out;
}

const Register kRegister(
    "models", "whole models beside ONNX Runtime and OpenVINO: --model BEGINNING-OF-A-NAME", Run);

}  // namespace
}  // namespace uopd::perf::models_perf
