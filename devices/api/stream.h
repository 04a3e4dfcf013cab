// SPDX-License-Identifier: MIT
// Ordered queue of work on one device.
//
// Asynchronous by contract: a call may return before its work is done, and a driver is free to have
// done it already (CPU and NULL run inline unless an unmet Wait is ahead in the queue; what is
// queued then runs on the thread that meets it).
//   - Host memory that a call names (spans, `duration_ns`) stays valid until the work is done:
//     Synchronize returned, or a later Record is reached.
//   - Buffers, executables and semaphores may be dropped at once: the stream keeps what it still
//     needs, and goes on with queued work after it is destroyed itself.
// A stream belongs to one thread at a time; different streams are independent.
//
// Errors: arguments are checked at the call, the same way on every device, and a refused call
// queues nothing: INVALID_ARGUMENT for ranges outside a buffer, another device's objects, wrong
// counts or shapes; UNAVAILABLE when the device is lost. What goes wrong later is returned by the
// next Synchronize, once; work after it is skipped, and Record fails its semaphores with the error,
// so that nobody waits for ever.
//
// Stopping: a launch may carry a StopFlag. One that the flag skipped or ended early is an error of
// that kind: Synchronize returns CANCELLED, once, and what was queued behind it is skipped.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/base/status.h"
#include "devices/api/buffer.h"
#include "devices/api/program.h"
#include "devices/api/semaphore.h"
#include "devices/api/stop_flag.h"

namespace uopd::devices {

class Stream {
 public:
  explicit Stream(std::shared_ptr<Device> device);
  virtual ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device() const { return *device_; }

  absl::Status CopyIn(std::span<const std::byte> src, Buffer& dst, size_t dst_offset);
  absl::Status CopyOut(Buffer& src, size_t src_offset, std::span<std::byte> dst);
  // Both buffers are of this device; the ranges may not overlap.
  absl::Status Copy(Buffer& src, size_t src_offset, Buffer& dst, size_t dst_offset, size_t bytes);
  absl::Status Fill(Buffer& dst, size_t offset, size_t bytes, std::byte value);
  // Checks counts, shape and offsets. It cannot check the kernel's indices: whoever made the kernel
  // has verified them. `duration_ns`, if not null, holds the kernel's run time after Synchronize.
  // `stop` null: nothing stops this launch.
  absl::Status Launch(Executable& executable, const LaunchShape& shape,
                      std::span<const BufferArg> buffers, std::span<const int64_t> vars,
                      int64_t* duration_ns = nullptr,
                      const std::shared_ptr<const StopFlag>& stop = nullptr);
  // Copies from a buffer of `source`'s device, which may be another one: after what `source` has
  // queued so far, without waiting on the host. Neither stream may be in use by another thread.
  absl::Status CopyFrom(Stream& source, Buffer& src, size_t src_offset, Buffer& dst,
                        size_t dst_offset, size_t bytes);
  // Signals every point when all work before is done; fails their semaphores if that work has
  // failed.
  absl::Status Record(std::span<const TimePoint> points);
  absl::Status Record(std::shared_ptr<Semaphore> semaphore, uint64_t value);
  // Holds all work after until every point is reached. If one never is, the work is skipped and the
  // failure (ABORTED for a semaphore that was destroyed) is the stream's.
  absl::Status Wait(std::span<const TimePoint> points);
  absl::Status Wait(std::shared_ptr<Semaphore> semaphore, uint64_t value);
  // Blocks until all work is done; the first error since the last call.
  virtual absl::Status Synchronize() = 0;

 protected:
  // As above, with arguments that are checked and not empty.
  virtual absl::Status DoCopyIn(std::span<const std::byte> src, Buffer& dst, size_t dst_offset) = 0;
  virtual absl::Status DoCopyOut(Buffer& src, size_t src_offset, std::span<std::byte> dst) = 0;
  virtual absl::Status DoCopy(Buffer& src, size_t src_offset, Buffer& dst, size_t dst_offset,
                              size_t bytes) = 0;
  virtual absl::Status DoFill(Buffer& dst, size_t offset, size_t bytes, std::byte value) = 0;
  virtual absl::Status DoLaunch(Executable& executable, const LaunchShape& shape,
                                std::span<const BufferArg> buffers, std::span<const int64_t> vars,
                                int64_t* duration_ns,
                                const std::shared_ptr<const StopFlag>& stop) = 0;
  virtual absl::Status DoRecord(TimePoint point) = 0;
  virtual absl::Status DoWait(TimePoint until) = 0;

 private:
  absl::Status CheckRange(const Buffer& buffer, size_t offset, size_t bytes) const;
  absl::Status CheckLaunch(const Executable& executable, const LaunchShape& shape,
                           std::span<const BufferArg> buffers, std::span<const int64_t> vars) const;

  const std::shared_ptr<Device> device_;
};

}  // namespace uopd::devices
