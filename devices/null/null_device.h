// SPDX-License-Identifier: MIT
// NULL: a device that accepts everything and computes nothing. It is the skeleton to copy for a new
// driver, and a fake for tests.
//
// Its memory is real host memory. Copies and fills are executed. Code of any format loads. Launches
// are checked and counted but do not change the buffers. A test can make the device be lost.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "core/base/mutex.h"
#include "devices/api/compiler.h"
#include "devices/api/host/host_heap.h"
#include "devices/api/host/host_stream.h"

namespace uopd::devices::null {

// A small device of both kinds: it accepts THREADs as a CPU does and blocks as a GPU does.
Target NullTarget();

struct NullOptions {
  int index = 0;  // n of "NULL:n"
  HostHeap::Options memory;
  Target target = NullTarget();
  std::string processor = "host";  // DeviceInfo
  CommandQueue::Delay background;  // if set, streams work late and in the background
};

// Compiler of NULL: the object is the source, unchanged. Stateless.
class NullCompiler final : public Compiler {
 public:
  absl::StatusOr<std::string> Compile(std::string_view source) const override;
  bool makes_drafts() const override { return true; }  // for tests of what surrounds drafts
};

class NullDevice final : public Device {
 public:
  static std::shared_ptr<NullDevice> Open(const NullOptions& options);

  const Compiler& compiler() const override { return compiler_; }
  absl::Status status() const override UOPD_EXCLUDES(mu_);
  MemoryStats memory() const override { return heap_.stats(); }
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes, MemoryKind kind) override;
  absl::StatusOr<std::shared_ptr<Executable>> Load(const KernelCode& kernel_code) override;
  absl::StatusOr<std::unique_ptr<Stream>> NewStream() override;

  // Number of launches so far, on all streams.
  int64_t launches() const { return launches_.load(std::memory_order_relaxed); }
  void CountLaunch() { launches_.fetch_add(1, std::memory_order_relaxed); }
  // Makes the device lost with this status, or brings it back with OK.
  void SetStatus(absl::Status status) UOPD_EXCLUDES(mu_);

 private:
  explicit NullDevice(const NullOptions& options);

  HostHeap heap_;
  const CommandQueue::Delay background_;
  const NullCompiler compiler_;
  std::atomic<int64_t> launches_ = 0;
  mutable Mutex mu_;
  absl::Status status_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::devices::null
