// SPDX-License-Identifier: MIT
#include "devices/api/host/host_stream.h"

#include <chrono>
#include <cstring>
#include <vector>

#include "absl/container/inlined_vector.h"

namespace uopd::devices {
namespace {

// The flag of a launch without a StopFlag.
const StopFlag kNeverStopped;

// Buffers of a launch as HostExecutable expects them. The address of the stop word is before the
// first buffer.
struct Pointers {
  absl::InlinedVector<void*, 16> addresses;
  absl::InlinedVector<size_t, 16> bytes;
};

Pointers PointersTo(std::span<const BufferArg> buffers, const StopFlag& stop) {
  Pointers out;
  out.addresses.reserve(buffers.size() + 1);
  out.bytes.reserve(buffers.size());
  // Kernels only read the word.
  out.addresses.push_back(const_cast<std::atomic<uint32_t>*>(stop.word()));
  for (const BufferArg& arg : buffers) {
    out.addresses.push_back(arg.buffer->host_data() + arg.offset);
    out.bytes.push_back(arg.buffer->size() - arg.offset);
  }
  return out;
}

absl::Status RunTimed(HostExecutable& executable, const LaunchShape& shape,
                      const Pointers& pointers, const int64_t* vars, int64_t* duration_ns,
                      const StopFlag& stop) {
  absl::Status status;
  if (!stop.stopped()) {
    std::chrono::steady_clock::time_point start;
    if (duration_ns != nullptr) start = std::chrono::steady_clock::now();
    status =
        executable.Run(shape, {pointers.addresses.data() + 1, pointers.bytes.data(), vars}, stop);
    if (duration_ns != nullptr) {
      *duration_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                         std::chrono::steady_clock::now() - start)
                         .count();
    }
  }
  if (!stop.stopped()) return status;
  return absl::CancelledError("Kernel " + executable.entry() + " is stopped");
}

// A launch that runs later. It holds its own references.
struct PendingLaunch {
  std::shared_ptr<Executable> executable;
  LaunchShape shape;
  std::vector<std::shared_ptr<Buffer>> owners;
  Pointers pointers;
  std::vector<int64_t> vars;
  int64_t* duration_ns;
  std::shared_ptr<const StopFlag> maybe_stop;

  absl::Status Run() {
    return RunTimed(static_cast<HostExecutable&>(*executable), shape, pointers, vars.data(),
                    duration_ns, maybe_stop != nullptr ? *maybe_stop : kNeverStopped);
  }
};

}  // namespace

absl::Status HostStream::DoCopyIn(std::span<const std::byte> src, Buffer& dst, size_t dst_offset) {
  if (queue_->idle()) {
    std::memcpy(dst.host_data() + dst_offset, src.data(), src.size());
    return absl::OkStatus();
  }
  queue_->Push([src, to = dst.shared_from_this(), dst_offset] {
    std::memcpy(to->host_data() + dst_offset, src.data(), src.size());
    return absl::OkStatus();
  });
  return absl::OkStatus();
}

absl::Status HostStream::DoCopyOut(Buffer& src, size_t src_offset, std::span<std::byte> dst) {
  if (queue_->idle()) {
    std::memcpy(dst.data(), src.host_data() + src_offset, dst.size());
    return absl::OkStatus();
  }
  queue_->Push([from = src.shared_from_this(), src_offset, dst] {
    std::memcpy(dst.data(), from->host_data() + src_offset, dst.size());
    return absl::OkStatus();
  });
  return absl::OkStatus();
}

absl::Status HostStream::DoCopy(Buffer& src, size_t src_offset, Buffer& dst, size_t dst_offset,
                                size_t bytes) {
  if (queue_->idle()) {
    std::memcpy(dst.host_data() + dst_offset, src.host_data() + src_offset, bytes);
    return absl::OkStatus();
  }
  queue_->Push(
      [from = src.shared_from_this(), src_offset, to = dst.shared_from_this(), dst_offset, bytes] {
        std::memcpy(to->host_data() + dst_offset, from->host_data() + src_offset, bytes);
        return absl::OkStatus();
      });
  return absl::OkStatus();
}

absl::Status HostStream::DoFill(Buffer& dst, size_t offset, size_t bytes, std::byte value) {
  if (queue_->idle()) {
    std::memset(dst.host_data() + offset, static_cast<int>(value), bytes);
    return absl::OkStatus();
  }
  queue_->Push([to = dst.shared_from_this(), offset, bytes, value] {
    std::memset(to->host_data() + offset, static_cast<int>(value), bytes);
    return absl::OkStatus();
  });
  return absl::OkStatus();
}

absl::Status HostStream::DoLaunch(Executable& executable, const LaunchShape& shape,
                                  std::span<const BufferArg> buffers, std::span<const int64_t> vars,
                                  int64_t* duration_ns,
                                  const std::shared_ptr<const StopFlag>& stop) {
  Pointers pointers = PointersTo(buffers, stop != nullptr ? *stop : kNeverStopped);
  if (queue_->idle()) {
    absl::Status status =
        RunTimed(static_cast<HostExecutable&>(executable), shape, pointers, vars.data(),
                 duration_ns, stop != nullptr ? *stop : kNeverStopped);
    // The call succeeds. Synchronize returns errors of the work itself.
    if (!status.ok()) queue_->Push([status = std::move(status)] { return status; });
    return absl::OkStatus();
  }
  auto launch = std::make_shared<PendingLaunch>();
  launch->executable = executable.shared_from_this();
  launch->shape = shape;
  for (const BufferArg& arg : buffers) launch->owners.push_back(arg.buffer->shared_from_this());
  launch->pointers = std::move(pointers);
  launch->vars.assign(vars.begin(), vars.end());
  launch->duration_ns = duration_ns;
  launch->maybe_stop = stop;
  queue_->Push([launch] { return launch->Run(); });
  return absl::OkStatus();
}

absl::Status HostStream::DoFree(std::shared_ptr<Buffer> buffer) {
  if (!queue_->idle()) queue_->PushDrop(std::move(buffer));
  return absl::OkStatus();
}

absl::Status HostStream::DoRecord(TimePoint point) {
  if (queue_->idle()) {
    point.semaphore->Signal(point.value);
  } else {
    queue_->PushRecord(std::move(point));
  }
  return absl::OkStatus();
}

absl::Status HostStream::DoWait(TimePoint until) {
  queue_->PushWait(std::move(until));
  return absl::OkStatus();
}

}  // namespace uopd::devices
