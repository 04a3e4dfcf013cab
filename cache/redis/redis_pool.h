// SPDX-License-Identifier: MIT
// RedisPool: connections to the server that a URL names, kept for the next use.
//
// With sentinels the pool asks them which server is the master, each time that it has to connect.
// Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cache/redis/redis_connection.h"
#include "core/base/mutex.h"

namespace uopd::cache {

struct RedisPoolOptions {
  RedisUrl url;
  std::string password;           // of the server
  std::string sentinel_password;  // of the sentinels
  std::optional<TlsContext> tls;  // REQUIRES: set if url.tls
  size_t idle = 8;                // connections that are kept
  // Of the names in the URL, and of those that sentinels answer with. Never null. Copies of the
  // options share it.
  std::shared_ptr<Resolver> resolver = std::make_shared<Resolver>();
};

class RedisPool {
 public:
  explicit RedisPool(RedisPoolOptions options) : options_(std::move(options)) {}

  // A connection of the pool, or a new one; those of RedisConnection::Login.
  absl::StatusOr<std::unique_ptr<RedisConnection>> Take(Deadline deadline) UOPD_EXCLUDES(mu_);
  // Keeps the connection, if it is usable.
  void Give(std::unique_ptr<RedisConnection> connection) UOPD_EXCLUDES(mu_);
  // How many connections were begun so far.
  int64_t begun() const { return begun_.load(std::memory_order_relaxed); }
  // Ends all connections that nobody has now, as after a failure: the others are likely to fail,
  // too.
  void Clear() UOPD_EXCLUDES(mu_);

 private:
  absl::StatusOr<std::unique_ptr<RedisConnection>> Connect(Deadline deadline) const;
  absl::StatusOr<RedisServer> FindMaster(Deadline deadline) const;
  const TlsContext* maybe_tls() const { return options_.url.tls ? &*options_.tls : nullptr; }

  const RedisPoolOptions options_;
  std::atomic<int64_t> begun_{0};
  Mutex mu_;
  std::vector<std::unique_ptr<RedisConnection>> idle_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::cache
