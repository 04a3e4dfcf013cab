// SPDX-License-Identifier: MIT
// AnnouncementLog: a stream of announcements, as that of the model of a server. Positions go on
// growing when it is emptied, as those of Redis do. One thread.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "cache/cluster/shared_server.h"

namespace uopd::sim {

class AnnouncementLog {
 public:
  explicit AnnouncementLog(size_t most) : most_(most) {}

  void Add(const cache::Announcement& what) {
    entries_.push_back(what);
    if (entries_.size() <= most_) return;
    entries_.pop_front();
    ++first_;
  }
  uint64_t end() const { return first_ + entries_.size(); }
  // How many announcements there are from `cursor` on.
  size_t CountFrom(uint64_t cursor) const {
    const uint64_t from = std::max(cursor, first_);
    return from < end() ? end() - from : 0;
  }
  // At most `limit` announcements from `cursor` on, which moves on.
  std::vector<cache::Announcement> Read(uint64_t& cursor, uint64_t end, size_t limit) const {
    std::vector<cache::Announcement> out;
    cursor = std::max(cursor, first_);
    end = std::min(end, this->end());
    for (; cursor < end && out.size() < limit; ++cursor) out.push_back(entries_[cursor - first_]);
    return out;
  }
  void Clear() {
    first_ = end();
    entries_.clear();
  }

 private:
  const size_t most_;
  std::deque<cache::Announcement> entries_;
  uint64_t first_ = 1;  // the position of the front
};

}  // namespace uopd::sim
