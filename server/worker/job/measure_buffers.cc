// SPDX-License-Identifier: MIT
#include "server/worker/job/measure_buffers.h"

#include <algorithm>

#include "core/base/text.h"
#include "server/worker/job/fill_pattern.h"

namespace uopd::worker {
namespace {

constexpr size_t kGuardBytes = 256;  // more than a stray store of the widest vectors reaches
constexpr std::byte kGuard{0xA5};

}  // namespace

absl::Status MeasureBuffers::Take(std::shared_ptr<devices::Device> device,
                                  std::span<const MeasureBuffer> wanted, bool fresh,
                                  devices::Stream& stream) {
  const bool kept = device_ == device && std::ranges::equal(kinds_, wanted);
  if (!kept) {
    Drop();
    for (const MeasureBuffer& kind : wanted) {
      UOPD_ASSIGN(auto buffer,
                  device->Allocate(kind.bytes + kGuardBytes, devices::MemoryKind::kDevice));
      buffers_.push_back(std::move(buffer));
    }
    kinds_.assign(wanted.begin(), wanted.end());
    device_ = std::move(device);
  }
  for (size_t slot = 0; slot < buffers_.size(); ++slot) {
    if (!kept || fresh || (kinds_[slot].read && kinds_[slot].written))
      UOPD_TRY(Fill(slot, !kept || fresh, stream));
  }
  return stream.Synchronize();
}

void MeasureBuffers::Drop() {
  buffers_.clear();
  kinds_.clear();
  device_.reset();
}

absl::Status MeasureBuffers::Fill(size_t slot, bool guard, devices::Stream& stream) {
  const MeasureBuffer& kind = kinds_[slot];
  std::vector<std::byte> contents(kind.bytes + (guard ? kGuardBytes : 0), kGuard);
  FillPattern(kind.dtype, slot, std::span(contents).first(kind.bytes));
  UOPD_TRY(stream.CopyIn(contents, *buffers_[slot], 0));
  return stream.Synchronize();
}

absl::Status MeasureBuffers::CheckGuards(devices::Stream& stream) const {
  for (size_t slot = 0; slot < buffers_.size(); ++slot) {
    std::vector<std::byte> guard(kGuardBytes);
    UOPD_TRY(stream.CopyOut(*buffers_[slot], kinds_[slot].bytes, guard));
    UOPD_TRY(stream.Synchronize());
    if (std::ranges::any_of(guard, [](std::byte b) { return b != kGuard; }))
      return absl::InternalError(Cat("the kernel wrote behind buffer (", slot, ")"));
  }
  return absl::OkStatus();
}

}  // namespace uopd::worker
