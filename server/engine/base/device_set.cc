// SPDX-License-Identifier: MIT
#include "server/engine/base/device_set.h"

#include <cctype>
#include <chrono>

#include "core/base/telemetry/log.h"

namespace uopd::engine {
namespace {

// A word for uopd_device_losses_total: the driver's own code if the text names one, such as
// CUDA_ERROR_ILLEGAL_ADDRESS; "stuck" for a kernel that does not stop.
std::string LossReason(const absl::Status& status) {
  const std::string text = StatusText(status);
  if (text.find("does not stop") != std::string::npos) return "stuck";
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    const auto is_code = [](char c) {
      return std::isupper(static_cast<unsigned char>(c)) ||
             std::isdigit(static_cast<unsigned char>(c)) || c == '_';
    };
    while (end < text.size() && is_code(text[end])) ++end;
    const std::string word = text.substr(begin, end - begin);
    if (word.find('_') != std::string::npos && word.size() > 4) return word;
    begin = end + 1;
  }
  return "other";
}

void SetReady(const std::string& name, bool ready) {
  metrics::DeviceReady({name}).Set(ready ? 1 : 0);
}

}  // namespace

DeviceState::DeviceState(std::shared_ptr<devices::Device> device, KernelUsage& usage)
    : device_(std::move(device)),
      kernel_duration_(metrics::KernelDuration({device_->info().name})),
      buffer_bytes_(metrics::BuffersBytes({device_->info().name})),
      usage_(usage) {
  metrics::DeviceLosses({name(), "other"});  // a series from the start: the first loss is a rise
}

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
  if (!device.ok() && !absl::IsInvalidArgument(device.status())) {
    SetReady(registry_->FullName(name), false);
  }
  UOPD_TRY(device.status());
  // devices_ is keyed by the full name. A shorter spelling of the name always needs the look into
  // the registry.
  MutexLock lock(mu_);
  std::unique_ptr<DeviceState>& state = states_[(*device)->info().name];
  if (state != nullptr && &state->device() != device->get()) lost_.push_back(std::move(state));
  if (state == nullptr) {
    state = std::make_unique<DeviceState>(*std::move(device), usage_);
    SetReady(state->name(), state->device().status().ok());
  }
  return state.get();
}

std::vector<DeviceState*> DeviceSet::TakeLosses() {
  std::vector<DeviceState*> out;
  MutexLock lock(mu_);
  const auto look = [&](DeviceState& state, bool current) {
    const absl::Status status = state.device().status();
    if (status.ok() != state.loss_noted_) return;  // nothing new
    state.loss_noted_ = !status.ok();
    if (current) SetReady(state.name(), status.ok());
    if (status.ok()) return;  // it came back by itself
    out.push_back(&state);
    metrics::DeviceLosses({state.name(), LossReason(status)}).Increment();
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    metrics::DeviceLastLoss({state.name()}).Set(std::chrono::duration<double>(now).count());
    UOPD_LOG(kError, "device lost", {"device", state.name()}, {"why", status});
  };
  for (const auto& state : lost_) look(*state, false);
  for (const auto& [name, state] : states_) look(*state, true);
  return out;
}

std::vector<devices::DeviceEntry> DeviceSet::List() {
  auto out = registry_->List();
  for (const devices::DeviceEntry& entry : out) SetReady(entry.name, entry.status.ok());
  return out;
}

std::vector<devices::DeviceEntry> DeviceSet::NotReady() {
  auto out = registry_->KnownEntries();
  std::erase_if(out, [](const devices::DeviceEntry& entry) { return entry.status.ok(); });
  return out;
}

std::vector<std::pair<std::string, devices::MemoryStats>> DeviceSet::Memory() {
  std::vector<std::shared_ptr<devices::Device>> open;
  {
    const MutexLock lock(mu_);
    for (const auto& [name, state] : states_) open.push_back(state->device_);
  }
  std::vector<std::pair<std::string, devices::MemoryStats>> out;
  for (const auto& device : open) {
    if (device->status().ok()) out.emplace_back(device->info().name, device->memory());
  }
  return out;
}

void DeviceSet::PublishBusy() {
  const MutexLock lock(mu_);
  for (const auto& [name, state] : states_) {
    const int64_t ns = state->client_runs().TakeNs();
    metrics::DeviceBusy({state->name()}).AddNs(static_cast<uint64_t>(ns));
  }
}

bool DeviceSet::IsReplaced(const DeviceState& state) {
  if (state.device().status().ok()) return false;
  const auto now = Get(state.name());
  return now.ok() && *now != &state;
}

}  // namespace uopd::engine
