// SPDX-License-Identifier: MIT
// Code of kernels and what is needed to launch it: format, entry, argument layout, launch shape.
// Plain data.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/base/target/launch_shape.h"
#include "core/base/target/target.h"

namespace uopd::devices {

class Buffer;
class Device;

// Number and order of a kernel's arguments: first the buffers, then the 64-bit variables.
struct ArgLayout {
  int buffers = 0;
  int vars = 0;
};

struct KernelCode {
  CodeFormat format = CodeFormat::kObject;  // of `bytes`
  std::string entry;                        // symbol to call
  std::string bytes;
  ArgLayout args;
};

// One buffer argument: the kernel gets the address of byte `offset`. The pointer is borrowed for
// the call only; a stream that runs the launch later takes its own reference.
struct BufferArg {
  Buffer* buffer = nullptr;
  size_t offset = 0;
};

// Code that is loaded on a device. Owned by shared_ptr. It keeps its device open, and it unloads
// when the last reference goes. Immutable, so any thread may launch it.
class Executable : public std::enable_shared_from_this<Executable> {
 public:
  Executable(std::shared_ptr<Device> device, std::string entry, ArgLayout args);
  virtual ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  Device& device() const { return *device_; }
  const std::string& entry() const { return entry_; }
  const ArgLayout& args() const { return args_; }

  // The instructions of the entry as the device runs them, one a line: for people to read. At most
  // about `max_bytes`; a text that was cut says so. UNIMPLEMENTED: the driver cannot show them.
  virtual absl::StatusOr<std::string> Disassemble(size_t max_bytes) const;

 private:
  const std::shared_ptr<Device> device_;
  const std::string entry_;
  const ArgLayout args_;
};

}  // namespace uopd::devices
