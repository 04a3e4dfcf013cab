// SPDX-License-Identifier: MIT
// What BEAM=2 still finds: every operation of `kernels` through the daemon, first with the opts of
// the heuristic, then tuned, by turns. The heuristic should leave little to find, and a tuned
// program is never slower. Not part of `table`, since tuning them all takes more than an hour.
#include <unistd.h>

#include <algorithm>

#include "client/cpp/connection.h"
#include "core/base/text.h"
#include "tests/perf/perf.h"
#include "tests/perf/works.h"
#include "tests/support/daemon.h"

namespace uopd::perf {
namespace {

using client::Tensor;

// Kernels that are no row of `kernels`, but where a search once found much.
std::vector<Work> Others() {
  const auto add = [](const char* name, std::function<Tensor(client::Client&)> build) {
    Work work{"other", name};
    work.build = std::move(build);
    return work;
  };
  return {add("random", [](client::Client& c) { return c.Rand({4096, 1024}); }),
          add("elementwise", [](client::Client& c) {
            const Tensor x = c.Empty({4096, 1024}), y = c.Empty({1024});
            return (x * y + y).Relu() * 0.5 + x.Sigmoid();
          })};
}

// A connection that keeps the last request, so that it can be sent again.
class Capture final : public client::Executor {
 public:
  explicit Capture(std::shared_ptr<client::Connection> connection)
      : connection_(std::move(connection)) {}

  absl::StatusOr<v1::ExecuteResponse> Execute(v1::ExecuteRequest& request) override {
    request.clear_free_buffers();  // the inputs are needed again
    auto response = connection_->Execute(request);
    if (response.ok()) request_ = request;
    return response;
  }
  absl::Status Upload(uint64_t handle, std::string_view device, std::string_view bytes) override {
    return connection_->Upload(handle, device, bytes);
  }
  absl::StatusOr<std::string> Download(uint64_t handle, uint64_t bytes) override {
    return connection_->Download(handle, bytes);
  }

  const v1::ExecuteRequest& request() const { return request_; }

 private:
  const std::shared_ptr<client::Connection> connection_;
  v1::ExecuteRequest request_;
};

class Bench {
 public:
  Bench(test::Daemon& daemon, std::shared_ptr<client::Connection> connection)
      : daemon_(daemon), connection_(connection), capture_(std::make_shared<Capture>(connection)) {}

  // Tuned time / untuned time.
  absl::StatusOr<Measurement> Measure(const Work& work) {
    client::Client client(capture_);
    Tensor result = work.build(client);
    UOPD_TRY(result.Realize());
    v1::ExecuteRequest request = capture_->request();
    request.clear_request_id();
    UOPD_TRY(RunUs(request, 0).status());
    UOPD_TRY(RunUs(request, 2).status());
    while (daemon_.Metric("uopd_tune_queue") != 0) usleep(20'000);
    std::vector<double> untuned, tuned;
    UOPD_ASSIGN(const double about, RunUs(request, 2));
    const int together = std::clamp(static_cast<int>(2e4 / std::max(about, 1.0)), 1, 64);
    for (int round = 0; round < 12; ++round) {
      for (auto& [beam, times] : {std::pair(0, &untuned), std::pair(2, &tuned)}) {
        for (int i = 0; i < together; ++i) {
          UOPD_ASSIGN(const double us, RunUs(request, static_cast<uint32_t>(beam)));
          times->push_back(us);
        }
      }
    }
    for (const v1::Argument& argument : request.arguments())
      request.add_free_buffers(argument.buffer());
    UOPD_TRY(RunUs(request, 0).status());
    return Measurement{Cat("beam.", work.group, ".", work.name), "ratio",
                       Percentile(tuned, kQuartile) / Percentile(untuned, kQuartile)};
  }

 private:
  absl::StatusOr<double> RunUs(v1::ExecuteRequest& request, uint32_t beam) {
    request.mutable_options()->set_beam(beam);
    UOPD_ASSIGN(const v1::ExecuteResponse response, connection_->Execute(request));
    return response.timings().run_us();
  }

  test::Daemon& daemon_;
  const std::shared_ptr<client::Connection> connection_;
  const std::shared_ptr<Capture> capture_;  // one for all clients: handles are numbered by it
};

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  const auto candidates = std::max<int64_t>(2, static_cast<int64_t>(500 * options.scale));
  UOPD_ASSIGN(const auto daemon,
              test::Daemon::Start({options.daemon, "", {Cat("--tune-candidates=", candidates)}}));
  UOPD_ASSIGN(auto connection, client::Connection::Connect({.address = daemon->address()}));
  Bench bench(*daemon, connection);
  std::vector<Work> all = AllWorks();
  for (Work& work : Others()) all.push_back(std::move(work));
  std::vector<Measurement> out;
  for (const Work& work : all) {
    const std::string name = Cat(work.group, ".", work.name);
    // Buffers hold zeros here, so indices would be no random ones.
    if (!work.build || work.threads != 2 || work.options.integers_below > 0 ||
        !name.starts_with(options.model))
      continue;
    auto m = bench.Measure(work);
    if (!m.ok()) return WithFrame(m.status(), Cat("measuring ", name));
    if (options.report)
      options.report(*m);
    else
      out.push_back(*std::move(m));
  }
  return out;
}

const Register kRegister("beam", "what BEAM=2 still finds: --model BEGINNING-OF-A-NAME of kernels",
                         Run);

}  // namespace
}  // namespace uopd::perf
