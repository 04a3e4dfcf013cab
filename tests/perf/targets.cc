// SPDX-License-Identifier: MIT
#include "tests/perf/targets.h"

#include <string>

namespace uopd::perf {
namespace {

struct Target {
  std::string_view prefix;  // of a figure's name
  double speed;
  std::string_view suffix = "";
};

// The first one that fits counts.
constexpr Target kTargets[] = {
    {"matmul.f32", 1.0, ".geometric_mean"},
    {"matmul.narrow", 1.0, ".geometric_mean"},
    {"matmul.f32", 0.85},
    {"matmul.bf16", 0.8},
    {"matmul.i8", 0.8},
    {"conv", 1.0, ".geometric_mean"},
    {"conv.", 0.75},
    {"depthwise.", 0.75},
    {"attention.", 0, ".geometric_mean"},
    {"attention.", 0, ".rate"},  // of the benchmark with this name: one kernel and three
    {"attention.", 0, ".time"},
    {"attention.", 1.2},
    {"memory.", 0, ".geometric_mean"},
    {"memory.transpose", 0.7},
    {"memory.", 0.9},
    {"gpu.overlap.copy_in", 0.8},
    {"gather.1M", 0.9},
    {"sort.1M", 1.0},
    {"models.resnet50.b1.bf16", 1.0},
    {"models.resnet50", 1.15},
    {"models.", 1.0},
    {"decode.bandwidth", 0.85},
    {"transfer.tcp.", 0.9},
    {"transfer.side.download_fresh.", 0.8},
    {"training.mlp-adam", 1.2},
    {"training.train", 1.0},
    {"cold.", 1.0, ".warm"},
    {"cold.", 1.0, ".first_run"},
    {"cold.", 0, ".first"},  // requests with drafts against those without
    {"cold.", 0, ".second"},
    {"cold.", 0, ".later"},
    {"cold.", 20},
    {"overhead.", 1.0},
    {"beam.", 0.9},
};

}  // namespace

double TargetOf(std::string_view name) {
  for (const Target& t : kTargets) {
    if (name.starts_with(t.prefix) && name.ends_with(t.suffix)) return t.speed;
  }
  return 0;
}

double SpeedOf(const Measurement& m) {
  if (m.unit == "ratio") return m.value;
  if (m.peer <= 0 || m.value <= 0) return 0;
  const bool time = m.unit == "ms" || m.unit == "us" || m.unit == "s";
  return time ? m.peer / m.value : m.value / m.peer;
}

}  // namespace uopd::perf
