// SPDX-License-Identifier: MIT
// ServerModel: what a server of Redis knows and does for the daemons of a cluster: records, leases,
// fences, the streams of announcements. It follows cache/redis/redis_scripts.h; a test compares it
// with a real server on random commands.
//
// Without time of its own: each call says when it happens. One thread.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "cache/cluster/shared_server.h"
#include "tests/simulation/random.h"
#include "tests/simulation/server/announcement_log.h"

namespace uopd::sim {

// Mistakes that a test plants, to see that it would be noticed.
enum class Plant {
  kNone,
  kGrantsAlways,   // every lease is granted, whoever has it
  kRenewsNothing,  // a renewal is confirmed and does not happen
};

struct ServerModelOptions {
  size_t announcements = 10'000;  // that each stream keeps
  int64_t max_bytes = 0;          // of records, as allkeys-lru; 0: no limit
  Plant plant = Plant::kNone;
};

class ServerModel {
 public:
  // The server got its keys at `born_us`.
  ServerModel(const ServerModelOptions& options, int64_t born_us, uint64_t seed)
      : options_(options),
        born_us_(born_us),
        random_(seed),
        puts_(options.announcements),
        notices_(options.announcements) {}

  const std::string* Get(const Digest& address, int64_t now_us);  // null: there is none
  bool Has(const Digest& address) const;
  // `bytes`: what the record counts against max_bytes.
  bool Put(const Digest& address, std::string_view record, int64_t fence, int64_t bytes,
           int64_t now_us);
  cache::LeaseResult TryLease(const Digest& address, std::string_view owner, int64_t ttl_us,
                              int64_t now_us);
  bool Renew(const Digest& address, int64_t token, std::string_view owner, int64_t ttl_us,
             int64_t now_us);
  bool Release(const Digest& address, int64_t token, int64_t now_us);
  bool IsNewest(const Digest& address, int64_t token) const;
  bool IsHeld(const Digest& address, int64_t now_us) const;
  // Counts `daemon`.
  cache::KeysAge Age(uint64_t daemon, int64_t now_us);
  // Loses everything.
  void Empty(int64_t now_us);

  AnnouncementLog& puts() { return puts_; }
  AnnouncementLog& notices() { return notices_; }

  size_t records() const { return records_.size(); }
  int64_t bytes() const { return bytes_; }
  int64_t evicted() const { return evicted_; }

 private:
  struct Record {
    int64_t fence = 0, bytes = 0, used_us = 0;
    size_t place = 0;  // in order_
    std::string record;
  };
  struct Lease {
    int64_t newest = 0;  // the fence; 0: none
    int64_t token = 0, ends_us = 0;
    std::string owner;
  };
  void Remove(const Digest& address);
  void EvictOne(const Digest& but);

  const ServerModelOptions options_;
  int64_t born_us_;
  std::array<absl::flat_hash_set<uint64_t>, 2> daemons_;  // that asked: of even and of odd minutes
  int64_t minute_ = 0;                                    // the newest one of these
  Random random_;
  absl::flat_hash_map<Digest, Record> records_;
  std::vector<Digest> order_;  // the keys of records_, in no order: eviction draws from them
  absl::flat_hash_map<Digest, Lease> leases_;
  AnnouncementLog puts_, notices_;
  int64_t bytes_ = 0, evicted_ = 0;
};

}  // namespace uopd::sim
