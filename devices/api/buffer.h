// SPDX-License-Identifier: MIT
// Device memory. Device::Allocate makes a buffer. A shared_ptr owns it. When the last reference
// goes, the memory returns to the device's pool.
//
// A buffer keeps its device open. The object is immutable and so thread-safe. Its contents are not
// protected: only streams and semaphores order the accesses to them. Fresh memory is not cleared:
// it holds whatever its last owner left, or a pattern.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace uopd::devices {

class Device;

// What a buffer holds when it is made: the byte that the function returns, everywhere. Null:
// nothing that can be relied on. If the results of two runs with different patterns differ,
// somebody has read what nobody wrote (docs/testing.md, "Memory of others"). Any thread may call
// the function.
using MemoryPattern = std::function<std::byte()>;
inline MemoryPattern PatternOf(std::byte value) {
  return [value] { return value; };
}

enum class MemoryKind : uint8_t {
  kDevice,       // fastest for kernels
  kHostVisible,  // the host may read and write it through host_data()
};

class Buffer : public std::enable_shared_from_this<Buffer> {
 public:
  static constexpr size_t kAlignment = 64;  // least alignment of byte 0 on every device

  virtual ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  Device& device() const { return *device_; }
  size_t size() const { return size_; }  // in bytes, as requested
  MemoryKind kind() const { return kind_; }
  // The memory as the host addresses it. Null if the host cannot address it; never null for
  // kHostVisible. Access it only after the streams that use the buffer have synchronised.
  std::byte* host_data() const { return host_data_; }

 protected:
  Buffer(std::shared_ptr<Device> device, size_t size, MemoryKind kind, std::byte* host_data);

 private:
  const std::shared_ptr<Device> device_;
  const size_t size_;
  const MemoryKind kind_;
  std::byte* const host_data_;
};

}  // namespace uopd::devices
