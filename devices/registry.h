// SPDX-License-Identifier: MIT
// Devices by name: "CPU", "cpu:1", "NULL". The only part that knows which drivers there are.
//
// Owns the devices that it opened. Thread-safe. A device opens on first use and stays open. One
// that fails to open is tried again at a later use, so a driver that comes back is found; who asks
// before that gets the last error at once. While a driver opens, only who asks for the same device
// waits.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/mutex.h"
#include "devices/api/device.h"

namespace uopd::devices {

struct DeviceName {
  std::string driver;  // upper case
  int index = 0;

  // "cpu" is CPU:0. INVALID_ARGUMENT for another shape, or a driver that does not exist.
  static absl::StatusOr<DeviceName> Parse(std::string_view text);
  std::string Text() const;  // "CPU:0"
};

struct RegistryOptions {
  std::string devices = "CPU";    // names, separated by commas; the first is the default
  size_t memory_limit_bytes = 0;  // per device; 0: the driver's choice
  int cpu_threads = 0;            // per CPU device; 0: all
  int cpu_spin_us = 30;
  bool poison = false;  // fill new buffers with a pattern, to find reads of fresh memory
  // After a failure to open.
  std::chrono::milliseconds retry{10'000};
  // What opens a device; null: the driver of its name.
  std::function<absl::StatusOr<std::shared_ptr<Device>>(const DeviceName&)> open;
};

// One line of `uopctl devices`.
struct DeviceEntry {
  std::string name;
  absl::Status status;             // OK, or why the device is missing or lost
  std::shared_ptr<Device> device;  // null when it does not open
};

class Registry {
 public:
  // INVALID_ARGUMENT for names that do not parse, twice the same, or none at all. Opens nothing.
  static absl::StatusOr<std::unique_ptr<Registry>> Create(RegistryOptions options);
  // Of devices that are open, the first is the default. INVALID_ARGUMENT as above.
  static absl::StatusOr<std::unique_ptr<Registry>> Of(
      std::span<const std::shared_ptr<Device>> devices);

  // "" is the default device. INVALID_ARGUMENT for a wrong name, NOT_FOUND for one that is not
  // configured, UNAVAILABLE (or what the driver says) when it does not open.
  absl::StatusOr<std::shared_ptr<Device>> Get(std::string_view name) UOPD_EXCLUDES(mu_);
  // Every configured device, opened if it can be, in order of configuration.
  std::vector<DeviceEntry> List() UOPD_EXCLUDES(mu_);
  // True when List opens nothing: every device is open, or has failed a moment ago.
  bool Settled() const UOPD_EXCLUDES(mu_);
  size_t size() const { return names_.size(); }

 private:
  explicit Registry(RegistryOptions options) : options_(std::move(options)) {}

  using Clock = std::chrono::steady_clock;
  struct Slot {
    Mutex opening;  // held while the driver opens; before mu_
    // The rest is guarded by mu_.
    std::shared_ptr<Device> device;  // null: not open
    absl::Status failure;            // of the last try
    Clock::time_point retry_at;
  };
  // What is known without opening; nullopt: nothing, or too long ago.
  std::optional<absl::StatusOr<std::shared_ptr<Device>>> Known(const Slot& slot) const
      UOPD_EXCLUDES(mu_);

  const RegistryOptions options_;
  std::vector<DeviceName> names_;             // constant after Create
  std::vector<std::unique_ptr<Slot>> slots_;  // of names_
  mutable Mutex mu_;
};

}  // namespace uopd::devices
