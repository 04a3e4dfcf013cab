// SPDX-License-Identifier: MIT
// Ordered queue of work on one device.
//
// Asynchronous by contract: a call may return before its work is done. A driver may also do the
// work before the call returns (DeviceInfo::runs_inline). CPU and NULL do so unless an unmet Wait
// is ahead in the queue; what is queued behind the Wait runs on the thread that meets it.
//   - Host memory that a call names (spans, `duration_ns`) stays valid until the work is done:
//     Synchronize returned, or a later Record is reached.
//   - Buffers, executables and semaphores may be dropped at once: the stream keeps what it still
//     needs, and goes on with queued work after it is destroyed itself.
// A stream belongs to one thread at a time; different streams are independent.
//
// Errors: the arguments are checked at the call, in the same way on every device. A refused call
// queues nothing. INVALID_ARGUMENT: a range outside of a buffer, an object of another device, a
// wrong count or shape. UNAVAILABLE: the device is lost. An error that happens later is returned by
// the next Synchronize, once. Work after it is skipped, and Record fails its semaphores with the
// error, so that nobody waits for ever.
//
// Stopping: a launch may carry a StopFlag. A launch that the flag skipped or ended early is such a
// later error: Synchronize returns CANCELLED, once, and the work queued behind the launch is
// skipped.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/base/status.h"
#include "devices/api/buffer.h"
#include "devices/api/kernel_code.h"
#include "devices/api/recorded_program.h"
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
  // Both buffers are on this device. The ranges may not overlap.
  absl::Status Copy(Buffer& src, size_t src_offset, Buffer& dst, size_t dst_offset, size_t bytes);
  absl::Status Fill(Buffer& dst, size_t offset, size_t bytes, std::byte value);
  // Checks counts, shape and offsets. It cannot check the kernel's indices: the maker of the kernel
  // has verified them. If `duration_ns` is not null, it holds the kernel's run time (ns) after
  // Synchronize. `stop` null: nothing stops this launch.
  absl::Status Launch(Executable& executable, const LaunchShape& shape,
                      std::span<const BufferArg> buffers, std::span<const int64_t> vars,
                      int64_t* duration_ns = nullptr,
                      const std::shared_ptr<const StopFlag>& stop = nullptr);
  // Launches the kernels of `program` in their order. Argument i of the recording is buffers[i].
  // `durations_ns` is empty, or has one entry for every kernel. Once `stop` is set, the remaining
  // kernels are skipped.
  absl::Status Replay(const RecordedProgram& program, std::span<Buffer* const> buffers,
                      std::span<int64_t> durations_ns = {},
                      const std::shared_ptr<const StopFlag>& stop = nullptr);
  // Allocates memory for work that is queued on this stream from now on. Otherwise the same
  // guarantees as Device::Allocate. A driver may return memory that Free has given back but that
  // earlier work of this stream still uses.
  virtual absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes, MemoryKind kind);
  // Gives a buffer back when all work queued so far is done, also after an error. REQUIRES: the
  // caller has the last reference, and only this stream has used the buffer since it last waited
  // for the other streams.
  absl::Status Free(std::shared_ptr<Buffer> buffer);
  // Copies from a buffer of `source`'s device, which may be another device. The copy happens after
  // what `source` has queued so far, and the host does not wait. What `source` queues later may
  // wait for the copy, but does not fail with it. No other thread may use either stream meanwhile.
  absl::Status CopyFrom(Stream& source, Buffer& src, size_t src_offset, Buffer& dst,
                        size_t dst_offset, size_t bytes);
  // Signals every point when all earlier work is done. If that work has failed, fails the points'
  // semaphores.
  absl::Status Record(std::span<const TimePoint> points);
  absl::Status Record(std::shared_ptr<Semaphore> semaphore, uint64_t value);
  // Holds all later work until every point is reached. If a point is never reached, the later work
  // is skipped and the semaphore's failure becomes the stream's (ABORTED for a destroyed
  // semaphore).
  absl::Status Wait(std::span<const TimePoint> points);
  absl::Status Wait(std::shared_ptr<Semaphore> semaphore, uint64_t value);
  // Blocks until all work is done. Returns the first error since the last call.
  virtual absl::Status Synchronize() = 0;

 protected:
  // As the functions above. The arguments are checked, and the ranges are not empty.
  virtual absl::Status DoCopyIn(std::span<const std::byte> src, Buffer& dst, size_t dst_offset) = 0;
  virtual absl::Status DoCopyOut(Buffer& src, size_t src_offset, std::span<std::byte> dst) = 0;
  virtual absl::Status DoCopy(Buffer& src, size_t src_offset, Buffer& dst, size_t dst_offset,
                              size_t bytes) = 0;
  virtual absl::Status DoFill(Buffer& dst, size_t offset, size_t bytes, std::byte value) = 0;
  virtual absl::Status DoLaunch(Executable& executable, const LaunchShape& shape,
                                std::span<const BufferArg> buffers, std::span<const int64_t> vars,
                                int64_t* duration_ns,
                                const std::shared_ptr<const StopFlag>& stop) = 0;
  // The default copies through host memory. A driver that has a direct way may use it.
  virtual absl::Status DoCopyFrom(Stream& source, Buffer& src, size_t src_offset, Buffer& dst,
                                  size_t dst_offset, size_t bytes);
  // The default launches the kernels one by one.
  virtual absl::Status DoReplay(const RecordedProgram& program, std::span<Buffer* const> buffers,
                                std::span<int64_t> durations_ns,
                                const std::shared_ptr<const StopFlag>& stop);
  virtual absl::Status DoFree(std::shared_ptr<Buffer> buffer) = 0;
  virtual absl::Status DoRecord(TimePoint point) = 0;
  virtual absl::Status DoWait(TimePoint until) = 0;

 private:
  absl::Status CheckRange(const Buffer& buffer, size_t offset, size_t bytes) const;

  const std::shared_ptr<Device> device_;
};

}  // namespace uopd::devices
