// SPDX-License-Identifier: MIT
// Repetition: what is left of a RepeatRequest. Its steps are Executes; this class makes each of
// them from the one before.
//
// Used by one thread at a time.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/status.h"
#include "uopd/v1/uopd.pb.h"

namespace uopd::rpc {

class Repetition {
 public:
  static constexpr uint32_t kMaxSteps = 1024;

  // Turns request.execute into the step that is run first. INVALID_ARGUMENT names the field that is
  // wrong.
  static absl::StatusOr<Repetition> Of(v1::RepeatRequest& request);

  // The buffer that may say that not even the current step is run; 0: it is run.
  uint64_t stop_before() const { return stop_before_; }

  // Turns `step`, which `answer` is the answer to, into the next one. False: it was the last one.
  bool Next(v1::ExecuteRequest& step, const v1::ExecuteResponse& answer);

 private:
  Repetition() = default;
  void Advance(v1::ExecuteRequest& step, uint32_t steps);

  uint32_t left_ = 0;  // steps behind the current one
  std::vector<int64_t> strides_;
  std::optional<int> stop_;  // position among the data of an answer
  uint64_t stop_before_ = 0;
};

}  // namespace uopd::rpc
