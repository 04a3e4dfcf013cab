// SPDX-License-Identifier: MIT
// Devices by name: "CPU", "cpu:1", "NULL". The only part that knows which drivers there are.
//
// Owns the devices that it opened. Thread-safe. A device opens on first use and stays open; one
// that fails to open is tried again at the next use, so a driver that comes back is found.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
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
  size_t size() const { return names_.size(); }

 private:
  explicit Registry(RegistryOptions options) : options_(std::move(options)) {}

  const RegistryOptions options_;
  std::vector<DeviceName> names_;  // constant after Create
  Mutex mu_;                       // held while a driver opens: nobody else can use what it opens
  absl::flat_hash_map<std::string, std::shared_ptr<Device>> open_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::devices
