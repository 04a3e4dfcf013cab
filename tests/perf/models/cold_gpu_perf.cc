// SPDX-License-Identifier: MIT
// What a graph that nobody has seen costs for a GPU that is not here: from the graph's arrival at the daemon to
// cubins, which its compile workers make with NVRTC, or from PTX of our own with uopd-ptxc. Beside the reference
// pipeline with its CUDA compiler, NVRTC (tests/perf/peers/cold.py with a device that runs nothing). Empty caches.
#include <chrono>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/text.h"
#include "tests/perf/models/cold_session.h"
#include "tests/perf/peers/peer_process.h"
#include "tests/perf/perf.h"

namespace uopd::perf {
namespace {

constexpr int kRounds = 3;
constexpr std::chrono::milliseconds kStart{1000};  // the daemon makes workers ready
constexpr char kChip[] = "sm_90";

struct Row {
  const char *name, *subject, *peer;
};

using Series = std::map<std::string, std::vector<double>>;

absl::Status Ours(const Row& row, const Options& options, bool ptx, Series& times) {
  const ColdFolder folder;
  UOPD_ASSIGN(
      const auto session,
      ColdSession::Open(
          options.daemon, folder.path(), row.subject,
          {"--device-list=CUDA:0", Cat("--device-compile-only=CUDA:0=", kChip),
           "--compile-fast-tier=false", Cat("--device-cuda-ptx=", ptx ? "true" : "false")}));
  std::this_thread::sleep_for(kStart);
  UOPD_ASSIGN(const v1::PrepareResponse answer, session->Prepare());
  const v1::Timings& t = answer.timings();
  for (const auto& [part, us] : {std::pair{"total", t.total_us()},
                                 {"schedule", t.schedule_us()},
                                 {"codegen", t.codegen_us()},
                                 {"render", t.render_us()},
                                 {"compile", t.compile_us()}})
    times[part].push_back(1e-3 * static_cast<double>(us));
  times["kernels"].push_back(answer.signature().kernels());
  times["compiled"].push_back(answer.cache().kernels_compiled());
  return session->Stop();
}

void Report(const std::string& name, Series& times, double peer_ms, std::vector<Measurement>& out) {
  const auto of = [&](const char* what) { return Percentile(times[what], 0.5); };
  out.push_back({name, "ms", of("total"), "reference (NVRTC)", peer_ms});
  // Parts of the time of all threads and workers together.
  for (const char* part : {"schedule", "codegen", "render", "compile"})
    out.push_back({Cat(name, ".", part), "ms", of(part)});
  for (const char* count : {"kernels", "compiled"})
    out.push_back({Cat(name, ".", count), "kernels", of(count)});
}

absl::Status Measure(const Row& row, const Options& options, std::vector<Measurement>& out) {
  const int rounds = std::max(1, static_cast<int>(kRounds * options.scale));
  Series nvrtc, ptx;
  std::vector<double> peer_ms;
  absl::Status no_ptx;
  for (int i = 0; i < rounds; ++i) {
    UOPD_TRY(Ours(row, options, false, nvrtc));
    if (no_ptx.ok()) no_ptx = Ours(row, options, true, ptx);
    UOPD_ASSIGN(const auto peer, PeerProcess::Start("cold.py", {Cat("NULL:CUDA:", kChip), "2"}));
    UOPD_ASSIGN(const std::string answer, peer->Ask(row.peer));
    const auto json = nlohmann::json::parse(answer, nullptr, false);
    if (json.is_discarded()) return absl::InternalError(Cat("the reference says ", answer));
    peer_ms.push_back(json["total"].get<double>());
  }
  const std::string name = Cat("cold-gpu.", kChip, ".", row.name);
  Report(Cat(name, ".nvrtc"), nvrtc, Percentile(peer_ms, 0.5), out);
  if (no_ptx.ok())
    Report(Cat(name, ".ptx"), ptx, Percentile(peer_ms, 0.5), out);
  else
    std::fprintf(stderr, "PTX is left out: %s\n", StatusText(no_ptx).c_str());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  constexpr Row kRows[] = {{"resnet50", "resnet50.b1", "resnet50"}, {"decode", "decode", "decode"}};
  std::vector<Measurement> out;
  for (const Row& row : kRows) {
    if (!std::string_view(row.name).starts_with(options.model)) continue;
    UOPD_TRY(WithFrame(Measure(row, options, out), Cat("measuring ", row.name)));
  }
  if (out.empty()) return absl::InvalidArgumentError(Cat("no model begins with ", options.model));
  return out;
}

const Register kRegister("cold-gpu",
                         "from a graph to cubins for a GPU that is not here, beside the reference "
                         "pipeline: --model resnet50|decode; needs libnvrtc",
                         Run);

}  // namespace
}  // namespace uopd::perf
