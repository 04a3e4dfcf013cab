// SPDX-License-Identifier: MIT
#include "server/engine/buffer_calls.h"

#include <chrono>
#include <utility>

#include "core/base/text.h"

namespace uopd::engine {
namespace {

// Work ends at its next step, or after some milliseconds within one. Only a kernel that cannot be
// stopped takes longer.
constexpr std::chrono::seconds kAwaitPreempted{1};

}  // namespace

absl::Status BufferCalls::Do(Session& session, absl::FunctionRef<absl::Status()> work) {
  UOPD_TRY(losses_.Take(session));
  const uint64_t ends = preemptible_.ends();
  absl::Status status = work();
  if (absl::IsResourceExhausted(status) &&
      (preemptible_.AwaitPreempted(kAwaitPreempted) || preemptible_.ends() != ends)) {
    status = work();
  }
  return status.ok() ? status : losses_.Explain(session, std::move(status));
}

absl::Status BufferCalls::Create(Session& session, uint64_t handle, uint64_t bytes,
                                 std::string_view device_name) {
  return Do(session, [&]() -> absl::Status {
    UOPD_ASSIGN(DeviceState * device, devices_.Get(device_name));
    return session.buffers().Create(handle, *device, bytes);
  });
}

absl::StatusOr<bool> BufferCalls::OpenUpload(Session& session, uint64_t handle, uint64_t bytes,
                                             std::string_view device_name) {
  bool made = false;
  UOPD_TRY(Do(session, [&]() -> absl::Status {
    const auto buffer = session.buffers().Peek(handle);
    if (buffer == nullptr) {
      UOPD_ASSIGN(DeviceState * device, devices_.Get(device_name));
      UOPD_TRY(session.buffers().CreateForUpload(handle, *device, bytes));
      made = true;
      return absl::OkStatus();
    }
    if (bytes != 0 && bytes != buffer->size()) {
      return absl::InvalidArgumentError(Cat("buffer ", handle, " has ", buffer->size(),
                                            " bytes and is uploaded as one of ", bytes));
    }
    if (device_name.empty()) return absl::OkStatus();
    UOPD_ASSIGN(DeviceState * device, devices_.Get(device_name));
    if (&device->device() == &buffer->device()) return absl::OkStatus();
    return absl::InvalidArgumentError(Cat("buffer ", handle, " is on ",
                                          buffer->device().info().name,
                                          " and is uploaded as one on ", device->name()));
  }));
  return made;
}

absl::Status BufferCalls::Write(Session& session, uint64_t handle, uint64_t offset,
                                std::string_view data) {
  return Do(session, [&] { return session.buffers().Write(devices_, handle, offset, data); });
}

absl::Status BufferCalls::Read(Session& session, uint64_t handle, uint64_t offset,
                               std::span<char> out) {
  return Do(session, [&] { return session.buffers().Read(devices_, handle, offset, out); });
}

absl::Status BufferCalls::WriteFromArea(Session& session, uint64_t handle, uint64_t offset,
                                        const AreaRange& range) {
  UOPD_ASSIGN(const auto area, session.Area(range.area));
  UOPD_TRY(area->CheckRange(range.offset, range.bytes));
  return Do(session, [&] {
    return session.buffers().WriteBy(
        devices_, handle, offset, range.bytes,
        [&](std::span<std::byte> into) { return area->Read(range.offset, into); });
  });
}

absl::Status BufferCalls::ReadToArea(Session& session, uint64_t handle, uint64_t offset,
                                     const AreaRange& range) {
  UOPD_ASSIGN(const auto area, session.Area(range.area));
  UOPD_TRY(area->CheckRange(range.offset, range.bytes));
  return Do(session, [&] {
    return session.buffers().ReadBy(
        devices_, handle, offset, range.bytes,
        [&](std::span<const std::byte> from) { return area->Write(range.offset, from); });
  });
}

}  // namespace uopd::engine
