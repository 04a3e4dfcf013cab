// SPDX-License-Identifier: MIT
// uopctl prepare: compiles a graph into the daemon's cache and runs nothing. So it works for chips
// that the daemon only compiles for (device.compile_only).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"
#include "client/cli/run/graph_run.h"
#include "client/cpp/net/wire_call.h"

namespace uopd::cli {
namespace {

absl::Status Prepare(Globals& globals, const GraphFlags& flags) {
  GraphRun run;
  UOPD_TRY(run.Load(flags));
  UOPD_ASSIGN(const auto session, globals.OpenSession());
  v1::PrepareRequest request;
  request.set_graph(run.graph());
  *request.mutable_options() = client::ToWire(globals.execution);
  UOPD_ASSIGN(const v1::PrepareResponse response, session->Prepare(request));
  const v1::CacheOutcome& cache = response.cache();
  if (globals.json) {
    globals.data = {{"kernels", response.signature().kernels()},
                    {"kernels_compiled", cache.kernels_compiled()},
                    {"kernels_disk", cache.kernels_disk()},
                    {"kernels_cluster", cache.kernels_cluster()},
                    {"kernels_shared", cache.kernels_shared()},
                    {"kernels_memory", cache.kernels_memory()},
                    {"total_seconds", 1e-6 * static_cast<double>(response.timings().total_us())}};
    return absl::OkStatus();
  }
  std::printf(
      "%u kernels: %u compiled, %u from the cluster, %u from the cache on disk, %u in memory, "
      "%u waited for; %.1f ms\n",
      response.signature().kernels(), cache.kernels_compiled(), cache.kernels_cluster(),
      cache.kernels_disk(), cache.kernels_memory(), cache.kernels_shared(),
      1e-3 * static_cast<double>(response.timings().total_us()));
  return absl::OkStatus();
}

}  // namespace

void AddPrepare(CLI::App& app, Globals& globals) {
  auto flags = std::make_shared<GraphFlags>();
  CLI::App* command =
      app.add_subcommand("prepare", "compile a graph into the daemon's cache, and run nothing");
  command->add_option("graph", flags->graph, "file of the textual form (docs/ir.md)")->required();
  AddExecution(*command, globals);
  command->callback([&globals, flags] { globals.status = Prepare(globals, *flags); });
}

}  // namespace uopd::cli
