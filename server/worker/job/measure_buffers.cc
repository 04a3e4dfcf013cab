// SPDX-License-Identifier: MIT
#include "server/worker/job/measure_buffers.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/digest.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::worker {

namespace {

constexpr size_t kValues = 256;  // few distinct values, because encoding small floats is slow

uint64_t Next(uint64_t& state) {  // splitmix64
  uint64_t z = (state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// The stored bits of the i-th value.
uint64_t Value(ir::Dtype dtype, size_t i) {
  if (ir::IsFloat(dtype)) {
    const size_t pair = i / 2;
    const double magnitude = (2.0 * static_cast<double>(pair) + 1.0) / kValues;  // (0, 1)
    return ir::EncodeFloat(dtype, i % 2 == 0 ? magnitude : -magnitude);
  }
  if (dtype == ir::Dtype::Bool) return i % 2;
  return i % 16 + 1;
}

}  // namespace

void FillPattern(ir::Dtype dtype, uint64_t seed, std::span<std::byte> out) {
  const auto width = static_cast<size_t>(ir::ByteSize(dtype));
  UOPD_CHECK(width > 0 && width <= sizeof(uint64_t));
  std::array<uint64_t, kValues> values;
  for (size_t i = 0; i < kValues; ++i) values[i] = Value(dtype, i);
  uint64_t state = Mix(seed, static_cast<uint64_t>(dtype)), random = 0;
  size_t at = 0;
  for (int left = 0; at + width <= out.size(); at += width, random >>= 8, --left) {
    if (left == 0) {
      random = Next(state);
      left = 8;
    }
    std::memcpy(out.data() + at, &values[random % kValues],
                width);  // little-endian, as devices are
  }
  if (at < out.size()) std::memset(out.data() + at, 0, out.size() - at);
}

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
