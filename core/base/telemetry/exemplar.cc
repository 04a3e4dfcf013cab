// SPDX-License-Identifier: MIT
#include "core/base/telemetry/exemplar.h"

#include <algorithm>
#include <ctime>
#include <thread>

#include "core/base/status.h"

namespace uopd {

bool ExemplarId::usable() const {
  const std::string_view id = text();
  return !id.empty() && id.size() <= kMaxSize &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

int64_t CoarseMs() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

void ExemplarSlots::OfferAt(size_t slot, const ExemplarId& id, double value, int64_t now_ms) {
  UOPD_CHECK(slot < count_);
  Slot& at = slots_[slot];
  if (!Wants(slot, id.traced(), now_ms)) return;
  if (at.busy.test_and_set(std::memory_order_acquire)) return;
  if (Wants(slot, id.traced(), now_ms)) {
    const std::string_view text = id.text();
    std::copy(text.begin(), text.end(), at.id.begin());
    at.size = static_cast<uint8_t>(text.size());
    at.value = value;
    at.stamp.store(2 * now_ms + (id.traced() ? 1 : 0), std::memory_order_relaxed);
  }
  at.busy.clear(std::memory_order_release);
}

std::optional<Exemplar> ExemplarSlots::Read(size_t slot) const {
  UOPD_CHECK(slot < count_);
  Slot& at = slots_[slot];
  // A writer only copies 64 bytes, but it may lose its processor meanwhile.
  while (at.busy.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  std::optional<Exemplar> out;
  if (at.size != 0) {
    out = Exemplar{at.traced() ? "trace_id" : "request_id", std::string(at.id.data(), at.size),
                   at.value, static_cast<double>(at.ms()) * 1e-3};
  }
  at.busy.clear(std::memory_order_release);
  return out;
}

}  // namespace uopd
