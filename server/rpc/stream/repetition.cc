// SPDX-License-Identifier: MIT
#include "server/rpc/stream/repetition.h"

#include <algorithm>

#include "core/base/text.h"

namespace uopd::rpc {

absl::StatusOr<Repetition> Repetition::Of(v1::RepeatRequest& request) {
  v1::ExecuteRequest& first = *request.mutable_execute();
  if (request.steps() == 0 || request.steps() > kMaxSteps) {
    return absl::InvalidArgumentError(
        Cat("repeat: steps (", request.steps(), ") is outside 1 to ", kMaxSteps));
  }
  if (request.skip() >= request.steps()) {
    return absl::InvalidArgumentError(
        Cat("repeat: skip (", request.skip(), ") leaves none of ", request.steps(), " steps"));
  }
  if (request.strides_size() != 0 && request.strides_size() != first.variables_size()) {
    return absl::InvalidArgumentError(Cat("repeat: ", request.strides_size(), " strides for ",
                                          first.variables_size(), " variables"));
  }
  Repetition out;
  out.left_ = request.steps() - 1;
  out.strides_.assign(request.strides().begin(), request.strides().end());
  out.Advance(first, request.skip());
  if (!request.has_stop()) {
    if (request.unless_stopped())
      return absl::InvalidArgumentError("repeat: unless_stopped needs stop");
    return out;
  }
  const auto& arguments = first.arguments();
  if (request.stop() >= static_cast<uint32_t>(arguments.size())) {
    return absl::InvalidArgumentError(
        Cat("repeat: stop (", request.stop(), ") is none of ", arguments.size(), " arguments"));
  }
  const auto stop = arguments.begin() + static_cast<int>(request.stop());
  if (!stop->return_data()) {
    return absl::InvalidArgumentError(
        Cat("repeat: stop: argument ", request.stop(), " is not returned (return_data)"));
  }
  out.stop_ = static_cast<int>(std::count_if(
      arguments.begin(), stop, [](const v1::Argument& a) { return a.return_data(); }));
  if (!request.unless_stopped() || request.skip() > 0) return out;
  if (stop->buffer() == 0)
    return absl::InvalidArgumentError("repeat: unless_stopped: the argument of stop has no buffer");
  out.stop_before_ = stop->buffer();
  return out;
}

bool Repetition::Next(v1::ExecuteRequest& step, const v1::ExecuteResponse& answer) {
  stop_before_ = 0;
  if (left_ == 0) return false;
  if (stop_ && *stop_ < answer.data_size() &&
      std::ranges::any_of(answer.data(*stop_), [](char byte) { return byte != 0; }))
    return false;
  Advance(step, 1);
  if (!step.digest().empty()) step.clear_graph();  // otherwise the graph is the program's name
  return true;
}

void Repetition::Advance(v1::ExecuteRequest& step, uint32_t steps) {
  if (steps == 0) return;
  left_ -= steps;
  if (step.request_id() != 0) step.set_request_id(step.request_id() + steps);
  for (size_t i = 0; i < strides_.size(); ++i) {
    const int at = static_cast<int>(i);
    // Without signs, whose overflow would be undefined. The run checks the bounds of the variable.
    const uint64_t sum =
        static_cast<uint64_t>(step.variables(at)) + steps * static_cast<uint64_t>(strides_[i]);
    step.set_variables(at, static_cast<int64_t>(sum));
  }
  for (v1::Argument& a : *step.mutable_arguments()) {
    if (a.buffer() != 0) a.clear_data();
  }
  step.clear_free_buffers();
}

}  // namespace uopd::rpc
