// SPDX-License-Identifier: MIT
// What a graph that nobody has seen costs: from the graph's arrival at the daemon to kernels that
// are loaded and ready to launch. With an empty cache, beside the reference pipeline
// (tests/perf/peers/cold.py), and after a restart with the cache that the first daemon left.
//
// The run itself is excluded on both sides. Each figure is of a process of its own; the start of
// the daemon, and of Python with its pool of compiling processes, is excluded.
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/telemetry/trace.h"
#include "core/base/text.h"
#include "tests/perf/models/cold_session.h"
#include "tests/perf/models/llvm_parts.h"
#include "tests/perf/peers/peer_process.h"
#include "tests/perf/perf.h"

namespace uopd::perf::cold_perf {
namespace {

struct Row {
  std::string name, subject, peer;
};
constexpr int kRounds = 3, kSteadyRuns = 7, kRequests = 10;
// What a daemon does after it serves for the first time: it makes workers ready. The compiling
// processes of the reference are ready too.
constexpr std::chrono::milliseconds kStart{1000};

using Series = std::map<std::string, std::vector<double>>;

std::vector<std::string> Tiers(bool drafts) {
  return {Cat("--compile-fast-tier=", drafts ? "true" : "false")};
}

void Keep(const v1::Timings& t, Series& cold) {
  cold["total"].push_back(1e-3 * t.total_us());
  cold["verify"].push_back(1e-3 * t.verify_us());
  cold["schedule"].push_back(1e-3 * t.schedule_us());
  cold["codegen"].push_back(1e-3 * t.codegen_us());
  cold["render"].push_back(1e-3 * t.render_us());
  cold["compile"].push_back(1e-3 * t.compile_us());
  cold["load"].push_back(1e-3 * t.load_us());
}

// One daemon with an empty cache, and one that is started after it.
absl::Status Ours(const Row& row, const std::string& daemon, const std::string& graph, bool runs,
                  Series& times) {
  const ColdFolder folder;
  {
    UOPD_ASSIGN(const auto session,
                ColdSession::Open(daemon, folder.path(), row.subject, Tiers(false)));
    std::this_thread::sleep_for(kStart);
    session->graph = graph;
    UOPD_ASSIGN(const v1::PrepareResponse answer, session->Prepare());
    if (answer.cache().kernels_compiled() == 0)
      return absl::InternalError("the cache was not empty");
    Keep(answer.timings(), times);
    times["kernels"].push_back(answer.signature().kernels());
    times["compiled"].push_back(answer.cache().kernels_compiled());
    if (!times.contains("llvm.total")) {
      UOPD_ASSIGN(const auto parts, LlvmParts(session->graph));
      for (const auto& [part, ms] : parts) times[Cat("llvm.", part)].push_back(ms);
    }
    UOPD_TRY(session->Stop());
  }
  UOPD_ASSIGN(const auto session,
              ColdSession::Open(daemon, folder.path(), row.subject, Tiers(false)));
  session->graph = graph;
  UOPD_ASSIGN(const v1::PrepareResponse answer, session->Prepare());
  if (answer.cache().kernels_compiled() > 0)
    return absl::InternalError(
        Cat(answer.cache().kernels_compiled(), " kernels were compiled again after the restart"));
  times["warm"].push_back(1e-3 * answer.timings().total_us());
  if (!runs) return session->Stop();
  UOPD_TRY(session->subject->Fill());
  std::vector<double> steady;
  for (int i = 0; i <= kSteadyRuns; ++i) {
    UOPD_TRY(session->subject->Run().status());
    if (!session->recorder->report().schedule_memory)
      return absl::InternalError("the graph that runs is not the one that was prepared");
    const double ms = 1e-3 * session->recorder->report().total_us;
    if (i == 0)
      times["first"].push_back(ms);
    else
      steady.push_back(ms);
  }
  times["steady"].push_back(Percentile(steady, 0.5));
  return session->Stop();
}

// The same with drafts: until a draft of every kernel is ready, and until no kernel is a draft.
absl::Status OursWithDrafts(const Row& row, const std::string& daemon, const std::string& graph,
                            Series& times) {
  const ColdFolder folder;
  UOPD_ASSIGN(const auto session,
              ColdSession::Open(daemon, folder.path(), row.subject, Tiers(true)));
  std::this_thread::sleep_for(kStart);
  session->graph = graph;
  const int64_t begin = NowNs();
  UOPD_ASSIGN(const v1::PrepareResponse answer, session->Prepare());
  times["draft"].push_back(1e-3 * answer.timings().total_us());
  UOPD_TRY(session->AwaitOptimised());
  times["optimised"].push_back(1e-6 * static_cast<double>(NowNs() - begin));
  return session->Stop();
}

// The first request of a client on an empty cache: receive, compile, run. Then nine more, one right
// after the other. With drafts and without.
absl::Status FirstRequest(const Row& row, const std::string& daemon, Series& times) {
  for (const bool drafts : {true, false}) {
    const ColdFolder folder;
    UOPD_ASSIGN(const auto session,
                ColdSession::Open(daemon, folder.path(), row.subject, Tiers(drafts)));
    UOPD_TRY(session->subject->Fill());
    std::this_thread::sleep_for(kStart);
    for (int i = 1; i <= kRequests; ++i) {
      UOPD_TRY(session->subject->Run().status());
      const char* const which = i == 1 ? ".first" : i == 2 ? ".second" : ".later";
      times[Cat(drafts ? "drafts" : "request", which)].push_back(
          1e-3 * session->recorder->report().total_us);
    }
    UOPD_TRY(session->Stop());
  }
  return absl::OkStatus();
}

absl::Status Measure(const Row& row, const Options& options, std::vector<Measurement>& out) {
  const int rounds = std::max(1, static_cast<int>(kRounds * options.scale));
  // The backends of the reference that are fastest: clang as a program, LLVM as a library.
  const std::pair<const char*, const char*> kPeers[] = {{"CPU", "clang"}, {"CPU:LLVM", "LLVM"}};
  UOPD_ASSIGN(const std::string graph, ColdSession::GraphOfRuns(options.daemon, row.subject));
  Series times;
  std::map<std::string, std::vector<double>> peers;
  size_t round = 0;
  for (int i = 0; i < rounds; ++i) {
    UOPD_TRY(Ours(row, options.daemon, graph, options.scale >= 1, times));
    UOPD_TRY(OursWithDrafts(row, options.daemon, graph, times));
    UOPD_TRY(FirstRequest(row, options.daemon, times));
    if (round == std::size(kPeers)) continue;  // the peer takes long, so that noise matters less
    const auto& [device, name] = kPeers[round++];
    UOPD_ASSIGN(const auto peer, PeerProcess::Start("cold.py", {device, "2"}));
    UOPD_ASSIGN(const std::string answer, peer->Ask(row.peer));
    const auto json = nlohmann::json::parse(answer, nullptr, false);
    if (json.is_discarded()) return absl::InternalError(Cat("the reference says ", answer));
    peers[Cat("reference (", name, ")")].push_back(json["total"].get<double>());
  }
  const auto of = [&](const std::string& what) { return Percentile(times[what], 0.5); };
  Measurement total{Cat("cold.", row.name), "ms", of("total")};
  for (const auto& [name, values] : peers) {
    const double ms = Percentile(values, 0.5);
    if (total.peer == 0 || ms < total.peer) total.peer = ms, total.peer_name = name;
  }
  const std::string peer_name = total.peer_name;
  const double peer_ms = total.peer;
  out.push_back(std::move(total));
  // Parts of the time of all threads together. The parts of LLVM are of one thread by itself.
  for (const char* part :
       {"verify", "schedule", "codegen", "render", "compile", "load", "llvm.total", "llvm.passes",
        "llvm.selection", "llvm.registers", "llvm.emission"})
    out.push_back({Cat("cold.", row.name, ".", part), "ms", of(part)});
  out.push_back({Cat("cold.", row.name, ".drafts"), "ms", of("draft"), peer_name, peer_ms});
  out.push_back({Cat("cold.", row.name, ".drafts.optimised"), "ms", of("optimised")});
  for (const char* run : {".first", ".second", ".later"}) {
    out.push_back({Cat("cold.", row.name, ".drafts", run), "ms", of(Cat("drafts", run)),
                   "without drafts", of(Cat("request", run))});
  }
  out.push_back({Cat("cold.", row.name, ".kernels"), "kernels", of("kernels")});
  out.push_back({Cat("cold.", row.name, ".compiled"), "kernels", of("compiled")});
  out.push_back({Cat("cold.", row.name, ".warm"), "ms", of("warm"), "limit", 60});
  if (times.contains("first")) {
    out.push_back({Cat("cold.", row.name, ".first_run"), "ms", of("first"),
                   "1.5 x a steady run + 30 ms", 1.5 * of("steady") + 30});
    out.push_back({Cat("cold.", row.name, ".steady_run"), "ms", of("steady")});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  const Row kRows[] = {{"resnet50", "resnet50.b1", "resnet50"},
                       {"decode", "decode", "decode"},
                       {"train", "train", "train"}};
  std::vector<Measurement> out;
  for (const Row& row : kRows) {
    if (!row.name.starts_with(options.model)) continue;
    UOPD_TRY(WithFrame(Measure(row, options, out), Cat("measuring ", row.name)));
  }
  if (out.empty()) return absl::InvalidArgumentError(Cat("no model begins with ", options.model));
  return out;
}

const Register kRegister("cold",
                         "from a graph to loaded kernels, empty cache and after a restart, beside "
                         "the reference pipeline: --model resnet50|decode|train",
                         Run);

}  // namespace
}  // namespace uopd::perf::cold_perf
