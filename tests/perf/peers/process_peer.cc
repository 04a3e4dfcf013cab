// SPDX-License-Identifier: MIT
#include "tests/perf/peers/process_peer.h"

#include <cstdio>
#include <cstdlib>

namespace uopd::perf {

PeerRun ProcessPeer(const std::string& name, PeerProcess::Python python,
                    const std::string& question) {
  auto process = std::make_shared<absl::StatusOr<std::unique_ptr<PeerProcess>>>(
      PeerProcess::Start("kernels.py", {}, python));
  const auto ask = [=]() -> absl::StatusOr<double> {
    UOPD_TRY(process->status());
    UOPD_ASSIGN(const std::string answer, (**process)->Ask(question));
    const double seconds = std::atof(answer.c_str());
    if (seconds <= 0) return absl::InternalError(answer);
    return seconds;
  };
  return {name, {}, [=] {
            const auto seconds = ask();
            if (seconds.ok()) return *seconds;
            std::fprintf(stderr, "uopd-perf: %s: %s\n", name.c_str(),
                         StatusText(seconds.status()).c_str());
            return -1.0;
          }};
}

}  // namespace uopd::perf
