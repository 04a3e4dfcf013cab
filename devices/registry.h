// SPDX-License-Identifier: MIT
// Devices by name: "CPU", "cpu:1", "NULL". No other part of the daemon knows which drivers exist.
//
// Owns the devices that it opened. Thread-safe. A device opens on first use and stays open. A
// device that fails to open is tried again at a later use (RegistryOptions::retry), so a driver
// that comes back is found. A caller that asks before that gets the last error at once. While a
// driver opens, only callers that ask for the same device wait.
//
// A device that is lost stays what Get returns until it has been lost for that time. Then the
// driver opens it anew, and Get returns the new one. Who holds the lost device keeps it.
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "devices/api/device.h"

namespace uopd::devices {

struct DeviceName {
  std::string driver;  // upper case
  int index = 0;

  // "cpu" is CPU:0. INVALID_ARGUMENT: the text has another form, or the driver does not exist.
  static absl::StatusOr<DeviceName> Parse(std::string_view text);
  std::string Text() const;  // "CPU:0"
};

// The names of a list in the form of RegistryOptions::devices, each once. This may load drivers, to
// count their devices. INVALID_ARGUMENT: a name does not parse, comes twice, or there is no name.
absl::StatusOr<std::vector<DeviceName>> ParseDeviceList(const std::string& list);

struct RegistryOptions {
  // Names, separated by commas; the first is the default. "all" stands for every device that the
  // drivers find and that the list does not name elsewhere: CPU:0 first.
  std::string devices = "CPU";
  // Names of the list with the chips that they would be: "CUDA:0=sm_90,AMD:0=gfx942". These are not
  // opened: their kernels are compiled, and nothing runs there (devices/gpu/compile_only_device.h).
  std::string compile_only;
  size_t memory_limit_bytes = 0;  // per device; 0: the driver decides
  int cpu_threads = 0;            // per CPU device; 0: one per processor
  std::string
      cpu_features;  // baseline of CPU devices (cpu_baseline.h); empty: all that the processor has
  int cpu_spin_us = 1000;
  // Host devices (CPU, NULL) work in the background, and each call waits this long after the one
  // before. This finds code that relies on work being done when a call returns. Below 0: the
  // devices run inline.
  int force_async_us = -1;
  MemoryPattern memory_pattern;  // what new buffers hold, to find reads of fresh memory
  bool cuda_ptx = false;         // CUDA devices take PTX, even if libnvrtc is there
  bool cuda_specific = false;    // those of capability 9.0 take code for sm_90a
  bool cuda_graphs = true;       // CUDA devices replay recorded sequences as graphs
  bool hip_graphs = false;       // and AMD devices
  bool hip_rtc = false;          // AMD devices take HIP C++, through libhiprtc
  // The time after a failure to open, or after a loss, before the device is tried again.
  std::chrono::milliseconds retry{10'000};
  // The function that opens a device. Null: the driver of that name opens it.
  std::function<absl::StatusOr<std::shared_ptr<Device>>(const DeviceName&)> open;
};

// One line of `uopctl devices`.
struct DeviceEntry {
  std::string name;
  absl::Status status;             // OK, or why the device is missing or lost
  std::shared_ptr<Device> device;  // null if the device does not open
};

class Registry {
 public:
  // Opens nothing. INVALID_ARGUMENT: a name does not parse, a name comes twice, there is no name,
  // or `compile_only` has another form or names what the list does not.
  static absl::StatusOr<std::unique_ptr<Registry>> Create(RegistryOptions options);
  // Registry of devices that are open already. The first one is the default. INVALID_ARGUMENT as
  // above.
  static absl::StatusOr<std::unique_ptr<Registry>> Of(
      std::span<const std::shared_ptr<Device>> devices);

  // "" is the default device. INVALID_ARGUMENT: a wrong name. NOT_FOUND: a device that is not
  // configured. UNAVAILABLE, or the driver's own status: the device does not open.
  absl::StatusOr<std::shared_ptr<Device>> Get(std::string_view name) UOPD_EXCLUDES(mu_);
  // The compiler that has this Target::toolchain, for code of the device `name`. "" is any
  // toolchain. Opens the device only if its compiler needs that. FAILED_PRECONDITION: the compiler
  // here is another. Other errors as Get.
  absl::StatusOr<std::shared_ptr<const Compiler>> CompilerFor(std::string_view name,
                                                              std::string_view toolchain)
      UOPD_EXCLUDES(mu_);
  // Every configured device in the order of configuration. Opens each device that can be opened.
  std::vector<DeviceEntry> List() UOPD_EXCLUDES(mu_);
  // Of List, the entries that are known without opening a device: it is open or lost, or it failed
  // to open when somebody last asked for it.
  std::vector<DeviceEntry> KnownEntries() const UOPD_EXCLUDES(mu_);
  // "" -> "CPU:0", the default device. REQUIRES: a configured device.
  std::string FullName(std::string_view name) const;
  // True when List would open nothing: every device is open, or failed to open a moment ago.
  bool Settled() const UOPD_EXCLUDES(mu_);
  size_t size() const { return names_.size(); }
  // Whether the device of that name ("CUDA:0") is one of RegistryOptions::compile_only: nothing
  // runs there.
  bool CompilesOnly(const std::string& name) const { return absent_.contains(name); }
  // The configured devices, in the order of configuration: "CPU:0". Constant.
  std::vector<std::string> names() const;

 private:
  explicit Registry(RegistryOptions options) : options_(std::move(options)) {}

  using Clock = std::chrono::steady_clock;
  struct Slot {
    Mutex opening;  // held while the driver opens; locked before mu_
    // mu_ guards the rest.
    std::shared_ptr<Device> device;  // null: not open
    absl::Status failure;            // of the last attempt to open
    Clock::time_point retry_at;
    bool lost = false;   // somebody has seen that `device` is lost
    bool fixed = false;  // `device` came open, and is never opened again
  };
  // The slot of a name, and the name. INVALID_ARGUMENT and NOT_FOUND as Get.
  absl::StatusOr<std::pair<Slot*, DeviceName>> Find(std::string_view text) const;
  // What is known without opening the device. nullopt: nothing, or the last failure or loss is too
  // long ago.
  std::optional<absl::StatusOr<std::shared_ptr<Device>>> Known(Slot& slot) const UOPD_EXCLUDES(mu_);

  const RegistryOptions options_;
  std::vector<DeviceName> names_;             // constant after Create
  std::vector<std::unique_ptr<Slot>> slots_;  // in the order of names_
  std::map<std::string, std::string>
      absent_;  // chips by device (RegistryOptions::compile_only); constant
  mutable Mutex mu_;
  // Those that need no device, by toolchain: making one may start a program.
  std::map<std::string, std::shared_ptr<const Compiler>, std::less<>> compilers_
      UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::devices
