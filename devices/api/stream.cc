// SPDX-License-Identifier: MIT
#include "devices/api/stream.h"

#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "devices/api/check_launch.h"
#include "devices/api/device.h"

namespace uopd::devices {
namespace {}  // namespace

Stream::Stream(std::shared_ptr<Device> device) : device_(std::move(device)) {}
Stream::~Stream() = default;

absl::Status Stream::CheckRange(const Buffer& buffer, size_t offset, size_t bytes) const {
  if (&buffer.device() != device_.get()) {
    return Invalid(absl::StrCat("A buffer of ", buffer.device().info().name,
                                " is used on a stream of ", device_->info().name));
  }
  if (offset > buffer.size() || bytes > buffer.size() - offset) {
    return Invalid(absl::StrCat("Bytes [", offset, ", ", offset, " + ", bytes,
                                ") are outside a buffer of ", buffer.size(), " bytes"));
  }
  return device_->status();
}

absl::Status Stream::CopyIn(std::span<const std::byte> src, Buffer& dst, size_t dst_offset) {
  UOPD_TRY(CheckRange(dst, dst_offset, src.size()));
  return src.empty() ? absl::OkStatus() : DoCopyIn(src, dst, dst_offset);
}

absl::Status Stream::CopyOut(Buffer& src, size_t src_offset, std::span<std::byte> dst) {
  UOPD_TRY(CheckRange(src, src_offset, dst.size()));
  return dst.empty() ? absl::OkStatus() : DoCopyOut(src, src_offset, dst);
}

absl::Status Stream::Copy(Buffer& src, size_t src_offset, Buffer& dst, size_t dst_offset,
                          size_t bytes) {
  UOPD_TRY(CheckRange(src, src_offset, bytes));
  UOPD_TRY(CheckRange(dst, dst_offset, bytes));
  if (&src == &dst && src_offset < dst_offset + bytes && dst_offset < src_offset + bytes &&
      bytes > 0) {
    return Invalid(absl::StrCat("A copy of ", bytes, " bytes from ", src_offset, " to ", dst_offset,
                                " of the same buffer overlaps itself"));
  }
  return bytes == 0 ? absl::OkStatus() : DoCopy(src, src_offset, dst, dst_offset, bytes);
}

absl::Status Stream::Fill(Buffer& dst, size_t offset, size_t bytes, std::byte value) {
  UOPD_TRY(CheckRange(dst, offset, bytes));
  return bytes == 0 ? absl::OkStatus() : DoFill(dst, offset, bytes, value);
}

absl::Status Stream::Launch(Executable& executable, const LaunchShape& shape,
                            std::span<const BufferArg> buffers, std::span<const int64_t> vars,
                            int64_t* duration_ns, const std::shared_ptr<const StopFlag>& stop) {
  UOPD_TRY(CheckLaunch(*device_, executable, shape, buffers.size(), vars.size()));
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].buffer == nullptr) {
      return Invalid(
          absl::StrCat("Buffer argument ", i, " of kernel ", executable.entry(), " is null"));
    }
    UOPD_TRY(CheckRange(*buffers[i].buffer, buffers[i].offset, 0));
  }
  UOPD_TRY(CheckTensorsFit(executable, shape, buffers));
  UOPD_TRY(device_->status());
  return DoLaunch(executable, shape, buffers, vars, duration_ns, stop);
}

absl::Status Stream::Replay(const RecordedProgram& program, std::span<Buffer* const> buffers,
                            std::span<int64_t> durations_ns,
                            const std::shared_ptr<const StopFlag>& stop) {
  if (&program.device() != device_.get()) {
    return Invalid(absl::StrCat("A sequence recorded for ", program.device().info().name,
                                " is replayed on a stream of ", device_->info().name));
  }
  const std::vector<size_t>& least = program.least_bytes();
  if (buffers.size() != least.size()) {
    return Invalid(
        absl::StrCat("A sequence of ", least.size(), " buffers is replayed with ", buffers.size()));
  }
  if (!durations_ns.empty() && durations_ns.size() != program.launches().size()) {
    return Invalid(absl::StrCat("A sequence of ", program.launches().size(),
                                " kernels is replayed with room for the times of ",
                                durations_ns.size()));
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i] == nullptr) {
      return Invalid(absl::StrCat("Buffer ", i, " of a replay is null"));
    }
    UOPD_TRY(CheckRange(*buffers[i], least[i], 0));
  }
  UOPD_TRY(device_->status());
  return DoReplay(program, buffers, durations_ns, stop);
}

