// SPDX-License-Identifier: MIT
#include "uopd/jit.h"

#include "client/cpp/jit/recording.h"

namespace uopd::client {

Jit::Jit(Client& client, Function function) : client_(client), function_(std::move(function)) {}
Jit::~Jit() = default;
Jit::Jit(Jit&&) noexcept = default;
Jit& Jit::operator=(Jit&&) noexcept = default;

absl::StatusOr<std::vector<Tensor>> Jit::Begin(std::span<const Tensor> inputs) {
  recording_.reset();
  warm_ = false;
  UOPD_ASSIGN(recording_, Recording::Begin(client_, inputs));
  return recording_->Arguments(inputs);
}

absl::Status Jit::End(std::span<const Tensor> outputs) {
  if (recording_ == nullptr || warm_)
    return absl::FailedPreconditionError("Jit: End without Begin");
  absl::Status status = recording_->End(outputs);
  if (status.ok())
    warm_ = true;
  else
    recording_.reset();
  return status;
}

void Jit::Abandon() {
  if (!recorded()) recording_.reset();
}

bool Jit::recorded() const { return recording_ != nullptr && warm_; }

std::vector<RecordedGraph> Jit::Graphs() const {
  return recorded() ? recording_->Graphs() : std::vector<RecordedGraph>();
}

std::vector<Tensor> Jit::State() const {
  return recorded() ? recording_->State() : std::vector<Tensor>();
}

absl::StatusOr<std::string> Jit::Serialize(std::span<const Tensor> outside) {
  if (!recorded()) return absl::FailedPreconditionError("Jit: nothing was recorded");
  return recording_->Save(outside);
}

absl::StatusOr<Jit> Jit::Deserialize(Client& client, std::string_view bytes, Function function,
                                     std::span<const Tensor> outside) {
  Jit out(client, std::move(function));
  UOPD_ASSIGN(out.recording_, Recording::Load(client, bytes, outside));
  out.warm_ = true;
  return out;
}

std::vector<Tensor> Jit::Outputs() const {
  return recorded() ? recording_->Outputs() : std::vector<Tensor>();
}

void Jit::Reset() {
  recording_.reset();
  warm_ = false;
}

absl::StatusOr<std::vector<Tensor>> Jit::Replay(std::span<const Tensor> inputs,
                                                std::span<const VariableValue> variables) {
  if (!recorded()) return absl::FailedPreconditionError("Jit: nothing was recorded");
  return recording_->Replay(inputs, variables);
}

absl::StatusOr<LoopSteps> Jit::Repeat(std::span<const Tensor> inputs,
                                      std::span<const VariableValue> variables,
                                      const LoopTerms& loop) {
  if (!recorded()) return absl::FailedPreconditionError("Jit: nothing was recorded");
  return recording_->Repeat(inputs, variables, loop);
}

absl::StatusOr<std::vector<Tensor>> Jit::operator()(std::span<const Tensor> inputs,
                                                    std::span<const VariableValue> variables) {
  if (recorded()) return Replay(inputs, variables);
  if (function_ == nullptr)
    return absl::FailedPreconditionError("Jit: it has no recording any more, and no function");
  if (!warm_) {
    UOPD_ASSIGN(std::vector<Tensor> out, function_(inputs));
    UOPD_TRY(Submit(out));
    warm_ = true;
    return out;
  }
  UOPD_ASSIGN(const std::vector<Tensor> arguments, Begin(inputs));
  auto out = function_(arguments);
  absl::Status status = out.status();
  if (status.ok()) status = End(*out);
  if (!status.ok()) {
    Reset();
    return status;
  }
  return out;
}

}  // namespace uopd::client
