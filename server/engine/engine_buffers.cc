// SPDX-License-Identifier: MIT
// Engine: the buffers of sessions, and what a session is told when a device of theirs is lost.
#include "core/base/text.h"
#include "server/engine/engine.h"

namespace uopd::engine {
namespace {

// Work ends at its next step, or after some milliseconds within one. Only a kernel that cannot be
// stopped takes longer.
constexpr std::chrono::seconds kAwaitPreempted{1};

}  // namespace

void Engine::NoteLosses() {
  const std::vector<DeviceState*> lost = devices_.TakeLosses();
  if (lost.empty()) return;
  for (const DeviceState* device : lost) compile_.DropProgramsOf(*device);
  sessions_.NoteLosses();
}

absl::Status Engine::TakeLoss(Session& session) {
  absl::Status loss = session.buffers().TakeLoss();
  if (loss.ok()) return loss;
  NoteLosses();
  session.Reclaim();  // what is kept was computed from buffers of the same device
  return loss;
}

absl::Status Engine::Explained(Session& session, absl::Status error) {
  NoteLosses();
  const absl::Status loss = TakeLoss(session);
  if (loss.ok()) return error;
  return absl::Status(loss.code(),
                      Cat(StatusText(loss), " (the call that was told: ", StatusText(error), ")"));
}

absl::Status Engine::WithBuffers(Session& session, absl::FunctionRef<absl::Status()> work) {
  UOPD_TRY(TakeLoss(session));
  const uint64_t ends = preemptible_.ends();
  absl::Status status = work();
  if (absl::IsResourceExhausted(status) &&
      (preemptible_.AwaitPreempted(kAwaitPreempted) || preemptible_.ends() != ends)) {
    status = work();
  }
  return status.ok() ? status : Explained(session, std::move(status));
}

absl::StatusOr<Charge> Engine::ChargeMessage(int64_t bytes) {
  auto charge = Charge::Take(total_, bytes, ByteClass::kMessages);
  if (charge.ok()) return charge;
  // Work that ends after the first line has given its bytes back when the second line is read.
  const int64_t leaving = preemptible_.leaving_bytes();
  if (bytes > total_.limit() - total_.used() + leaving) return charge;
  return Charge::Always(total_, bytes, ByteClass::kMessages);
}

absl::Status Engine::CreateBuffer(Session& session, uint64_t handle, uint64_t bytes,
                                  std::string_view device_name) {
  return WithBuffers(session, [&]() -> absl::Status {
    UOPD_ASSIGN(DeviceState * device, devices_.Get(device_name));
    return session.buffers().Create(handle, *device, bytes);
  });
}

absl::StatusOr<bool> Engine::OpenUpload(Session& session, uint64_t handle, uint64_t bytes,
                                        std::string_view device_name) {
  bool made = false;
  UOPD_TRY(WithBuffers(session, [&]() -> absl::Status {
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

absl::Status Engine::Write(Session& session, uint64_t handle, uint64_t offset,
                           std::string_view data) {
  return WithBuffers(session,
                     [&] { return session.buffers().Write(devices_, handle, offset, data); });
}

absl::Status Engine::Read(Session& session, uint64_t handle, uint64_t offset, std::span<char> out) {
  return WithBuffers(session,
                     [&] { return session.buffers().Read(devices_, handle, offset, out); });
}

absl::Status Engine::WriteFromArea(Session& session, uint64_t handle, uint64_t offset,
                                   const AreaRange& range) {
  UOPD_ASSIGN(const auto area, session.Area(range.area));
  UOPD_TRY(area->CheckRange(range.offset, range.bytes));
  return WithBuffers(session, [&] {
    return session.buffers().WriteBy(
        devices_, handle, offset, range.bytes,
        [&](std::span<std::byte> into) { return area->Read(range.offset, into); });
  });
}

absl::Status Engine::ReadToArea(Session& session, uint64_t handle, uint64_t offset,
                                const AreaRange& range) {
  UOPD_ASSIGN(const auto area, session.Area(range.area));
  UOPD_TRY(area->CheckRange(range.offset, range.bytes));
  return WithBuffers(session, [&] {
    return session.buffers().ReadBy(
        devices_, handle, offset, range.bytes,
        [&](std::span<const std::byte> from) { return area->Write(range.offset, from); });
  });
}

}  // namespace uopd::engine
