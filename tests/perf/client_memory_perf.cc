// SPDX-License-Identifier: MIT
// A client that builds and drops graphs for a million steps: its memory must not grow.
#include "tests/perf/perf.h"
#include "tests/support/models/sync_executor.h"
#include "uopd/client.h"
#include "uopd/tensor.h"

namespace uopd::perf::client_memory_perf {
namespace {

// Answers nothing but stores, so that the client's own memory is all there is.
class SilentDaemon : public client::SyncExecutor {
 public:
  absl::StatusOr<v1::ExecuteResponse> Execute(v1::ExecuteRequest&) override {
    return v1::ExecuteResponse();
  }
  absl::Status UploadNow(uint64_t, std::string_view, std::string_view) override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> DownloadNow(uint64_t, uint64_t bytes) override {
    return std::string(bytes, '\0');
  }
};

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  client::Client client(std::make_shared<SilentDaemon>(), {.seed = 1});
  client::Tensor w = client.Zeros({256, 256});  // too large to come with an answer
  UOPD_TRY(w.Realize());
  const auto steps = static_cast<int64_t>(1e6 * options.scale);
  std::vector<Measurement> out;
  double early = 0, most = 0;
  const double start = NowSeconds();
  for (int64_t step = 0; step < steps; ++step) {
    // New nodes every step: the constant differs.
    const client::Tensor dropped = ((w * static_cast<double>(step)).Relu() + w.Mean()).Sum();
    if (dropped.dims().size() != 0) return absl::InternalError("the sum is no scalar");
    if (step % 100 == 0) {
      w.Assign(w + 1.0);
      UOPD_TRY(w.Realize());
    }
    // The arena fills and is compacted in turn, so peaks are compared with peaks.
    double& peak = step < steps / 10 ? early : most;
    if (step % 500 == 0) peak = std::max(peak, ResidentMiB());
  }
  out.push_back({"client_memory.step", "us",
                 (NowSeconds() - start) / static_cast<double>(steps) * 1e6, "", 0});
  out.push_back({"client_memory.resident_peak", "MiB", most, "peak of the first tenth", early});
  out.push_back(
      {"client_memory.graph_nodes", "nodes", static_cast<double>(client.graph_nodes()), "", 0});
  return out;
}

const Register kRegister("client-memory",
                         "a million steps that build and drop graphs: resident memory", Run);

}  // namespace
}  // namespace uopd::perf::client_memory_perf