absl::Status Stream::DoReplay(const RecordedProgram& program, std::span<Buffer* const> buffers,
                              std::span<int64_t> durations_ns,
                              const std::shared_ptr<const StopFlag>& stop) {
  absl::InlinedVector<BufferArg, 8> args;
  for (size_t i = 0; i < program.launches().size(); ++i) {
    const RecordedLaunch& launch = program.launches()[i];
    args.clear();
    for (const RecordedLaunch::Argument& arg : launch.buffers) {
      args.push_back({buffers[static_cast<size_t>(arg.index)], arg.offset});
    }
    UOPD_TRY(DoLaunch(*launch.executable, launch.shape, args, launch.vars,
                      durations_ns.empty() ? nullptr : &durations_ns[i], stop));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Buffer>> Stream::Allocate(size_t bytes, MemoryKind kind) {
  return device_->Allocate(bytes, kind);
}

absl::Status Stream::Free(std::shared_ptr<Buffer> buffer) {
  if (buffer == nullptr) return Invalid("Free is given no buffer");
  UOPD_TRY(CheckRange(*buffer, 0, 0));
  return DoFree(std::move(buffer));
}

absl::Status Stream::CopyFrom(Stream& source, Buffer& src, size_t src_offset, Buffer& dst,
                              size_t dst_offset, size_t bytes) {
  UOPD_TRY(source.CheckRange(src, src_offset, bytes));
  UOPD_TRY(CheckRange(dst, dst_offset, bytes));
  if (bytes == 0) return absl::OkStatus();
  if (&source == this) return Copy(src, src_offset, dst, dst_offset, bytes);
  return DoCopyFrom(source, src, src_offset, dst, dst_offset, bytes);
}

absl::Status Stream::DoCopyFrom(Stream& source, Buffer& src, size_t src_offset, Buffer& dst,
                                size_t dst_offset, size_t bytes) {
  auto staging = std::make_shared<std::vector<std::byte>>(bytes);
  UOPD_ASSIGN(auto read, source.device().NewSemaphore());
  UOPD_ASSIGN(auto written, device().NewSemaphore());
  // This keeps the staging memory alive: the queues of the streams hold the semaphores but not the
  // memory.
  read->ReachedOr(1, [staging](const absl::Status&) {});
  written->ReachedOr(1, [staging](const absl::Status&) {});
  auto queue = [&]() -> absl::Status {
    UOPD_TRY(source.DoCopyOut(src, src_offset, *staging));
    UOPD_TRY(source.DoRecord({read, 1}));
    UOPD_TRY(DoWait({read, 1}));
    UOPD_TRY(DoCopyIn(*staging, dst, dst_offset));
    return DoRecord({written, 1});
  };
  absl::Status queued = queue();
  if (!queued.ok()) {  // what is queued already may still use the memory
    source.Synchronize().IgnoreError();
    Synchronize().IgnoreError();
  }
  return queued;
}

absl::Status Stream::Record(std::span<const TimePoint> points) {
  for (const TimePoint& point : points) {
    if (point.semaphore == nullptr) return Invalid("Record is given no semaphore");
  }
  for (const TimePoint& point : points) UOPD_TRY(DoRecord(point));
  return absl::OkStatus();
}

absl::Status Stream::Record(std::shared_ptr<Semaphore> semaphore, uint64_t value) {
  const TimePoint point{std::move(semaphore), value};
  return Record(std::span(&point, 1));
}

absl::Status Stream::Wait(std::span<const TimePoint> points) {
  for (const TimePoint& point : points) {
    if (point.semaphore == nullptr) return Invalid("Wait is given no semaphore");
  }
  for (const TimePoint& point : points) UOPD_TRY(DoWait(point));
  return absl::OkStatus();
}

absl::Status Stream::Wait(std::shared_ptr<Semaphore> semaphore, uint64_t value) {
  const TimePoint point{std::move(semaphore), value};
  return Wait(std::span(&point, 1));
}

}  // namespace uopd::devices
