// SPDX-License-Identifier: MIT
// What BEAM=2 still finds: every operation of `kernels`, the products of a decode step, and others,
// through the daemon, first with the opts of the heuristic, then tuned, by turns. The heuristic
// should leave little to find, and a tuned program is never slower. `--scale` sets how many
// candidates a search measures: 500 times the scale. Not part of `table`, since tuning them all
// takes more than an hour.
//
// A ratio that says otherwise is suspicious, because other work on the machine changes times too.
// It is measured twice more, and the median of the three counts.
#include <unistd.h>

#include <algorithm>
#include <random>

#include "core/base/text.h"
#include "tests/perf/perf.h"
#include "tests/perf/works.h"
#include "tests/support/daemon.h"
#include "uopd/connection.h"

namespace uopd::perf::beam_perf {
namespace {

using client::Tensor;

constexpr double kLeast = 0.92, kMost = 1.03;  // a ratio outside of these is measured again

// One token against a matrix of a decode step (Llama-3.2-1B): weights in bf16, sums in f32.
Work DecodeProduct(int64_t rows, int64_t columns) {
  Work work{"decode", Cat(rows, "x", columns)};
  work.build = [=](client::Client& c) {
    const Tensor w = c.Empty({columns, rows}, client::Dtype::BF16);
    return c.Empty({1, rows}).MatMul(w.Cast(client::Dtype::F32).Transpose(0, 1));
  };
  return work;
}

// What is no row of `kernels`: the products of decoding, a gather at indices that are really random
// (buffers of Empty hold zeros), and kernels where a search once found much.
std::vector<Work> Others() {
  const auto add = [](const char* name, std::function<Tensor(client::Client&)> build) {
    Work work{"other", name};
    work.build = std::move(build);
    return work;
  };
  return {DecodeProduct(2048, 2048),
          DecodeProduct(2048, 8192),
          DecodeProduct(8192, 2048),
          add("gather",
              [](client::Client& c) {
                constexpr int64_t kRows = 1 << 20;
                std::mt19937 random(1);
                std::vector<int32_t> at(kRows);
                for (int32_t& i : at) i = static_cast<int32_t>(random() % kRows);
                return c.Empty({kRows, 64}).IndexSelect(0, c.FromHost(at, {kRows}));
              }),
          add("normal", [](client::Client& c) { return c.Randn({4096, 1024}); }),
          add("random", [](client::Client& c) { return c.Rand({4096, 1024}); }),
          add("elementwise", [](client::Client& c) {
            const Tensor x = c.Empty({4096, 1024}), y = c.Empty({1024});
            return (x * y + y).Relu() * 0.5 + x.Sigmoid();
          })};
}

// A connection that keeps the last call, so that it can be made again.
class Capture final : public client::Executor {
 public:
  explicit Capture(std::shared_ptr<client::Connection> connection)
      : connection_(std::move(connection)) {}

  client::Answer Submit(client::Call call) override {
    call.free_buffers.clear();  // the inputs are needed again
    call_ = call;
    return connection_->Submit(std::move(call));
  }
  client::Future Upload(uint64_t handle, std::string_view device,
                        std::shared_ptr<const std::string> bytes) override {
    return connection_->Upload(handle, device, std::move(bytes));
  }
  client::Future Download(uint64_t handle, std::span<char> out) override {
    return connection_->Download(handle, out);
  }

  const client::Call& call() const { return call_; }

 private:
  const std::shared_ptr<client::Connection> connection_;
  client::Call call_;
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
    client::Call call = capture_->call();
    UOPD_TRY(RunUs(call, 0).status());
    UOPD_TRY(RunUs(call, 2).status());
    while (daemon_.Metric("uopd_tune_queue") != 0) usleep(20'000);
    std::vector<double> ratios;
    do {
      UOPD_ASSIGN(const double ratio, Ratio(call));
      ratios.push_back(ratio);
    } while (ratios.size() < 3 && (ratios.size() > 1 || ratios[0] < kLeast || ratios[0] > kMost));
    for (const client::Argument& argument : call.arguments)
      call.free_buffers.push_back(argument.handle);
    UOPD_TRY(RunUs(call, 0).status());
    return Measurement{Cat("beam.", work.group, ".", work.name), "ratio", Percentile(ratios, 0.5)};
  }

 private:
  // Tuned time / untuned time, of the lower quartiles of runs by turns.
  absl::StatusOr<double> Ratio(client::Call& call) {
    std::vector<double> untuned, tuned;
    UOPD_ASSIGN(const double about, RunUs(call, 2));
    const int together = std::clamp(static_cast<int>(2e4 / std::max(about, 1.0)), 1, 64);
    for (int round = 0; round < 12; ++round) {
      for (auto& [beam, times] : {std::pair(0, &untuned), std::pair(2, &tuned)}) {
        for (int i = 0; i < together; ++i) {
          UOPD_ASSIGN(const double us, RunUs(call, static_cast<uint32_t>(beam)));
          times->push_back(us);
        }
      }
    }
    return Percentile(tuned, kQuartile) / Percentile(untuned, kQuartile);
  }
  absl::StatusOr<double> RunUs(client::Call& call, uint32_t beam) {
    call.options.beam = beam;
    const client::Answer answer = connection_->Submit(call);
    UOPD_TRY(answer.future.Wait());
    return answer.result->report.run_us;
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
    // Buffers hold zeros here, so indices would be no random ones (Others has the gather). Whole
    // models take hours, so they are tuned if they are named.
    if (!work.build || work.threads != 2 || work.options.integers_below > 0 ||
        !name.starts_with(options.model) || (work.group == "model" && options.model.empty()))
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
}  // namespace uopd::perf::beam_perf
