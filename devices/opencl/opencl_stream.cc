// SPDX-License-Identifier: MIT
#include "devices/opencl/opencl_stream.h"

#include "devices/opencl/opencl_memory.h"

namespace uopd::devices::opencl {
namespace {

std::byte* AddressOf(Buffer& buffer, size_t offset) {
  return static_cast<OpenClBuffer&>(buffer).address() + offset;
}

}  // namespace

OpenClStream::~OpenClStream() {
  if (used_) PushFinish();  // so that the work drops what it keeps
}

void OpenClStream::Push(std::function<absl::Status(OpenClWork&)> step) {
  used_ = true;
  queue_->Push([work = work_, step = std::move(step)] { return step(*work); });
}

void OpenClStream::PushFinish() {
  Push([](OpenClWork& work) { return work.Finish(); });
}

absl::Status OpenClStream::Synchronize() {
  if (!used_) return absl::OkStatus();
  PushFinish();
  used_ = false;
  return queue_->Synchronize();
}

absl::Status OpenClStream::DoCopyIn(std::span<const std::byte> src, Buffer& dst,
                                    size_t dst_offset) {
  Push([src, to = dst.shared_from_this(), dst_offset](OpenClWork& work) {
    return work.Copy(AddressOf(*to, dst_offset), src.data(), src.size(), {to});
  });
  return absl::OkStatus();
}

absl::Status OpenClStream::DoCopyOut(Buffer& src, size_t src_offset, std::span<std::byte> dst) {
  Push([from = src.shared_from_this(), src_offset, dst](OpenClWork& work) {
    return work.Copy(dst.data(), AddressOf(*from, src_offset), dst.size(), {from});
  });
  return absl::OkStatus();
}

absl::Status OpenClStream::DoCopy(Buffer& src, size_t src_offset, Buffer& dst, size_t dst_offset,
                                  size_t bytes) {
  Push([from = src.shared_from_this(), src_offset, to = dst.shared_from_this(), dst_offset,
        bytes](OpenClWork& work) {
    return work.Copy(AddressOf(*to, dst_offset), AddressOf(*from, src_offset), bytes, {from, to});
  });
  return absl::OkStatus();
}

absl::Status OpenClStream::DoFill(Buffer& dst, size_t offset, size_t bytes, std::byte value) {
  Push([to = dst.shared_from_this(), offset, bytes, value](OpenClWork& work) {
    return work.Fill(AddressOf(*to, offset), bytes, value, to);
  });
  return absl::OkStatus();
}

absl::Status OpenClStream::DoLaunch(Executable& executable, const LaunchShape& shape,
                                    std::span<const BufferArg> buffers,
                                    std::span<const int64_t> vars, int64_t* duration_ns,
                                    const std::shared_ptr<const StopFlag>& stop) {
  OpenClWork::Launch launch;
  launch.executable = std::static_pointer_cast<OpenClExecutable>(executable.shared_from_this());
  launch.shape = shape;
  for (const BufferArg& arg : buffers) {
    launch.buffers.push_back(arg.buffer->shared_from_this());
    launch.pointers.push_back(AddressOf(*arg.buffer, arg.offset));
  }
  launch.vars.assign(vars.begin(), vars.end());
  launch.maybe_duration_ns = duration_ns;
  launch.maybe_stop = stop;
  Push([launch = std::move(launch)](OpenClWork& work) { return work.Run(launch); });
  return absl::OkStatus();
}

absl::Status OpenClStream::DoFree(std::shared_ptr<Buffer> buffer) {
  Push([buffer = std::move(buffer)](OpenClWork& work) {
    work.Drop(buffer);
    return absl::OkStatus();
  });
  return absl::OkStatus();
}

absl::Status OpenClStream::DoRecord(TimePoint point) {
  PushFinish();
  queue_->PushRecord(std::move(point));
  return absl::OkStatus();
}

absl::Status OpenClStream::DoWait(TimePoint until) {
  PushFinish();
  queue_->PushWait(std::move(until));
  return absl::OkStatus();
}

}  // namespace uopd::devices::opencl
