// SPDX-License-Identifier: MIT
// Measures a stage of tuning, from its beginning to the end of the scope
// (uopd_tune_stage_duration_seconds).
#pragma once
#include "core/base/telemetry/metrics.h"
#include "core/base/telemetry/trace.h"

namespace uopd::search {

class StageTime {
 public:
  explicit StageTime(const char* stage) : stage_(stage) {}
  ~StageTime() {
    metrics::TuneStageDuration({stage_}).Observe(static_cast<double>(NowNs() - begin_ns_) * 1e-9);
  }
  StageTime(const StageTime&) = delete;
  StageTime& operator=(const StageTime&) = delete;

 private:
  const char* const stage_;
  const int64_t begin_ns_ = NowNs();
};

}  // namespace uopd::search
