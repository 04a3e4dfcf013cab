// SPDX-License-Identifier: MIT
// Stream of a device whose memory is host memory and whose kernels run on the calling thread and
// its helper threads.
//
// Two modes (see CommandQueue). Inline: work runs at once, and behind an unmet Wait it runs on the
// thread that signals. In the background: all work runs late, on other threads. The second mode
// finds code that relies on the work being done when a call returns.
#pragma once
#include <memory>

#include "devices/api/device.h"
#include "devices/api/host/command_queue.h"

namespace uopd::devices {

// The executables of such a device. Run may be called on any thread, also in parallel. It returns
// when the kernel is done.
class HostExecutable : public Executable {
 public:
  using Executable::Executable;
  // What a launch passes: args().buffers buffers and args().vars variables.
  struct Arguments {
    void* const* buffers;  // addresses; buffers[-1] is the address of the stop word
    const size_t* bytes;   // of each buffer: from its address to its end
    const int64_t* vars;
  };
  // Once `stop` is set, Run returns early, with any status.
  virtual absl::Status Run(const LaunchShape& shape, const Arguments& arguments,
                           const StopFlag& stop) = 0;
};

class HostStream final : public Stream {
 public:
  // REQUIRES: every Executable of `device` is a HostExecutable, and its buffers have host_data().
  explicit HostStream(std::shared_ptr<Device> device, CommandQueue::Delay background = std::nullopt)
      : Stream(std::move(device)), queue_(std::make_shared<CommandQueue>(background)) {}

  absl::Status Synchronize() override { return queue_->Synchronize(); }

 protected:
  absl::Status DoCopyIn(std::span<const std::byte> src, Buffer& dst, size_t dst_offset) override;
  absl::Status DoCopyOut(Buffer& src, size_t src_offset, std::span<std::byte> dst) override;
  absl::Status DoCopy(Buffer& src, size_t src_offset, Buffer& dst, size_t dst_offset,
                      size_t bytes) override;
  absl::Status DoFill(Buffer& dst, size_t offset, size_t bytes, std::byte value) override;
  absl::Status DoLaunch(Executable& executable, const LaunchShape& shape,
                        std::span<const BufferArg> buffers, std::span<const int64_t> vars,
                        int64_t* duration_ns, const std::shared_ptr<const StopFlag>& stop) override;
  absl::Status DoFree(std::shared_ptr<Buffer> buffer) override;
  absl::Status DoRecord(TimePoint point) override;
  absl::Status DoWait(TimePoint until) override;

 private:
  const std::shared_ptr<CommandQueue> queue_;
};

}  // namespace uopd::devices
