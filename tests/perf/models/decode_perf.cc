// SPDX-License-Identifier: MIT
// A decode step of Llama-3.2-1B's shape with bf16 weights, through the daemon: token sent, next
// token received. Beside a loop that reads as many bytes as there are weights, by turns.
#include <unistd.h>

#include "tests/perf/models/decode_session.h"
#include "tests/perf/peers/stream_peer.h"
#include "tests/perf/perf.h"

namespace uopd::perf::decode_perf {
namespace {

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  UOPD_ASSIGN(const auto session, DecodeSession::Start(options, {"--compile-fast-tier=false"}));
  Subject* const subject = session->subject.get();
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
      UOPD_TRY(session->CheckToken(token));
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
}  // namespace uopd::perf::decode_perf
