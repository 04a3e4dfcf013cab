// SPDX-License-Identifier: MIT
// Stream of a GPU: what each call gives to the driver, in the order that StreamQueue keeps.
//
// Copies from other streams of the driver are in peer_copy.h. Copies of pageable memory go through
// pinned memory, in pieces: the driver would make the calling thread wait for a copy out. A stop
// that comes while a kernel runs ends it through its stop word; what lies behind it on the chip
// still runs, and is reported as stopped. One thread at a time.
#pragma once
#include <memory>

#include "devices/api/device.h"
#include "devices/gpu/gpu_memory.h"
#include "devices/gpu/stop_words.h"
#include "devices/gpu/stream_queue.h"

namespace uopd::devices::gpu {

class GpuStream final : public Stream {
 public:
  // `heap` belongs to `device`.
  GpuStream(std::shared_ptr<Device> device, std::shared_ptr<GpuContext> context, GpuHeap& heap,
            std::shared_ptr<StopWords> words, std::shared_ptr<StreamQueue> queue)
      : Stream(std::move(device)),
        context_(std::move(context)),
        heap_(heap),
        words_(std::move(words)),
        queue_(std::move(queue)) {}

  absl::Status Synchronize() override { return queue_->Synchronize(); }

 protected:
  absl::Status DoCopyIn(std::span<const std::byte> src, Buffer& dst, size_t dst_offset) override;
  absl::Status DoCopyOut(Buffer& src, size_t src_offset, std::span<std::byte> dst) override;
  absl::Status DoCopy(Buffer& src, size_t src_offset, Buffer& dst, size_t dst_offset,
                      size_t bytes) override;
  absl::Status DoCopyFrom(Stream& source, Buffer& src, size_t src_offset, Buffer& dst,
                          size_t dst_offset, size_t bytes) override;
  absl::Status DoFill(Buffer& dst, size_t offset, size_t bytes, std::byte value) override;
  absl::Status DoLaunch(Executable& executable, const LaunchShape& shape,
                        std::span<const BufferArg> buffers, std::span<const int64_t> vars,
                        int64_t* duration_ns, const std::shared_ptr<const StopFlag>& stop) override;
  absl::Status DoReplay(const RecordedProgram& program, std::span<Buffer* const> buffers,
                        std::span<int64_t> durations_ns,
                        const std::shared_ptr<const StopFlag>& stop) override;
  absl::Status DoFree(std::shared_ptr<Buffer> buffer) override;
  absl::Status DoRecord(TimePoint point) override;
  absl::Status DoWait(TimePoint until) override;

 private:
  const std::shared_ptr<GpuContext> context_;
  GpuHeap& heap_;  // Stream keeps the device open
  const std::shared_ptr<StopWords> words_;
  const std::shared_ptr<StreamQueue> queue_;
};

}  // namespace uopd::devices::gpu
