// SPDX-License-Identifier: MIT
// NULL: a device that takes everything and computes nothing. The skeleton to copy for a new driver,
// and a fake for tests.
//
// Memory is real (host memory), copies and fills happen, programs of any format load, launches are
// checked and counted but leave the buffers as they are. It can be lost on demand.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "core/base/mutex.h"
#include "devices/api/host/host_heap.h"
#include "devices/api/host/host_stream.h"
#include "devices/null/null_compiler.h"

namespace uopd::devices::null {

// A small device of both kinds: it takes THREADs as a CPU does, and blocks as a GPU does.
Target NullTarget();

struct NullOptions {
  int index = 0;  // n of "NULL:n"
  HostHeap::Options memory;
  Target target = NullTarget();
  bool deferred = false;  // nothing happens before Synchronize or Record
};

class NullDevice final : public Device {
 public:
  static std::shared_ptr<NullDevice> Open(const NullOptions& options);

  const Compiler& compiler() const override { return compiler_; }
  absl::Status status() const override UOPD_EXCLUDES(mu_);
  MemoryStats memory() const override { return heap_.stats(); }
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes, MemoryKind kind) override;
  absl::StatusOr<std::shared_ptr<Executable>> Load(const Program& program) override;
  absl::StatusOr<std::unique_ptr<Stream>> NewStream() override;

  // Launches so far, on all streams.
  int64_t launches() const { return launches_.load(std::memory_order_relaxed); }
  void CountLaunch() { launches_.fetch_add(1, std::memory_order_relaxed); }
  // Loses the device with this status, or brings it back with OK.
  void SetStatus(absl::Status status) UOPD_EXCLUDES(mu_);

 private:
  explicit NullDevice(const NullOptions& options);

  HostHeap heap_;
  const bool deferred_;
  const NullCompiler compiler_;
  std::atomic<int64_t> launches_ = 0;
  mutable Mutex mu_;
  absl::Status status_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::devices::null
