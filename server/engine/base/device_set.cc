// SPDX-License-Identifier: MIT
#include "server/engine/base/device_set.h"

namespace uopd::engine {

DeviceState::DeviceState(std::shared_ptr<devices::Device> device)
    : device_(std::move(device)),
      kernel_duration_(metrics::KernelDuration({device_->info().name})),
      buffer_bytes_(metrics::BuffersBytes({device_->info().name})) {}

absl::StatusOr<StreamLease> StreamLease::Take(DeviceState& state) {
  {
    MutexLock lock(state.mu_);
    if (!state.idle_.empty()) {
      StreamLease lease(&state, std::move(state.idle_.back()));
      state.idle_.pop_back();
      return lease;
    }
  }
  TimedStream made;
  UOPD_ASSIGN(made.stream, state.device().NewStream());
  UOPD_ASSIGN(made.last.semaphore, state.device().NewSemaphore());
  return StreamLease(&state, std::move(made));
}

StreamLease::~StreamLease() = default;

absl::StatusOr<devices::TimePoint> StreamLease::Mark() {
  ++stream_.last.value;
  UOPD_TRY(stream_.stream->Record(std::span(&stream_.last, 1)));
  return stream_.last;
}

void StreamLease::GiveBack() {
  MutexLock lock(state_->mu_);
  if (state_->idle_.size() < DeviceState::kMaxIdle) state_->idle_.push_back(std::move(stream_));
}

absl::Status StreamLease::Finish() {
  UOPD_TRY(stream_.stream->Synchronize());
  GiveBack();
  return absl::OkStatus();
}

absl::StatusOr<DeviceState*> DeviceSet::Get(std::string_view name) {
  {
    MutexLock lock(mu_);
    if (auto it = states_.find(absl::string_view(name.data(), name.size()));
        it != states_.end() && it->second->device().status().ok()) {
      return it->second.get();
    }
  }
  auto device = registry_->Get(name);
  if (absl::IsNotFound(device.status())) {
    return absl::InvalidArgumentError(device.status().message());
  }
  UOPD_TRY(device.status());
  // devices_ is keyed by the full name. A shorter spelling of the name always needs the look into
  // the registry.
  MutexLock lock(mu_);
  std::unique_ptr<DeviceState>& state = states_[(*device)->info().name];
  if (state != nullptr && &state->device() != device->get()) lost_.push_back(std::move(state));
  if (state == nullptr) state = std::make_unique<DeviceState>(*std::move(device));
  return state.get();
}

bool DeviceSet::IsReplaced(const DeviceState& state) {
  if (state.device().status().ok()) return false;
  const auto now = Get(state.name());
  return now.ok() && *now != &state;
}

}  // namespace uopd::engine
