// SPDX-License-Identifier: MIT
// Memory that the client shares with a daemon on the same machine, in parts for one chunk each. The
// data of large uploads and downloads go through it, in place of messages.
//
// The daemon gives it over a second socket beside its Unix socket (docs/protocol.md, "On the same
// machine"). Thread-safe. A child of fork() does not have the memory.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/mutex.h"

namespace uopd::client {

class SharedArea {
 public:
  static constexpr size_t kSlotBytes = 1 << 20;

  // Asks the daemon at `address` (as in ConnectOptions) for an area. Null: the address is none of a
  // Unix socket, or the daemon gives none within the time.
  static std::shared_ptr<SharedArea> Open(const std::string& address, const std::string& suffix,
                                          const std::string& token, std::chrono::milliseconds time);
  ~SharedArea();
  SharedArea(const SharedArea&) = delete;
  SharedArea& operator=(const SharedArea&) = delete;

  uint64_t number() const { return number_; }
  bool HasFree() UOPD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return !free_.empty();
  }

 private:
  friend class SharedSlot;
  SharedArea(uint64_t number, char* memory, size_t bytes);

  const uint64_t number_;
  char* const memory_;
  const size_t bytes_;
  Mutex mutex_;
  std::vector<size_t> free_ UOPD_GUARDED_BY(mutex_);  // offsets
};

// A part of an area for one chunk. Its destructor gives it back.
class SharedSlot {
 public:
  SharedSlot() = default;
  // Empty if the area has no free part, or if there is no area.
  static SharedSlot Take(const std::shared_ptr<SharedArea>& maybe_area);
  ~SharedSlot() { Release(); }
  SharedSlot(SharedSlot&& other) noexcept = default;
  SharedSlot& operator=(SharedSlot&& other) noexcept;

  explicit operator bool() const { return area_ != nullptr; }
  const std::shared_ptr<SharedArea>& area() const { return area_; }
  uint64_t offset() const { return offset_; }
  char* data() const { return area_->memory_ + offset_; }

 private:
  void Release();

  std::shared_ptr<SharedArea> area_;
  size_t offset_ = 0;
};

}  // namespace uopd::client
