// SPDX-License-Identifier: MIT
// uopctl run: runs a graph from a text file, with inputs from and outputs to .npy files.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"
#include "client/cli/run/graph_run.h"
#include "client/cpp/net/wire_call.h"
#include "client/data/npy.h"
#include "core/base/output_file.h"
#include "core/base/text.h"
#include "core/ir/analysis/eval.h"

namespace uopd::cli {
namespace {

constexpr size_t kShown = 16;  // elements that are printed of an output without a file

nlohmann::json Values(const GraphRun::Slot& slot, size_t most) {
  nlohmann::json out = nlohmann::json::array();
  const auto size = static_cast<size_t>(ir::ByteSize(slot.dtype));
  for (size_t i = 0; i < std::min(most, slot.result.size() / size); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, slot.result.data() + i * size, size);
    if (ir::IsFloat(slot.dtype)) {
      const double v = ir::DecodeFloat(slot.dtype, bits);
      // JSON has no NaN or infinity.
      if (std::isfinite(v))
        out.push_back(slot.dtype == ir::Dtype::F64
                          ? v
                          : std::stod(Cat(static_cast<double>(static_cast<float>(v)))));
      else
        out.push_back(std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
    } else if (ir::IsUnsigned(slot.dtype)) {
      out.push_back(bits);
    } else {
      out.push_back(ir::WrapTo(slot.dtype, static_cast<ir::Int128>(bits)));
    }
  }
  return out;
}

absl::Status Run(Globals& globals, const GraphFlags& flags) {
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
    if (!s.output_path.empty()) {
      UOPD_ASSIGN(std::string file, client::FormatNpy({s.dtype, s.dims, s.result}));
      UOPD_TRY(WriteFile(s.output_path, file));
    }
    const auto n = static_cast<size_t>(ir::Product(s.dims));
    const auto shown = Values(s, globals.json && s.output_path.empty() ? n : kShown);
    if (globals.json) {
      out["outputs"][Cat("a", i)] = {{"dtype", std::string(ir::Name(s.dtype))},
                                     {"dims", std::vector<int64_t>(s.dims.begin(), s.dims.end())}};
      if (s.output_path.empty())
        out["outputs"][Cat("a", i)]["values"] = shown;
      else
        out["outputs"][Cat("a", i)]["file"] = s.output_path;
      continue;
    }
    std::string dims;
    for (int64_t d : s.dims) Append(dims, dims.empty() ? "" : ", ", d);
    std::printf("a%lld %s (%s) %s%s%s\n", static_cast<long long>(i),
                std::string(ir::Name(s.dtype)).c_str(), dims.c_str(),
                s.output_path.empty() ? shown.dump().c_str() : "-> ", s.output_path.c_str(),
                s.output_path.empty() && n > kShown ? " ..." : "");
  }
  if (globals.json) globals.data = out;
  return absl::OkStatus();
}

}  // namespace

void AddRun(CLI::App& app, Globals& globals) {
  auto flags = std::make_shared<GraphFlags>();
  CLI::App* command = app.add_subcommand(
      "run", "run a graph in textual form once; slots without an input start as zeros");
  AddGraph(*command, *flags);
  command->add_option("--output", flags->outputs,
                      "NAME=FILE.npy; outputs without a file are printed");
  AddExecution(*command, globals);
  command->callback([&globals, flags] { globals.status = Run(globals, *flags); });
}

}  // namespace uopd::cli
