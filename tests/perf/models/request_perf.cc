// SPDX-License-Identifier: MIT
// Where the time of a request goes, from the first Tensor call of the client to the bytes of the
// result: building the graph, calls to the daemon one by one, the daemon's part of them, kernels.
// Medians of each part; kernels are measured in runs of their own, with Options.profile.
#include "core/base/telemetry/trace.h"
#include "core/base/text.h"
#include "tests/perf/models/recorder.h"
#include "tests/perf/models/subjects.h"
#include "tests/perf/perf.h"
#include "tests/support/daemon.h"
#include "uopd/client.h"

namespace uopd::perf::request_perf {
namespace {

constexpr int kRuns = 200, kFirst = 6;

// A connection that notes how long each call takes.
class TimedCalls final : public client::Executor {
  template <class Call>
  static auto Timed(int64_t& ns, const Call& call) {
    const int64_t start = NowNs();
    auto out = call();
    ns += NowNs() - start;
    return out;
  }
  static client::Future Waited(const client::Future& future) {
    future.Wait().IgnoreError();
    return future;
  }

 public:
  explicit TimedCalls(std::shared_ptr<client::Executor> to) : to_(std::move(to)) {}

  client::Answer Submit(client::Call call) override {
    call.options.profile = profile;
    const client::Answer answer = Timed(execute_ns, [&] {
      const client::Answer out = to_->Submit(std::move(call));
      out.future.Wait().IgnoreError();
      return out;
    });
    if (answer.future.Wait().ok()) kernels_us = answer.result->report.kernels_us;
    return answer;
  }
  client::Future Upload(uint64_t handle, std::string_view device,
                        std::shared_ptr<const std::string> bytes) override {
    return Timed(upload_ns, [&] { return Waited(to_->Upload(handle, device, std::move(bytes))); });
  }
  client::Future Download(uint64_t handle, std::span<char> out) override {
    return Timed(download_ns, [&] { return Waited(to_->Download(handle, out)); });
  }
  uint64_t max_message_bytes() const override { return to_->max_message_bytes(); }

  bool profile = false;  // of the next requests
  double kernels_us = 0;
  int64_t execute_ns = 0, upload_ns = 0, download_ns = 0;

 private:
  const std::shared_ptr<client::Executor> to_;
};

absl::Status Measure(const std::string& name, const std::string& address, int runs,
                     std::vector<Measurement>& out) {
  UOPD_ASSIGN(auto connection, client::Connection::Connect({.address = address}));
  auto recorder = std::make_shared<Recorder>(connection);
  auto calls = std::make_shared<TimedCalls>(recorder);
  client::Client client(calls);
  UOPD_ASSIGN(const std::unique_ptr<Subject> subject, MakeSubject(name, client));
  UOPD_TRY(subject->Fill());
  const std::vector<std::string> parts = {
      "total",    "step",         "realize",      "execute",     "upload",
      "download", "daemon.total", "daemon.queue", "daemon.copy", "daemon.run"};
  std::vector<std::vector<double>> us(parts.size());
  for (int i = 0; i < runs + kFirst; ++i) {
    calls->execute_ns = calls->upload_ns = calls->download_ns = 0;
    const int64_t begin = NowNs();
    UOPD_ASSIGN(const std::vector<client::Tensor> step, subject->Step());
    const int64_t built = NowNs();
    UOPD_TRY(client::Realize(step));
    const int64_t realized = NowNs();
    UOPD_TRY(step[0].ToBytes().status());
    const int64_t end = NowNs();
    if (i < kFirst) continue;
    const client::CallReport& t = recorder->report();
    const auto ns = [](int64_t n) { return 1e-3 * static_cast<double>(n); };
    const std::vector<double> values = {ns(end - begin),
                                        ns(built - begin),
                                        ns(realized - built),
                                        ns(calls->execute_ns),
                                        ns(calls->upload_ns),
                                        ns(calls->download_ns),
                                        t.total_us,
                                        t.queue_us,
                                        t.copy_us,
                                        t.run_us};
    for (size_t p = 0; p < parts.size(); ++p) us[p].push_back(values[p]);
  }
  for (size_t p = 0; p < parts.size(); ++p)
    out.push_back({Cat("request.", name, ".", parts[p]), "us", Percentile(us[p], 0.5)});
  calls->profile = true;
  std::vector<double> kernels;
  for (int i = 0; i < runs; ++i) {
    UOPD_TRY(subject->Run().status());
    kernels.push_back(calls->kernels_us);
  }
  out.push_back({Cat("request.", name, ".kernels"), "us", Percentile(kernels, 0.5)});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  std::unique_ptr<test::Daemon> daemon;
  std::string address = options.address;
  if (address.empty()) {
    std::vector<std::string> flags = {"--limits-session-bytes=16GiB"};
    if (!options.device.empty()) {
      flags.push_back(Cat("--device-list=", options.device));
      // Where the driver compiles PTX, a worker's address space has no room for it under the usual
      // limit.
      flags.emplace_back("--compile-worker-bytes=0");
    }
    UOPD_ASSIGN(daemon, test::Daemon::Start({options.daemon, "", std::move(flags)}));
    address = daemon->address();
  }
  std::vector<Measurement> out;
  const std::string name = options.model.empty() ? "mobilenetv2.b1" : options.model;
  UOPD_TRY(
      WithFrame(Measure(name, address, std::max(10, static_cast<int>(kRuns * options.scale)), out),
                Cat("measuring ", name)));
  return out;
}

const Register kRegister("request",
                         "parts of the time of a request: --model mobilenetv2.b1|resnet50.b1|...",
                         Run);

}  // namespace
}  // namespace uopd::perf::request_perf
