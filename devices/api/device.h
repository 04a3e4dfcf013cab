// SPDX-License-Identifier: MIT
// One device: its memory, code and streams. devices/api is the narrow waist: the daemon knows
// nothing else about a driver.
//
// Thread-safe. Owned by shared_ptr. Buffers, executables and streams keep their device open. Driver
// libraries are never unloaded. A device can be lost and come back. While it is lost, status() is
// UNAVAILABLE, and so is every call on the device.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/status.h"
#include "core/base/target/target.h"
#include "devices/api/buffer.h"
#include "devices/api/compiler.h"
#include "devices/api/device_info.h"
#include "devices/api/kernel_code.h"
#include "devices/api/recorded_program.h"
#include "devices/api/stream.h"

namespace uopd::devices {

// All sizes are in bytes, as taken from the driver: they include the rounding up.
struct MemoryStats {
  size_t limit_bytes = 0;
  size_t used_bytes = 0;    // in live buffers
  size_t pooled_bytes = 0;  // freed, and kept for later allocations
  size_t peak_bytes = 0;    // highest used_bytes so far
  uint64_t allocations = 0;
  uint64_t pool_hits = 0;
};

class Device : public std::enable_shared_from_this<Device> {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceInfo& info() const { return info_; }
  // The facts that decide the code of the device's kernels. Constant.
  const Target& target() const { return target_; }
  // The compiler takes text of target().format.
  virtual const Compiler& compiler() const = 0;

  // OK, or the reason why the device cannot be used now.
  virtual absl::Status status() const = 0;
  virtual MemoryStats memory() const = 0;

  // The memory is aligned to at least Buffer::kAlignment. 0 bytes is allowed. RESOURCE_EXHAUSTED:
  // the size exceeds the limits in DeviceInfo, or the machine has no memory left.
  virtual absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes, MemoryKind kind) = 0;
  // Loads object bytes, or compiles source and loads it. INTERNAL names what is wrong with the
  // code.
  virtual absl::StatusOr<std::shared_ptr<Executable>> Load(const KernelCode& kernel_code) = 0;
  virtual absl::StatusOr<std::unique_ptr<Stream>> NewStream() = 0;
  // Measures what target().speeds says of the device; a field that cannot be measured is 0. Takes
  // under 300 ms of the whole device. nullopt: the speeds follow from the name of the chip.
  virtual std::optional<Speeds> MeasureSpeeds() { return std::nullopt; }
  // Records a sequence of launches that streams of this device replay with `buffers` buffers.
  // INVALID_ARGUMENT: an executable of another device, a wrong count or shape, or a buffer index
  // outside of 0 to buffers - 1.
  absl::StatusOr<std::shared_ptr<const RecordedProgram>> Record(
      int buffers, std::vector<RecordedLaunch> launches);
  // Makes the kind of semaphore that this device's streams record fastest. The streams also accept
  // any other semaphore.
  virtual absl::StatusOr<std::shared_ptr<Semaphore>> NewSemaphore() {
    return std::make_shared<Semaphore>();
  }

 protected:
  Device(DeviceInfo info, Target target) : info_(std::move(info)), target_(std::move(target)) {}

  // As Record; the launches are checked already.
  virtual absl::StatusOr<std::shared_ptr<const RecordedProgram>> DoRecord(
      int buffers, std::vector<RecordedLaunch> launches);

 private:
  const DeviceInfo info_;
  const Target target_;
};

}  // namespace uopd::devices
