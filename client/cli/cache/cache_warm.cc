// SPDX-License-Identifier: MIT
// uopctl cache warm: prepares graphs at deploy time, so that the first requests find everything
// compiled.
//
// The graphs are files of the textual form, or those of a bundle, which is imported first and whose
// winners are run. A few graphs are prepared at a time; one that fails does not end the others, and
// the exit status is then 1.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "client/cli/cache/bundle_file.h"
#include "client/cli/cache/cache_flags.h"
#include "client/cli/checks.h"
#include "client/cli/command.h"
#include "client/cli/run/graph_run.h"
#include "client/cpp/net/wire_call.h"
#include "client/data/files.h"
#include "core/base/text.h"

namespace uopd::cli {
namespace {

using nlohmann::json;

struct WarmFlags {
  std::vector<std::string> graphs;  // files
  std::string list, bundle;
  S3Flags s3;
  uint32_t jobs = 4;
  double wait_s = 0;
};

// One graph: where it comes from, and what became of it.
struct WarmJob {
  std::string name;
  std::string digest;  // instead of a file
  absl::Status status;
  v1::PrepareResponse answer;
};

absl::Status ReadJobList(const std::string& path, std::vector<WarmJob>& jobs) {
  UOPD_ASSIGN(std::ifstream file, client::OpenInput(path));
  for (std::string line; std::getline(file, line);) {
    const auto text = absl::StripAsciiWhitespace(line);
    if (!text.empty() && text[0] != '#') jobs.push_back({.name = std::string(text)});
  }
  return absl::OkStatus();
}

absl::Status ReadJobBundle(client::Session& session, const WarmFlags& flags,
                           std::vector<WarmJob>& jobs, uint64_t& refused) {
  std::vector<std::string> keys;
  uint64_t unproven = 0;
  UOPD_TRY(SendBundle(
      session, flags.bundle, flags.s3, false, [&](const v1::ImportCacheResponse& answer) {
        for (const v1::ImportedRecord& record : answer.records()) {
          const bool here = record.outcome() == "imported" || record.outcome() == "present";
          if (record.store() == "graph" && here) keys.push_back(record.key());
          if (record.outcome() == "unproven") ++unproven;
          if (record.outcome() == "refused" || record.outcome() == "not_kept") {
            ++refused;
            std::fprintf(stderr, "record %llu is %s: %s\n",
                         static_cast<unsigned long long>(record.number()), record.outcome().c_str(),
                         record.reason().c_str());
          }
        }
      }));
  for (const std::string& key : keys) {
    v1::GetCacheEntryRequest request;
    request.set_key_prefix(key);
    UOPD_ASSIGN(const v1::GetCacheEntryResponse entry, session.GetCacheEntry(request));
    for (const v1::CacheFact& fact : entry.facts()) {
      if (fact.name() != "graph") continue;
      jobs.push_back({.name = "graph " + fact.text().substr(0, 12),
                      .digest = absl::HexStringToBytes(fact.text())});
    }
  }
  if (unproven == 0) return absl::OkStatus();
  return ProveWinners(session, [&](const v1::CacheVerdict& verdict) {
    if (verdict.outcome() == "wrong_winner") ++refused;
  });
}

absl::StatusOr<v1::PrepareResponse> PrepareOne(Globals& globals, client::Session& session,
                                               const WarmJob& job) {
  v1::PrepareRequest request;
  *request.mutable_options() = client::ToWire(globals.execution);
  if (job.digest.empty()) {
    GraphRun run;
    UOPD_TRY(run.Load({.graph = job.name}));
    request.set_graph(run.graph());
  } else {
    request.set_digest(job.digest);
  }
  return session.Prepare(request);
}

void PrepareAll(Globals& globals, client::Session& session, std::vector<WarmJob>& jobs,
                uint32_t threads) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < jobs.size();) {
      auto answer = PrepareOne(globals, session, jobs[i]);
      jobs[i].status = answer.status();
      if (answer.ok()) jobs[i].answer = *std::move(answer);
    }
  };
  std::vector<std::thread> pool;
  for (size_t i = 1; i < std::min<size_t>(threads, jobs.size()); ++i) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
}

