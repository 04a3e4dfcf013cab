// SPDX-License-Identifier: MIT
// uopctl run: runs a graph from a text file, or a model, with inputs from and outputs to .npy
// files.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"
#include "client/cli/run/graph_run.h"
#include "client/cli/run/outputs.h"
#include "client/cli/run/run_onnx.h"
#include "client/cpp/net/wire_call.h"
#include "core/base/text.h"

namespace uopd::cli {
namespace {

absl::Status Run(Globals& globals, const GraphFlags& flags) {
  if (flags.graph.ends_with(".onnx")) return RunOnnx(globals, flags);
  GraphRun run;
  UOPD_TRY(run.Load(flags));
  UOPD_ASSIGN(const auto session, globals.OpenSession());
  UOPD_ASSIGN(const v1::ExecuteResponse response,
              run.Execute(*session, client::ToWire(globals.execution)));
  UOPD_TRY(run.FetchResults(*session, response));
  nlohmann::json out = {
      {"outputs", nlohmann::json::object()},
      {"run_seconds", 1e-6 * static_cast<double>(response.timings().run_us())},
      {"total_seconds", 1e-6 * static_cast<double>(response.timings().total_us())},
      {"kernels_compiled", response.cache().kernels_compiled()},
      {"kernels_disk", response.cache().kernels_disk()},
      {"kernels_cluster", response.cache().kernels_cluster()},
      {"kernels_shared", response.cache().kernels_shared()},
      {"kernels_memory", response.cache().kernels_memory()},
      {"kernels_tuned", response.cache().kernels_tuned()},
      {"kernels_draft", response.cache().kernels_draft()}};
  for (auto& [i, s] : run.slots()) {
    if (!s.written) continue;
    UOPD_TRY(GiveOutput(globals, Cat("a", i), {s.dtype, s.dims, s.result}, s.output_path,
                        out["outputs"]));
  }
  if (globals.json) globals.data = out;
  return absl::OkStatus();
}

}  // namespace

void AddRun(CLI::App& app, Globals& globals) {
  auto flags = std::make_shared<GraphFlags>();
  CLI::App* command =
      app.add_subcommand("run",
                         "run a graph in textual form, or the model of an ONNX file (*.onnx), "
                         "once; slots without an input start as zeros");
  AddGraph(*command, *flags);
  command->add_option("--output", flags->outputs,
                      "NAME=FILE.npy; outputs without a file are printed");
  AddExecution(*command, globals);
  command->callback([&globals, flags] { globals.status = Run(globals, *flags); });
}

}  // namespace uopd::cli
