// SPDX-License-Identifier: MIT
// Memory for chunks of uploads. A chunk that was sent is filled again: fresh memory costs a page fault for every 4 KiB,
// which together take several times as long as the copy.
//
// Thread-safe. Chunks may outlive the pool.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/mutex.h"

namespace uopd::client {

class ChunkPool {
 public:
  std::shared_ptr<const std::string> Copy(std::string_view bytes) {
    auto chunk = free_->Take();
    chunk->assign(bytes);
    return {chunk.release(),
            [free = free_](std::string* used) { free->Give(std::unique_ptr<std::string>(used)); }};
  }

 private:
  class Free {
   public:
    std::unique_ptr<std::string> Take() {
      MutexLock lock(mutex_);
      if (chunks_.empty()) return std::make_unique<std::string>();
      auto out = std::move(chunks_.back());
      chunks_.pop_back();
      return out;
    }
    void Give(std::unique_ptr<std::string> chunk) {
      MutexLock lock(mutex_);
      if (chunks_.size() < kMost) chunks_.push_back(std::move(chunk));
    }

   private:
    static constexpr size_t kMost =
        32;  // as many as are on the way (Connection::kMostUnansweredBytes)
    Mutex mutex_;
    std::vector<std::unique_ptr<std::string>> chunks_ UOPD_GUARDED_BY(mutex_);
  };

  const std::shared_ptr<Free> free_ = std::make_shared<Free>();
};

}  // namespace uopd::client
