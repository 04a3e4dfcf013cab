// SPDX-License-Identifier: MIT
// A decode step of Llama-3.2-1B's shape with bf16 weights, through the daemon: token sent, next
// token received. Beside a loop that reads as many bytes as there are weights, by turns.
#include <unistd.h>

#include "core/base/text.h"
#include "tests/perf/models/subjects.h"
#include "tests/perf/peers/stream_peer.h"
#include "tests/perf/perf.h"
#include "tests/support/daemon.h"
#include "uopd/connection.h"

namespace uopd::perf {
namespace {

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  std::unique_ptr<test::Daemon> daemon;
  std::string address = options.address;
  if (address.empty()) {
    UOPD_ASSIGN(daemon, test::Daemon::Start({options.daemon, "", {"--compile-fast-tier=false"}}));
    address = daemon->address();
  }
  UOPD_ASSIGN(auto connection, client::Connection::Connect({.address = address}));
  client::ClientOptions switches;
  UOPD_ASSIGN(switches.execution, client::OptionsFromEnvironment());
  client::Client client(connection, switches);
  UOPD_ASSIGN(const auto subject, MakeSubject("decode", client));
  UOPD_TRY(subject->Fill());
  UOPD_ASSIGN(const std::string first, subject->Run());
  const auto bytes = static_cast<double>(subject->weight_bytes());
  const PeerRun read = StreamPeers(1, 0, subject->weight_bytes() / 4, 2)[0];
  std::vector<double> ours, theirs;
  for (const double until = NowSeconds() + 20 * options.scale;
       ours.empty() || NowSeconds() < until;) {
    usleep(50'000);  // the threads of the side before go to sleep
    for (int i = 0; i < 3; ++i) {
      const double start = NowSeconds();
      UOPD_ASSIGN(const std::string token, subject->Run());
      ours.push_back(NowSeconds() - start);
      // The same token at the same position, over caches that the step writes the same values to.
      if (token != first) return absl::InternalError("the same step gives another token");
    }
    usleep(50'000);
    for (int i = 0; i < 3; ++i) {
      const double start = NowSeconds();
      read.run();
      theirs.push_back(NowSeconds() - start);
    }
  }
  const double step = Percentile(ours, kQuartile), reading = Percentile(theirs, kQuartile);
  return std::vector<Measurement>{
      {"decode.step", "ms", 1e3 * step, "reading the weights", 1e3 * reading},
      {"decode.bandwidth", "GB/s", 1e-9 * bytes / step, "reading the weights",
       1e-9 * bytes / reading}};
}

const Register kRegister("decode",
                         "a token of Llama-3.2-1B's shape in bf16 beside reading the same weights",
                         Run);

}  // namespace
}  // namespace uopd::perf
