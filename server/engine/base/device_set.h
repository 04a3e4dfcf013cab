// SPDX-License-Identifier: MIT
// The devices that the engine runs on, each with idle streams and its metrics.
//
// Thread-safe. Outlives programs, sessions and everything else that names a DeviceState. Opening
// failures are those of devices/registry.h.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/metrics.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "devices/registry.h"

namespace uopd::engine {

class DeviceState {
 public:
  explicit DeviceState(std::shared_ptr<devices::Device> device);

  devices::Device& device() const { return *device_; }
  const std::string& name() const { return device_->info().name; }
  Histogram& kernel_duration() const { return kernel_duration_; }
  Gauge& buffer_bytes() const { return buffer_bytes_; }

 private:
  friend class StreamLease;
  static constexpr size_t kMaxIdle = 32;

  const std::shared_ptr<devices::Device> device_;
  Histogram& kernel_duration_;
  Gauge& buffer_bytes_;
  Mutex mu_;
  std::vector<std::unique_ptr<devices::Stream>> idle_ UOPD_GUARDED_BY(mu_);
};

// A stream for the use of one thread, from the idle ones or new. Goes back only after Synchronize
// returned OK through Finish: one with work of unknown state is dropped.
class StreamLease {
 public:
  static absl::StatusOr<StreamLease> Take(DeviceState& state);
  ~StreamLease();
  StreamLease(StreamLease&&) = default;
  StreamLease& operator=(StreamLease&&) = delete;

  devices::Stream* operator->() const { return stream_.get(); }
  devices::Stream& operator*() const { return *stream_; }
  // Waits for all work; the first error.
  absl::Status Finish();

 private:
  StreamLease(DeviceState* state, std::unique_ptr<devices::Stream> stream)
      : state_(state), stream_(std::move(stream)) {}
  DeviceState* state_;
  std::unique_ptr<devices::Stream> stream_;
};

class DeviceSet {
 public:
  explicit DeviceSet(std::unique_ptr<devices::Registry> registry)
      : registry_(std::move(registry)) {}

  // "" is the default device. INVALID_ARGUMENT for a name that is wrong or not configured,
  // UNAVAILABLE when it does not open. The pointer lives as long as the set.
  absl::StatusOr<DeviceState*> Get(std::string_view name) UOPD_EXCLUDES(mu_);
  std::vector<devices::DeviceEntry> List() { return registry_->List(); }
  bool Settled() const { return registry_->Settled(); }  // List opens nothing
  size_t size() const { return registry_->size(); }      // that are configured

 private:
  const std::unique_ptr<devices::Registry> registry_;
  Mutex mu_;
  absl::flat_hash_map<std::string, std::unique_ptr<DeviceState>> states_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::engine
