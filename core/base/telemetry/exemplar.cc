// SPDX-License-Identifier: MIT
#include "core/base/telemetry/exemplar.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/base/status.h"

namespace uopd {

bool ExemplarId::usable() const {
  const std::string_view id = text();
  return !id.empty() && id.size() <= kMaxSize &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

int64_t ExemplarSlots::NowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void ExemplarSlots::OfferAt(size_t slot, const ExemplarId& id, double value, int64_t now_ms) {
  UOPD_CHECK(slot < count_);
  Slot& at = slots_[slot];
  if (at.busy.test_and_set(std::memory_order_acquire)) return;
  const int64_t age_ms = now_ms - at.ms;
  const bool better = id.traced() && !at.traced;
  const int64_t stays_ms = at.traced && !id.traced() ? kTracedMs : kLeastMs;
  if (at.size == 0 || better || age_ms >= stays_ms || age_ms < 0) {
    const std::string_view text = id.text();
    std::copy(text.begin(), text.end(), at.id.begin());
    at.size = static_cast<uint8_t>(text.size());
    at.traced = id.traced();
    at.value = value;
    at.ms = now_ms;
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
    out = Exemplar{at.traced ? "trace_id" : "request_id", std::string(at.id.data(), at.size),
                   at.value, static_cast<double>(at.ms) * 1e-3};
  }
  at.busy.clear(std::memory_order_release);
  return out;
}

}  // namespace uopd
