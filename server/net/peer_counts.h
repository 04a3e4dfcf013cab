// SPDX-License-Identifier: MIT
// How many connections each peer has. Only peers that have one cost memory: whoever is refused leaves nothing.
#pragma once
#include <cstddef>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace uopd::net {

class PeerCounts {
 public:
  size_t Of(const std::string& peer) const {
    const auto it = all_.find(peer);
    return it == all_.end() ? 0 : it->second;
  }
  void Add(const std::string& peer) { ++all_[peer]; }
  // REQUIRES: it was added.
  void Remove(const std::string& peer) {
    if (const auto it = all_.find(peer); --it->second == 0) all_.erase(it);
  }
  size_t peers() const { return all_.size(); }

 private:
  absl::flat_hash_map<std::string, size_t> all_;
};

}  // namespace uopd::net
