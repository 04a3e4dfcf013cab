// SPDX-License-Identifier: MIT
// The devices that the engine runs on, each with its idle streams and its metrics.
//
// Thread-safe. Outlives programs, sessions and everything else that names a DeviceState. A device
// that does not open gives the errors of devices/registry.h. The metrics uopd_device_ready and
// uopd_device_losses_total follow what the set sees: in Get, List and TakeLosses.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/base/telemetry/metrics.h"
#include "devices/registry.h"
#include "server/engine/usage/busy_time.h"
#include "server/engine/usage/kernel_usage.h"
#include "server/engine/usage/program_usage.h"

namespace uopd::engine {

// A stream and the latest point on it.
struct TimedStream {
  std::unique_ptr<devices::Stream> stream;
  devices::TimePoint last;  // the point that was marked last
};

class DeviceState {
 public:
  // `usage` outlives the state.
  DeviceState(std::shared_ptr<devices::Device> device, KernelUsage& usage);

  devices::Device& device() const { return *device_; }
  const std::string& name() const { return device_->info().name; }
  Histogram& kernel_duration() const { return kernel_duration_; }
  Gauge& buffer_bytes() const { return buffer_bytes_; }
  // The runs of clients that it has now, and for how long there was one.
  BusyTime& client_runs() { return client_runs_; }
  // Where the launches of a kernel of this name are counted.
  std::shared_ptr<KernelUse> UseOf(const std::string& kernel) const {
    return usage_.Get({name(), kernel});
  }

 private:
  friend class StreamLease;
  friend class DeviceSet;
  static constexpr size_t kMaxIdle = 32;

  const std::shared_ptr<devices::Device> device_;
  Histogram& kernel_duration_;
  Gauge& buffer_bytes_;
  KernelUsage& usage_;
  BusyTime client_runs_;
  bool loss_noted_ = false;  // guarded by the lock of the set
  Mutex mu_;
  std::vector<TimedStream> idle_ UOPD_GUARDED_BY(mu_);
};

// A stream for one thread at a time: an idle one, or a new one. It goes back to the idle streams
// only when all its work is known to be done without an error. Otherwise it is dropped, and
// completes its work alone.
class StreamLease {
 public:
  static absl::StatusOr<StreamLease> Take(DeviceState& state);
  ~StreamLease();
  StreamLease(StreamLease&&) = default;
  StreamLease& operator=(StreamLease&&) = delete;

  devices::Stream* operator->() const { return stream_.stream.get(); }
  devices::Stream& operator*() const { return *stream_.stream; }
  // Returns a point that is reached when all work queued so far is done.
  absl::StatusOr<devices::TimePoint> Mark();
  // REQUIRES: the point of the last Mark is reached, and nothing was queued after it.
  void GiveBack();
  // Waits for all work and gives the stream back. Returns the first error.
  absl::Status Finish();

 private:
  StreamLease(DeviceState* state, TimedStream stream) : state_(state), stream_(std::move(stream)) {}
  DeviceState* state_;
  TimedStream stream_;
};

class DeviceSet {
 public:
  explicit DeviceSet(std::unique_ptr<devices::Registry> registry)
      : registry_(std::move(registry)) {}

  // "" is the default device. INVALID_ARGUMENT: the name is wrong or not configured. UNAVAILABLE:
  // the device does not open. The pointer lives as long as the set. A device that was lost and
  // opened again has a new state.
  absl::StatusOr<DeviceState*> Get(std::string_view name) UOPD_EXCLUDES(mu_);
  // The device is lost, and Get gives another one of its name.
  bool IsReplaced(const DeviceState& state) UOPD_EXCLUDES(mu_);
  // The devices that were lost since the last call. Each loss is returned once.
  std::vector<DeviceState*> TakeLosses() UOPD_EXCLUDES(mu_);
  std::vector<devices::DeviceEntry> List();
  // Of every device that is known not to be ready now: its name, and why. Opens nothing, so a
  // device that nobody has asked for is not among them.
  std::vector<devices::DeviceEntry> NotReady();
  bool Settled() const { return registry_->Settled(); }  // List would open nothing
  size_t size() const { return registry_->size(); }      // number of configured devices
  std::vector<std::string> names() const { return registry_->names(); }  // of configured devices
  // Brings uopd_device_busy_seconds_total up to date.
  void PublishBusy() UOPD_EXCLUDES(mu_);
  // Of each device that is open and not lost: its name and its memory.
  std::vector<std::pair<std::string, devices::MemoryStats>> Memory() UOPD_EXCLUDES(mu_);
  KernelUsage& kernel_usage() { return usage_; }
  ProgramUsage& program_usage() { return program_usage_; }
  bool CompilesOnly(const std::string& name) const { return registry_->CompilesOnly(name); }

 private:
  const std::unique_ptr<devices::Registry> registry_;
  KernelUsage usage_;
  ProgramUsage program_usage_;
  Mutex mu_;
  absl::flat_hash_map<std::string, std::unique_ptr<DeviceState>> states_ UOPD_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<DeviceState>> lost_ UOPD_GUARDED_BY(mu_);  // those replaced
};

}  // namespace uopd::engine
