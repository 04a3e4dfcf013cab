// SPDX-License-Identifier: MIT
// Steps of training as a client sees them: graph built, loss received; images and labels stay on
// the daemon. Beside Debian's PyTorch in a process of its own (tests/perf/peers/training.py), by
// turns. Both sides begin with the same numbers, and their first losses are compared.
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "tests/perf/models/subjects.h"
#include "tests/perf/peers/peer_process.h"
#include "tests/perf/perf.h"
#include "tests/support/daemon.h"
#include "uopd/connection.h"

namespace uopd::perf::training_perf {
namespace {

// Losses. Later ones drift apart by rounding: the first step of Adam moves every weight by the sign
// of its gradient, however small that is.
constexpr int kCompared = 3;

// One number for each step: the loss, or the milliseconds.
absl::StatusOr<std::vector<double>> Ask(PeerProcess& peer, const std::string& name,
                                        const char* what, int steps) {
  UOPD_ASSIGN(const std::string answer, peer.Ask(Cat(name, " ", what, " ", steps)));
  const auto json = nlohmann::json::parse(answer, nullptr, false);
  if (json.is_discarded()) return absl::InternalError(Cat("the peer says ", answer));
  return json.get<std::vector<double>>();
}

absl::Status Measure(const std::string& name, const std::string& address, PeerProcess& peer,
                     double seconds, std::vector<Measurement>& out) {
  UOPD_ASSIGN(auto connection, client::Connection::Connect({.address = address}));
  client::ClientOptions switches;
  UOPD_ASSIGN(switches.execution, client::OptionsFromEnvironment());
  client::Client client(connection, switches);
  UOPD_ASSIGN(const auto subject, MakeSubject(name, client));
  UOPD_TRY(subject->Fill());
  UOPD_ASSIGN(const std::vector<double> losses, Ask(peer, name, "losses", kCompared));
  for (const double expected : losses) {
    UOPD_ASSIGN(const std::string bytes, subject->Run());
    float loss = 0;
    std::memcpy(&loss, bytes.data(), sizeof loss);
    if (!(std::abs(static_cast<double>(loss) - expected) <= 1e-3 * losses[0]))
      return absl::InternalError(Cat("the loss is ", loss, ", that of the peer ", expected));
  }
  constexpr int kTogether = 3;
  std::vector<double> ours, theirs;
  for (const double until = NowSeconds() + seconds; ours.empty() || NowSeconds() < until;) {
    usleep(50'000);  // the threads of the side before go to sleep
    UOPD_TRY(subject->Run().status());
    for (int i = 0; i < kTogether; ++i) {
      const double start = NowSeconds();
      UOPD_TRY(subject->Run().status());
      ours.push_back(1e3 * (NowSeconds() - start));
    }
    usleep(50'000);
    UOPD_ASSIGN(const std::vector<double> times, Ask(peer, name, "times", kTogether));
    theirs.insert(theirs.end(), times.begin(), times.end());
  }
  out.push_back({Cat("training.", name), "ms", Percentile(ours, kQuartile), "PyTorch",
                 Percentile(theirs, kQuartile)});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  UOPD_ASSIGN(const std::unique_ptr<PeerProcess> peer,
              PeerProcess::Start("training.py", {}, PeerProcess::Python::kDistribution));
  std::unique_ptr<test::Daemon> daemon;
  std::string address = options.address;
  if (address.empty()) {
    UOPD_ASSIGN(daemon, test::Daemon::Start({options.daemon, "", {"--compile-fast-tier=false"}}));
    address = daemon->address();
  }
  std::vector<Measurement> out;
  for (const char* name : {"mlp-adam", "train"}) {
    if (!std::string_view(name).starts_with(options.model)) continue;
    UOPD_TRY(
        WithFrame(Measure(name, address, *peer, 10 * options.scale, out), Cat("measuring ", name)));
  }
  if (out.empty()) return absl::InvalidArgumentError(Cat("no model begins with ", options.model));
  return out;
}

const Register kRegister("training", "steps of training beside PyTorch: --model mlp-adam|train",
                         Run);

}  // namespace
}  // namespace uopd::perf::training_perf
