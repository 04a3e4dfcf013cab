// SPDX-License-Identifier: MIT
// What a graph that nobody has seen costs for a GPU that is not here: from the graph's arrival at
// the daemon to cubins, which its compile workers make with NVRTC, or from PTX of our own with
// uopd-ptxc. Beside the reference pipeline with its CUDA compiler, NVRTC (tests/perf/peers/cold.py
// with a device that runs nothing). Empty caches.
//
// The processor time of all processes of each side is reported too: other work on the machine
// changes it less.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/text.h"
#include "tests/perf/models/cold_session.h"
#include "tests/perf/peers/peer_process.h"
#include "tests/perf/perf.h"
#include "tests/support/processes.h"

namespace uopd::perf::cold_gpu_perf {
namespace {

constexpr int kRounds = 3;
constexpr std::chrono::milliseconds kStart{1000};  // the daemon makes workers ready
constexpr char kChip[] = "sm_90";

struct Row {
  const char *name, *subject, *peer;
};

using Series = std::map<std::string, std::vector<double>>;

// Milliseconds that the processes that this one started have computed so far, in steps of 10.
double ProcessorMs() {
  int64_t ticks = 0;
  for (const test::Process& p : test::Descendants(getpid())) ticks += p.cpu_ticks;
  return 1e3 * static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

absl::Status Ours(const Row& row, const Options& options, bool ptx, Series& times) {
  const ColdFolder folder;
  UOPD_ASSIGN(
      const auto session,
      ColdSession::Open(
          options.daemon, folder.path(), row.subject,
          {"--device-list=CUDA:0", Cat("--device-compile-only=CUDA:0=", kChip),
           "--compile-fast-tier=false", Cat("--device-cuda-ptx=", ptx ? "true" : "false")}));
  std::this_thread::sleep_for(kStart);
  const double before = ProcessorMs();
  UOPD_ASSIGN(const v1::PrepareResponse answer, session->Prepare());
  times["cpu"].push_back(ProcessorMs() - before);
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

double Median(const Series& times, const char* what) { return Percentile(times.at(what), 0.5); }

void Report(const std::string& name, const Series& times, const Series& peer,
            std::vector<Measurement>& out) {
  const auto of = [&](const char* what) { return Median(times, what); };
  for (const auto& [row, part] : {std::pair{name, "total"}, {Cat(name, ".cpu"), "cpu"}})
    out.push_back({row, "ms", of(part), "reference (NVRTC)", Median(peer, part)});
  // Parts of the time of all threads and workers together.
  for (const char* part : {"schedule", "codegen", "render", "compile"})
    out.push_back({Cat(name, ".", part), "ms", of(part)});
  for (const char* count : {"kernels", "compiled"})
    out.push_back({Cat(name, ".", count), "kernels", of(count)});
}

absl::Status Measure(const Row& row, const Options& options, std::vector<Measurement>& out) {
  const int rounds = std::max(1, static_cast<int>(kRounds * options.scale));
  Series nvrtc, ptx, reference;
  absl::Status no_ptx;
  for (int i = 0; i < rounds; ++i) {
    UOPD_TRY(Ours(row, options, false, nvrtc));
    if (no_ptx.ok()) no_ptx = Ours(row, options, true, ptx);
    UOPD_ASSIGN(const auto peer, PeerProcess::Start("cold.py", {Cat("NULL:CUDA:", kChip), "2"}));
    const double before = ProcessorMs();
    UOPD_ASSIGN(const std::string answer, peer->Ask(row.peer));
    const double cpu = ProcessorMs() - before;
    const auto json = nlohmann::json::parse(answer, nullptr, false);
    if (json.is_discarded()) return absl::InternalError(Cat("the reference says ", answer));
    reference["total"].push_back(json["total"].get<double>());
    reference["cpu"].push_back(cpu - json["build_cpu"].get<double>());  // not what makes the graph
  }
  const std::string name = Cat("cold-gpu.", kChip, ".", row.name);
  Report(Cat(name, ".nvrtc"), nvrtc, reference, out);
  if (no_ptx.ok())
    Report(Cat(name, ".ptx"), ptx, reference, out);
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
}  // namespace uopd::perf::cold_gpu_perf
