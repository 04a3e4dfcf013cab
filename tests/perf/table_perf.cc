// SPDX-License-Identifier: MIT
// The whole table of targets: every benchmark that has figures with a target, one after the other.
#include <algorithm>
#include <cstdio>

#include "core/base/text.h"
#include "tests/perf/perf.h"

namespace uopd::perf::table_perf {
namespace {

struct Group {
  const char* benchmark;
  const char* model;
};
constexpr Group kGroups[] = {
    {"kernels", "matmul"},    {"kernels", "conv"},   {"kernels", "depthwise"},
    {"kernels", "attention"}, {"kernels", "memory"}, {"kernels", "gather"},
    {"kernels", "sort"},      {"models", ""},        {"decode", ""},
    {"training", ""},         {"cold", ""},          {"overhead", ""},
};

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  absl::Status failed;
  std::vector<Measurement> out;
  for (const Group& group : kGroups) {
    const auto it = std::find_if(Benchmarks().begin(), Benchmarks().end(),
                                 [&](const Entry& b) { return b.name == group.benchmark; });
    Options own = options;
    own.model = group.model;
    auto figures = it->run(own);
    if (!figures.ok()) {  // the other groups are wanted nevertheless
      std::fprintf(stderr, "uopd-perf: %s %s: %s\n", group.benchmark, group.model,
                   StatusText(figures.status()).c_str());
      failed.Update(figures.status());
      continue;
    }
    for (Measurement& m : *figures) {
      if (options.report)
        options.report(m);
      else
        out.push_back(std::move(m));
    }
  }
  UOPD_TRY(failed);
  return out;
}

const Register kRegister("table", "every figure that has a target", Run);

}  // namespace
}  // namespace uopd::perf::table_perf
