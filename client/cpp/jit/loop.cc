// SPDX-License-Identifier: MIT
// Recording: a replay that the daemon repeats.
#include <algorithm>

#include "client/cpp/graph/build.h"
#include "client/cpp/jit/recording.h"

namespace uopd::client {

// A step is written by the thread that ends its promise, and read after that.
struct LoopSteps::State {
  struct Step {
    Promise promise;
    std::optional<std::vector<std::string>> outputs;
  };
  State(uint32_t steps, const std::weak_ptr<Driver>& driver) {
    for (uint32_t i = 0; i < steps; ++i) all.push_back({Promise(driver), std::nullopt});
  }

  void Come(std::span<const std::string> data) {
    if (come == all.size()) return;  // a daemon that answers more often than it was asked to
    std::vector<std::string> outputs;
    for (size_t place : places) outputs.push_back(place < data.size() ? data[place] : "");
    all[come].outputs = std::move(outputs);
    all[come++].promise.Set(absl::OkStatus());
  }
  // The loop is over. Called behind Come, and so on the same thread or later.
  void End(const absl::Status& status) {
    if (come == all.size()) return;
    error = status;
    for (; come < all.size(); ++come) all[come].promise.Set(absl::OkStatus());
  }

  std::vector<size_t> places;  // of the outputs, among the data of a step
  std::vector<Step> all;
  size_t come = 0;
  absl::Status error;  // written before the promises behind the last step end
  // The error of the loop was given to the caller.
  const std::shared_ptr<std::atomic<bool>> told = std::make_shared<std::atomic<bool>>(false);
};

Future LoopSteps::Coming() const {
  return taken_ < state_->all.size() ? state_->all[taken_].promise.future() : Future();
}

absl::StatusOr<std::optional<std::vector<std::string>>> LoopSteps::Next() {
  if (taken_ == state_->all.size()) return std::nullopt;
  LoopSteps::State::Step& step = state_->all[taken_];
  UOPD_TRY(step.promise.future().Wait());
  if (!step.outputs && !state_->error.ok()) {
    state_->told->store(true);
    return state_->error;
  }
  if (step.outputs) ++taken_;  // otherwise nothing comes behind it
  return std::exchange(step.outputs, std::nullopt);
}

namespace {

constexpr uint32_t kMostLoopSteps = 1024;
constexpr uint64_t kMostLoopBytes = 64 << 10;  // bytes of the outputs of a step

}  // namespace

absl::StatusOr<std::vector<int64_t>> Recording::StridesOf(std::span<const VariableValue> values,
                                                          const LoopTerms& terms) const {
  const Recorded& recorded = calls_[0];
  std::vector<int64_t> strides(recorded.variables.size());
  for (const auto& [name, stride] : terms.advance) {
    const auto at = std::ranges::find(recorded.variables, name);
    if (at == recorded.variables.end())
      return absl::InvalidArgumentError(Cat("Jit: the loop has no variable ", name, " to advance"));
    const auto i = static_cast<size_t>(at - recorded.variables.begin());
    if (recorded.floats[i])
      return absl::InvalidArgumentError(
          Cat("Jit: variable ", name, " is a float, which a loop cannot advance"));
    const auto [min, max] = recorded.ranges[i];
    const uint64_t range = static_cast<uint64_t>(max) - static_cast<uint64_t>(min);
    const uint64_t step =
        stride < 0 ? 0 - static_cast<uint64_t>(stride) : static_cast<uint64_t>(stride);
    if (terms.steps > 1 && step > range / (terms.steps - 1)) {
      return absl::InvalidArgumentError(Cat("Jit: variable ", name, " leaves ", min, " to ", max,
                                            " in ", terms.steps, " steps of ", stride));
    }
    strides[i] = stride;
  }
  Call call;
  call.variables = recorded.call.variables;
  UOPD_TRY(SetVariables(values, recorded, call));
  for (uint32_t step = 0; step < terms.steps; ++step) {
    UOPD_TRY(WithFrame(CheckSizes(recorded, call), Cat("in step ", step, " of a loop")));
    for (size_t i = 0; i < strides.size(); ++i) {  // without signs, whose overflow is undefined
      call.variables[i] = static_cast<int64_t>(static_cast<uint64_t>(call.variables[i]) +
                                               static_cast<uint64_t>(strides[i]));
    }
  }
  return strides;
}

absl::StatusOr<std::vector<size_t>> Recording::ReturnOutputs() {
  Recorded& recorded = calls_[0];
  std::vector<size_t> slots;
  uint64_t bytes = 0;
  for (size_t k = 0; k < outputs_.size(); ++k) {
    const auto misused = [k](const char* why) {
      return Misused(Cat("output ", k, " of a loop ", why));
    };
    if (output_inputs_[k] >= 0) return misused("is an input of the function");
    const TensorState& t = *outputs_[k].state();
    if (t.symbolic) return misused("has a symbolic size");
    if (!IsStored(t.uop)) return misused("has no memory of its own");
    const std::vector<uint64_t> numbers = NumbersOf(t.uop);
    if (numbers.size() != 1) return misused("lies on several devices");
    const auto at = std::ranges::find_if(recorded.slots, [&](const Slot& slot) {
      return slot.input < 0 && slot.number == numbers[0] && slot.written;
    });
    if (at == recorded.slots.end()) return misused("is not computed by the function");
    bytes += graph_->buffers_.at(numbers[0]).bytes;
    slots.push_back(static_cast<size_t>(at - recorded.slots.begin()));
  }
  if (bytes > kMostLoopBytes) {
    return Misused(Cat("the outputs of a step of a loop have ", bytes, " bytes; ", kMostLoopBytes,
                       " come back. Assign what is larger to a tensor"));
  }
  std::vector<Argument>& arguments = recorded.call.arguments;
  for (size_t slot : slots) arguments[slot].return_data = true;
  for (size_t& slot : slots) {
    slot = static_cast<size_t>(std::count_if(arguments.begin(),
                                             arguments.begin() + static_cast<ptrdiff_t>(slot),
                                             [](const Argument& a) { return a.return_data; }));
  }
  return slots;
}

absl::StatusOr<LoopSteps> Recording::Repeat(std::span<const Tensor> inputs,
                                            std::span<const VariableValue> variables,
                                            const LoopTerms& terms) {
  if (terms.steps == 0 || terms.steps > kMostLoopSteps) {
    return absl::InvalidArgumentError(
        Cat("Jit: a loop of ", terms.steps, " steps; 1 to ", kMostLoopSteps, " are possible"));
  }
  if (calls_.size() != 1) {
    return Misused(Cat("a loop has to be one request, and the function computes in ", calls_.size(),
                       ": realise everything together"));
  }
  if (terms.until && *terms.until >= outputs_.size()) {
    return absl::InvalidArgumentError(Cat("Jit: a loop until output ", *terms.until,
                                          "; the function has ", outputs_.size(), " outputs"));
  }
  // The daemon looks at bytes, and -0.0 has one that is not 0.
  if (terms.until && ir::IsFloat(outputs_[*terms.until].dtype())) {
    return absl::InvalidArgumentError(
        Cat("Jit: a loop until output ", *terms.until, ", which is a float: give an integer"));
  }
  if (terms.unless_over && !terms.until)
    return absl::InvalidArgumentError("Jit: a loop without `until` is never over before");
  for (const Slot& slot : calls_[0].slots) {
    if (slot.counters != 0)
      return Misused("a loop cannot draw random numbers of the client's generator");
    if (slot.resend && slot.written)
      return Misused("a loop cannot assign to a tensor that each replay begins with anew");
  }
  for (const Known& known : known_) {
    const auto t = known.state.lock();
    if (t != nullptr && t->symbolic) return Misused("a loop has a tensor of symbolic size");
  }
  auto loop = std::make_shared<Loop>();
  loop->steps = terms.steps;
  loop->unless_stopped = terms.unless_over;
  UOPD_ASSIGN(const std::vector<VariableValue> values, ValuesOf(inputs, variables));
  UOPD_ASSIGN(loop->strides, StridesOf(values, terms));
  LoopSteps out;
  out.state_ = std::make_shared<LoopSteps::State>(terms.steps, graph_->executor().driver());
  UOPD_ASSIGN(out.state_->places, ReturnOutputs());
  if (terms.until) {
    // The argument that is the output's place among those with return_data.
    size_t place = 0;
    const std::vector<Argument>& arguments = calls_[0].call.arguments;
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].return_data) continue;
      if (place++ == out.state_->places[*terms.until]) loop->stop = i;
    }
  }
  loop->step = [state = out.state_](std::span<const std::string> data) { state->Come(data); };
  UOPD_ASSIGN(const Future over, Send(inputs, variables, loop, out.state_->told));
  over.Then([state = out.state_](const absl::Status& status) { state->End(status); });
  return out;
}

}  // namespace uopd::client
