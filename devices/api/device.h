// SPDX-License-Identifier: MIT
// One device: memory, code and streams. The narrow waist: all that the daemon knows of a driver is
// in devices/api.
//
// Thread-safe. Owned by shared_ptr; buffers, executables and streams keep their device open. Driver
// libraries are never unloaded. A device can be lost and come back: status() is then UNAVAILABLE
// for a while and so is every call on it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/base/status.h"
#include "core/base/target.h"
#include "devices/api/buffer.h"
#include "devices/api/compiler.h"
#include "devices/api/device_info.h"
#include "devices/api/program.h"
#include "devices/api/stream.h"

namespace uopd::devices {

// Bytes are sizes as taken from the driver, so rounding is included.
struct MemoryStats {
  size_t limit_bytes = 0;
  size_t used_bytes = 0;    // in live buffers
  size_t pooled_bytes = 0;  // freed, kept for the next allocation
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
  // What its kernels are made for. Constant.
  const Target& target() const { return target_; }
  // Takes text of target().format.
  virtual const Compiler& compiler() const = 0;

  // OK, or why the device cannot be used now.
  virtual absl::Status status() const = 0;
  virtual MemoryStats memory() const = 0;

  // At least Buffer::kAlignment aligned; 0 bytes is fine. RESOURCE_EXHAUSTED above DeviceInfo or
  // when the machine has no memory left.
  virtual absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes, MemoryKind kind) = 0;
  // Loads object bytes, or compiles and loads source. INTERNAL names what is wrong with the
  // program.
  virtual absl::StatusOr<std::shared_ptr<Executable>> Load(const Program& program) = 0;
  virtual absl::StatusOr<std::unique_ptr<Stream>> NewStream() = 0;
  // The semaphore that this device's streams record fastest; any other works too.
  virtual absl::StatusOr<std::shared_ptr<Semaphore>> NewSemaphore() {
    return std::make_shared<Semaphore>();
  }

 protected:
  Device(DeviceInfo info, Target target) : info_(std::move(info)), target_(std::move(target)) {}

 private:
  const DeviceInfo info_;
  const Target target_;
};

}  // namespace uopd::devices
