// SPDX-License-Identifier: MIT
// Stream of an OpenCL device. Its calls go to a queue of the host, which works in the background
// and waits for semaphores of any device. The queue gives commands to OpenCL (OpenClWork), which
// run while the next ones are queued. Record and Wait finish what was given to OpenCL before.
#pragma once
#include <functional>
#include <memory>
#include <utility>

#include "devices/api/host/command_queue.h"
#include "devices/api/stream.h"
#include "devices/opencl/opencl_work.h"

namespace uopd::devices::opencl {

class OpenClStream final : public Stream {
 public:
  OpenClStream(std::shared_ptr<Device> device, std::shared_ptr<OpenClWork> work,
               std::chrono::microseconds delay)
      : Stream(std::move(device)),
        work_(std::move(work)),
        queue_(std::make_shared<CommandQueue>(delay)) {}
  ~OpenClStream() override;

  absl::Status Synchronize() override;

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
  void Push(std::function<absl::Status(OpenClWork&)> step);
  void PushFinish();

  const std::shared_ptr<OpenClWork> work_;  // after the stream, the queue's steps keep it
  const std::shared_ptr<CommandQueue> queue_;
  bool used_ = false;  // since the last Synchronize
};

}  // namespace uopd::devices::opencl