// Waits until the daemon has nothing to tune, at most for `limit_s`.
absl::Status AwaitTuning(client::Session& session, double limit_s) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit_s);
  for (;;) {
    // A daemon that is busy may not answer in time; then the next question will do.
    const absl::StatusOr<v1::GetProgressResponse> progress = session.GetProgress();
    if (progress.ok() && progress->kernels_to_tune() == 0) return absl::OkStatus();
    if (std::chrono::steady_clock::now() >= limit) {
      UOPD_TRY(progress.status());
      return absl::DeadlineExceededError(
          Cat(progress->kernels_to_tune(), " kernels still wait for tuning"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

void PrintJobs(Globals& globals, const std::vector<WarmJob>& jobs) {
  json out = json::array();
  if (!globals.json) {
    std::printf("%7s %8s %7s %6s %7s %6s %6s %9s  %s\n", "kernels", "compiled", "cluster", "disk",
                "memory", "shared", "tuned", "time", "graph");
  }
  for (const WarmJob& job : jobs) {
    const v1::CacheOutcome& cache = job.answer.cache();
    if (globals.json) {
      out.push_back(
          {{"graph", job.name},
           {"ok", job.status.ok()},
           {"error", job.status.ok() ? "" : StatusText(job.status)},
           {"kernels", job.answer.signature().kernels()},
           {"kernels_compiled", cache.kernels_compiled()},
           {"kernels_disk", cache.kernels_disk()},
           {"kernels_cluster", cache.kernels_cluster()},
           {"kernels_shared", cache.kernels_shared()},
           {"kernels_memory", cache.kernels_memory()},
           {"kernels_tuned", cache.kernels_tuned()},
           {"total_seconds", 1e-6 * static_cast<double>(job.answer.timings().total_us())}});
    } else if (job.status.ok()) {
      std::printf("%7u %8u %7u %6u %7u %6u %6u %9s  %s\n", job.answer.signature().kernels(),
                  cache.kernels_compiled(), cache.kernels_cluster(), cache.kernels_disk(),
                  cache.kernels_memory(), cache.kernels_shared(), cache.kernels_tuned(),
                  TimeText(1e-6 * static_cast<double>(job.answer.timings().total_us())).c_str(),
                  job.name.c_str());
    } else {
      std::printf("%7s %8s %7s %6s %7s %6s %6s %9s  %s: %s\n", "failed", "", "", "", "", "", "", "",
                  job.name.c_str(), StatusText(job.status).c_str());
    }
  }
  if (globals.json) globals.data = {{"graphs", out}};
}

absl::Status Warm(Globals& globals, const WarmFlags& flags) {
  std::vector<WarmJob> jobs;
  for (const std::string& path : flags.graphs) jobs.push_back({.name = path});
  if (!flags.list.empty()) UOPD_TRY(ReadJobList(flags.list, jobs));
  UOPD_ASSIGN(const auto session, globals.OpenSession());
  uint64_t refused = 0;
  if (!flags.bundle.empty()) UOPD_TRY(ReadJobBundle(*session, flags, jobs, refused));
  if (jobs.empty()) return absl::InvalidArgumentError("there is no graph to prepare");
  PrepareAll(globals, *session, jobs, flags.jobs);
  absl::Status tuned;
  if (flags.wait_s > 0) {
    tuned = AwaitTuning(*session, flags.wait_s);
    std::vector<WarmJob> again = jobs;
    PrepareAll(globals, *session, again, flags.jobs);  // says how many kernels are tuned now
    for (size_t i = 0; i < jobs.size(); ++i) {
      jobs[i].answer.mutable_cache()->set_kernels_tuned(again[i].answer.cache().kernels_tuned());
    }
  }
  PrintJobs(globals, jobs);
  const auto failed =
      std::ranges::count_if(jobs, [](const WarmJob& job) { return !job.status.ok(); });
  if (failed > 0) {
    globals.bad = Cat(failed, " of ", jobs.size(), " graphs failed");
  } else if (refused > 0) {
    globals.bad = Cat(refused, " records of the bundle were refused or not kept");
  } else if (absl::IsDeadlineExceeded(tuned)) {
    globals.bad = StatusText(tuned);
  }
  return globals.bad.empty() ? tuned : absl::OkStatus();
}

}  // namespace

void AddCacheWarm(CLI::App& cache, Globals& globals) {
  CLI::App* command = cache.add_subcommand(
      "warm", "prepare graphs before requests come; exit status 1 if one of them fails");
  auto flags = std::make_shared<WarmFlags>();
  command->add_option("graphs", flags->graphs, "files of the textual form (docs/ir.md)");
  command->add_option("--list", flags->list, "file with the name of a graph file on each line");
  command->add_option("--bundle", flags->bundle,
                      "import this bundle, a file or s3://BUCKET/KEY, run its winners, and prepare "
                      "its graphs");
  AddS3Flags(*command, flags->s3);
  command->add_option("--jobs", flags->jobs, "graphs to prepare at a time")
      ->capture_default_str()
      ->check(NumberIn(1, 64));
  command
      ->add_option(
          "--wait", flags->wait_s,
          "with --beam: wait up to this many seconds until the daemon has tuned everything")
      ->check(NumberIn(0, kMostSeconds, false));
  AddExecution(*command, globals);
  command->callback([&globals, flags] { globals.status = Warm(globals, *flags); });
}

}  // namespace uopd::cli
