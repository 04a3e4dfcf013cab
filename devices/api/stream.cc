// SPDX-License-Identifier: MIT
#include "devices/api/stream.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "devices/api/device.h"

namespace uopd::devices {
namespace {

absl::Status Invalid(const std::string& message) { return absl::InvalidArgumentError(message); }

absl::Status CheckDimensions(const char* what, const int64_t (&asked)[3],
                             const int64_t (&most)[3]) {
  for (int i = 0; i < 3; ++i) {
    if (asked[i] < 1 || asked[i] > most[i]) {
      return Invalid(absl::StrCat("Dimension ", i, " of the ", what, " (", asked[i],
                                  ") is not between 1 and ", most[i], "."));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Executable::Executable(std::shared_ptr<Device> device, std::string entry, ArgLayout args)
    : device_(std::move(device)), entry_(std::move(entry)), args_(args) {}
Executable::~Executable() = default;

Buffer::Buffer(std::shared_ptr<Device> device, size_t size, MemoryKind kind, std::byte* host_data)
    : device_(std::move(device)), size_(size), kind_(kind), host_data_(host_data) {}
Buffer::~Buffer() = default;

Stream::Stream(std::shared_ptr<Device> device) : device_(std::move(device)) {}
Stream::~Stream() = default;

absl::Status Stream::CheckRange(const Buffer& buffer, size_t offset, size_t bytes) const {
  if (&buffer.device() != device_.get()) {
    return Invalid(absl::StrCat("A buffer of ", buffer.device().info().name,
                                " is used on a stream of ", device_->info().name, "."));
  }
  if (offset > buffer.size() || bytes > buffer.size() - offset) {
    return Invalid(absl::StrCat("Bytes [", offset, ", ", offset, " + ", bytes,
                                ") are outside a buffer of ", buffer.size(), " bytes."));
  }
  return device_->status();
}

absl::Status Stream::CheckLaunch(const Executable& executable, const LaunchShape& shape,
                                 std::span<const BufferArg> buffers,
                                 std::span<const int64_t> vars) const {
  const std::string& entry = executable.entry();
  const Target& limits = device_->target();
  if (&executable.device() != device_.get()) {
    return Invalid(absl::StrCat("Kernel ", entry, " is loaded on ", executable.device().info().name,
                                " and launched on a stream of ", device_->info().name, "."));
  }
  if (buffers.size() != static_cast<size_t>(executable.args().buffers) ||
      vars.size() != static_cast<size_t>(executable.args().vars)) {
    return Invalid(absl::StrCat("Kernel ", entry, " takes ", executable.args().buffers,
                                " buffers and ", executable.args().vars,
                                " variables, and is launched with ", buffers.size(), " and ",
                                vars.size(), "."));
  }
  UOPD_TRY(CheckDimensions("grid", shape.grid, limits.max_grid));
  UOPD_TRY(CheckDimensions("block", shape.block, limits.max_block));
  // Dimensions are bounded by now, but their product can still overflow 64 bits: divide instead.
  const int64_t rest = limits.max_block_threads / shape.block[0] / shape.block[1];
  if (shape.block[2] > rest) {
    return Invalid(absl::StrCat("A block of ", shape.block[0], " x ", shape.block[1], " x ",
                                shape.block[2], " threads is more than ", limits.max_block_threads,
                                "."));
  }
  if (shape.shared_bytes < 0 || shape.shared_bytes > limits.shared_bytes) {
    return Invalid(absl::StrCat("Shared memory of ", shape.shared_bytes,
                                " bytes is not between 0 and ", limits.shared_bytes, "."));
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].buffer == nullptr) {
      return Invalid(absl::StrCat("Buffer argument ", i, " of kernel ", entry, " is null."));
    }
    UOPD_TRY(CheckRange(*buffers[i].buffer, buffers[i].offset, 0));
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
                                " of the same buffer overlaps itself."));
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
  UOPD_TRY(CheckLaunch(executable, shape, buffers, vars));
  return DoLaunch(executable, shape, buffers, vars, duration_ns, stop);
}

absl::Status Stream::CopyFrom(Stream& source, Buffer& src, size_t src_offset, Buffer& dst,
                              size_t dst_offset, size_t bytes) {
  UOPD_TRY(source.CheckRange(src, src_offset, bytes));
  UOPD_TRY(CheckRange(dst, dst_offset, bytes));
  if (bytes == 0) return absl::OkStatus();
  if (&source == this) return Copy(src, src_offset, dst, dst_offset, bytes);
  // Through the host; a driver that knows a direct way may take it.
  auto staging = std::make_shared<std::vector<std::byte>>(bytes);
  UOPD_ASSIGN(auto read, source.device().NewSemaphore());
  UOPD_ASSIGN(auto written, device().NewSemaphore());
  // Keep the staging memory: the queues of the streams hold the semaphores, not the memory.
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
  if (!queued.ok()) {  // what is queued may still use the memory
    source.Synchronize().IgnoreError();
    Synchronize().IgnoreError();
  }
  return queued;
}

absl::Status Stream::Record(std::span<const TimePoint> points) {
  for (const TimePoint& point : points) {
    if (point.semaphore == nullptr) return Invalid("Record is given no semaphore.");
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
    if (point.semaphore == nullptr) return Invalid("Wait is given no semaphore.");
  }
  for (const TimePoint& point : points) UOPD_TRY(DoWait(point));
  return absl::OkStatus();
}

absl::Status Stream::Wait(std::shared_ptr<Semaphore> semaphore, uint64_t value) {
  const TimePoint point{std::move(semaphore), value};
  return Wait(std::span(&point, 1));
}

}  // namespace uopd::devices
