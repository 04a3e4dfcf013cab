// SPDX-License-Identifier: MIT
// uopctl profile: runs a graph some times and prints the times of its kernels beside the least
// times that the device allows (docs/debugging.md, "Profiles").
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "client/cli/checks.h"
#include "client/cli/command.h"
#include "client/cli/run/graph_run.h"
#include "client/cpp/net/wire_call.h"
#include "core/base/text.h"
#include "core/ir/dtype.h"

namespace uopd::cli {
namespace {

struct ProfileFlags {
  GraphFlags graph;
  int runs = 10;
};

// All launches of one kernel in a run.
struct Row {
  std::string name, device, opts;
  int launches = 0;
  double us = 0, flops = 0, bytes = 0, roof_us = 0;
};

// Most time first; equal times in the order of the program.
std::vector<Row> Rows(const v1::Profile& profile) {
  std::vector<Row> rows;
  std::map<std::tuple<std::string, std::string, std::string>, size_t> index;
  for (const v1::KernelProfile& kernel : profile.kernels()) {
    const auto [it, added] =
        index.try_emplace({kernel.name(), kernel.device(), kernel.opts()}, rows.size());
    if (added) {
      Row& row = rows.emplace_back();
      row.name = kernel.name();
      row.device = kernel.device();
      row.opts = kernel.opts();
    }
    Row& row = rows[it->second];
    ++row.launches;
    row.us += kernel.us();
    row.flops += kernel.flops();
    row.bytes += kernel.bytes();
    row.roof_us += kernel.roof_us();
  }
  std::vector<size_t> order(rows.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(-rows[a].us, a) < std::pair(-rows[b].us, b);
  });
  std::vector<Row> out;
  out.reserve(rows.size());
  for (size_t i : order) out.push_back(std::move(rows[i]));
  return out;
}

// Operations or bytes of `amount` in `us` microseconds, in 10^9 per second.
double Giga(double amount, double us) { return us > 0 ? amount / us * 1e-3 : 0; }
double Percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

std::string DtypeName(uint32_t number) {
  const auto dtype = ir::DtypeByWire(number);
  return dtype ? std::string(ir::Name(*dtype)) : std::to_string(number);
}

void Print(const v1::ExecuteResponse& run) {
  const v1::Profile& profile = run.profile();
  std::printf("%5s %10s %6s %9s %8s %6s  %-8s kernel\n", "count", "us", "share", "GFLOPS", "GB/s",
              "roof", "device");
  for (const Row& row : Rows(profile)) {
    const std::string roof =
        row.roof_us > 0 ? std::to_string(std::lround(Percent(row.roof_us, row.us))) + " %" : "-";
    std::printf("%5d %10.1f %4.0f %% %9.2f %8.2f %6s  %-8s %s %s\n", row.launches, row.us,
                Percent(row.us, profile.kernels_us()), Giga(row.flops, row.us),
                Giga(row.bytes, row.us), roof.c_str(), row.device.c_str(), row.name.c_str(),
                row.opts.c_str());
  }
  if (profile.kernels_left_out() > 0) {
    std::printf("%5llu %10.1f of further kernels\n",
                static_cast<unsigned long long>(profile.kernels_left_out()), profile.left_out_us());
  }
  const double run_us = run.timings().run_us();
  const double total_us = run.timings().total_us();
  std::printf(
      "kernels %.1f us; between kernels %.1f us; rest of the request in the daemon %.1f us\n",
      profile.kernels_us(), std::max(run_us - profile.kernels_us(), 0.0),
      std::max(total_us - run_us, 0.0));
  for (const v1::DeviceRoof& roof : profile.roofs()) {
    std::printf("roof of %s:", roof.device().c_str());
    for (const v1::DtypeRoof& rate : roof.dtypes()) {
      std::printf(" %s %.1f GFLOPS,", DtypeName(rate.dtype()).c_str(), rate.ops_per_s() * 1e-9);
    }
    std::printf(" memory %.1f GB/s, up to %.1f MiB %.1f GB/s\n", roof.memory_bytes_per_s() * 1e-9,
                roof.cache_bytes() / (1 << 20), roof.cache_bytes_per_s() * 1e-9);
  }
}

nlohmann::json ToJson(const v1::ExecuteResponse& run) {
  const v1::Profile& profile = run.profile();
  nlohmann::json out = {{"kernels", nlohmann::json::array()},
                        {"kernels_seconds", 1e-6 * profile.kernels_us()},
                        {"kernels_left_out", profile.kernels_left_out()},
                        {"left_out_seconds", 1e-6 * profile.left_out_us()},
                        {"run_seconds", 1e-6 * static_cast<double>(run.timings().run_us())},
                        {"total_seconds", 1e-6 * static_cast<double>(run.timings().total_us())},
                        {"roofs", nlohmann::json::array()}};
  for (const Row& row : Rows(profile)) {
    out["kernels"].push_back({{"name", row.name},
                              {"device", row.device},
                              {"opts", row.opts},
                              {"launches", row.launches},
                              {"run_seconds", 1e-6 * row.us},
                              {"flops", row.flops},
                              {"moved_bytes", row.bytes},
                              {"roof_seconds", 1e-6 * row.roof_us}});
  }
  for (const v1::DeviceRoof& roof : profile.roofs()) {
    nlohmann::json ops = nlohmann::json::object();
    for (const v1::DtypeRoof& rate : roof.dtypes()) ops[DtypeName(rate.dtype())] = rate.ops_per_s();
    out["roofs"].push_back({{"device", roof.device()},
                            {"ops_per_second", ops},
                            {"memory_bytes_per_second", roof.memory_bytes_per_s()},
                            {"cache_bytes_per_second", roof.cache_bytes_per_s()},
                            {"cache_bytes", roof.cache_bytes()}});
  }
  return out;
}

absl::Status Profile(Globals& globals, const ProfileFlags& flags) {
  GraphRun graph;
  UOPD_TRY(graph.Load(flags.graph));
  UOPD_ASSIGN(const auto session, globals.OpenSession());
  v1::Options options = client::ToWire(globals.execution);
  UOPD_TRY(graph.Execute(*session, options).status());  // compiles
  options.set_profile(true);
  options.set_debug(0);
  v1::ExecuteResponse best;
  for (int i = 0; i < flags.runs; ++i) {
    UOPD_ASSIGN(v1::ExecuteResponse run, graph.Execute(*session, options));
    if (!run.has_profile()) {
      return absl::UnimplementedError("the daemon is too old: it returns no profiles");
    }
    if (i == 0 || run.timings().run_us() < best.timings().run_us()) best = std::move(run);
  }
  if (globals.json) {
    globals.data = ToJson(best);
  } else {
    Print(best);
  }
  return absl::OkStatus();
}

}  // namespace

void AddProfile(CLI::App& app, Globals& globals) {
  auto flags = std::make_shared<ProfileFlags>();
  CLI::App* command = app.add_subcommand(
      "profile", "run a graph some times and show the kernels of the fastest run");
  AddGraph(*command, flags->graph);
  command
      ->add_option("--runs", flags->runs, "how many times the graph runs, not counting the first")
      ->capture_default_str()
      ->check(NumberIn(1, 10000));
  AddExecution(*command, globals);
  command->callback([&globals, flags] { globals.status = Profile(globals, *flags); });
}

}  // namespace uopd::cli
