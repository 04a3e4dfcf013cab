// SPDX-License-Identifier: MIT
// The time outside of the kernel of a program with one kernel: in the daemon, from the parsed
// request to the ready answer, from the second run on. Results stay in buffers of the session:
// `kept` writes to the same buffer in every run, `new` to one that the run before did not have, as
// a client does that assigns nothing. What fresh memory costs inside the kernel counts as outside.
#include "core/base/text.h"
#include "tests/perf/models/recorder.h"
#include "tests/perf/perf.h"
#include "tests/support/daemon.h"
#include "uopd/client.h"

namespace uopd::perf::overhead_perf {
namespace {

using client::Tensor;

absl::Status Measure(int64_t kib, const std::string& address, int rounds,
                     std::vector<Measurement>& out) {
  UOPD_ASSIGN(auto connection, client::Connection::Connect({.address = address}));
  auto recorder = std::make_shared<Recorder>(connection);
  client::Client client(recorder);
  const int64_t n = kib * 1024 / 4;
  Tensor x = client.Empty({n});
  x.Assign(client.Arange(0, n, 1, client::Dtype::F32) * (1.0 / static_cast<double>(n)));
  Tensor kept = client.Empty({n});
  Tensor result;
  UOPD_TRY(client::Realize({x, kept}));
  std::vector<double> kernel, kept_total, new_total;  // microseconds
  for (int i = 0; i < rounds + 2; ++i) {
    kept.Assign(x.Exp());
    UOPD_TRY(kept.Realize());
    const double run = recorder->report().run_us, total = recorder->report().total_us;
    result = x.Exp();
    UOPD_TRY(result.Realize());
    if (i < 2) continue;  // the first runs
    kernel.push_back(run);
    kept_total.push_back(total);
    new_total.push_back(recorder->report().total_us);
  }
  const double run = Percentile(kernel, 0.5), limit = 0.05 * run + 100;
  const std::string name = Cat("overhead.", kib, "KiB.");
  out.push_back({Cat(name, "kept"), "us", Percentile(kept_total, 0.5) - run,
                 "5 % of the kernel + 100 us", limit});
  out.push_back({Cat(name, "new"), "us", Percentile(new_total, 0.5) - run,
                 "5 % of the kernel + 100 us", limit});
  out.push_back({Cat(name, "kernel"), "us", run});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  std::unique_ptr<test::Daemon> daemon;
  std::string address = options.address;
  if (address.empty()) {
    UOPD_ASSIGN(daemon, test::Daemon::Start({options.daemon, "", {"--compile-fast-tier=false"}}));
    address = daemon->address();
  }
  std::vector<Measurement> out;
  for (int64_t kib : {4, 256, 4096, 16384, 65536}) {
    const int rounds = std::max(3, static_cast<int>(100 * options.scale));
    UOPD_TRY(Measure(kib, address, rounds, out));
  }
  return out;
}

const Register kRegister("overhead", "time outside of the kernel of a program with one kernel",
                         Run);

}  // namespace
}  // namespace uopd::perf::overhead_perf
