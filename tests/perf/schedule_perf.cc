// SPDX-License-Identifier: MIT
// From Tensor calls to an ordered list of kernels, for whole models: what a daemon does with a
// graph that it sees for the first time, and with one whose schedule is in its cache.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "cache/store.h"
#include "core/base/digest.h"
#include "core/base/text.h"
#include "core/ir/io/wire.h"
#include "core/ir/verify/spec.h"
#include "core/schedule/schedule.h"
#include "tests/perf/models.h"
#include "tests/perf/perf.h"

namespace uopd::perf::schedule_perf {
namespace {

absl::Status Measure(const Model& model, int rounds, std::vector<Measurement>& out) {
  auto add = [&](const char* what, const char* unit, double value, double peer = 0) {
    out.push_back({Cat("schedule.", model.name, ".", what), unit, value,
                   peer > 0 ? "reference compiler" : "", peer});
  };
  std::vector<double> build;
  client::Exported graph;
  for (int i = 0; i < rounds; ++i) {
    const double start = NowSeconds();
    UOPD_ASSIGN(graph, model.build());
    build.push_back(1e3 * (NowSeconds() - start));
  }
  add("build", "ms", Percentile(build, 0.5));
  add("nodes", "nodes", static_cast<double>(graph.nodes));
  add("wire", "bytes", static_cast<double>(graph.graph.size()));

  std::vector<double> decode, make, per_node;
  schedule::Schedule schedule;
  schedule::Options options;
  for (int i = 0; i < rounds; ++i) {
    ir::UOpContext ctx;
    double start = NowSeconds();
    UOPD_ASSIGN(const ir::UOp sink, ir::Decode(ctx, graph.graph, ir::Level::kTensor));
    decode.push_back(1e3 * (NowSeconds() - start));
    start = NowSeconds();
    UOPD_ASSIGN(schedule, schedule::MakeSchedule(ctx, sink, options));
    make.push_back(1e3 * (NowSeconds() - start));
    per_node.push_back(static_cast<double>(ctx.bytes_reserved()) / static_cast<double>(ctx.size()));
  }
  size_t kernels = 0;
  std::set<std::string_view> unique;
  for (const schedule::Item& item : schedule.items) {
    if (item.kind != schedule::Item::kKernel) continue;
    ++kernels;
    unique.insert(item.graph);
  }
  add("decode_and_verify", "ms", Percentile(decode, 0.5));
  add("make", "ms", Percentile(make, 0.5), model.peer.schedule_ms);
  // What it takes when nothing else runs.
  add("make_best", "ms", Percentile(make, 0), model.peer.schedule_ms);
  add("make_per_node", "us/node", 1e3 * Percentile(make, 0.5) / static_cast<double>(graph.nodes));
  add("kernels", "kernels", static_cast<double>(kernels), model.peer.kernels);
  add("unique_kernels", "kernels", static_cast<double>(unique.size()));
  add("bytes_per_node", "bytes", Percentile(per_node, 0.5));

  // A hit: digest of the bytes, look-up by the whole key, decode.
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / Cat("uopd-perf-schedule-", getpid());
  std::filesystem::create_directories(folder);
  {
    cache::StoreOptions store_options;
    store_options.folder = folder.string();
    const auto store = cache::Store::Open(store_options);
    const std::string environment = Cat("schedule=", schedule::kScheduleVersion, " default=CPU:0");
    const std::string bytes = schedule.Encode();
    UOPD_TRY(store->Put({"schedule", graph.graph, environment}, bytes, 1000));
    UOPD_TRY(store->Flush());
    std::vector<double> hits;
    for (int i = 0; i < 10 * rounds; ++i) {
      const double start = NowSeconds();
      const Digest digest = HashBytes(graph.graph);
      if (digest.view() != graph.digest) return absl::InternalError("the digest changed");
      const cache::GetResult found = store->Get({"schedule", graph.graph, environment});
      if (!found.hit()) return absl::InternalError("a stored schedule was not found");
      UOPD_ASSIGN(const schedule::Schedule again, schedule::Schedule::Decode(found.entry.bytes));
      hits.push_back(1e3 * (NowSeconds() - start));
      if (again.items.size() != schedule.items.size())
        return absl::InternalError("a stored schedule came back different");
    }
    add("hit", "ms", Percentile(hits, 0.5));
    add("stored", "bytes", static_cast<double>(bytes.size()));
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  const int rounds = std::max(1, static_cast<int>(std::lround(9 * options.scale)));
  std::vector<Measurement> out;
  bool found = false;
  for (const Model& m : Models(options.layers)) {
    if (!options.model.empty() && !m.name.starts_with(options.model)) continue;
    found = true;
    UOPD_TRY(WithFrame(Measure(m, rounds, out), Cat("measuring ", m.name)));
  }
  if (!found) return absl::InvalidArgumentError(Cat("no model is called ", options.model));
  return out;
}

const Register kRegister("schedule",
                         "whole models to kernels: --model resnet50|llama|train|mlp-sgd|mlp-adam, "
                         "--layers N of llama",
                         Run);

}  // namespace
}  // namespace uopd::perf::schedule_perf
