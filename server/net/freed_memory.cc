// SPDX-License-Identifier: MIT
#include "server/net/freed_memory.h"

#include <malloc.h>

#include <algorithm>

namespace uopd::net {
namespace {

// Bytes that malloc could use again. Their pages may be given back already.
size_t Free() {
#if defined(__GLIBC__) && !defined(UOPD_SANITIZED)
  return mallinfo2().fordblks;
#else
  return 0;
#endif
}

void GiveBack() {
#if defined(__GLIBC__) && !defined(UOPD_SANITIZED)
  malloc_trim(0);
#endif
}

}  // namespace

void FreedMemory::OnClosed(Clock::time_point now) {
  if (!closed_) closed_at_ = now;
  closed_ = true;
}

bool FreedMemory::Tick(Clock::time_point now) {
  if (!closed_ || now - closed_at_ < kSettled || now < next_) return false;
  closed_ = false;
  if (Free() < kWorth) return false;
  const auto begin = Clock::now();
  GiveBack();
  next_ = now + std::max<Clock::duration>(kPause, kShare * (Clock::now() - begin));
  return true;
}

}  // namespace uopd::net
