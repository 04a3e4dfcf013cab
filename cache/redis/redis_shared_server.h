// SPDX-License-Identifier: MIT
// RedisSharedServer: what daemons share, on a server of Redis (6 or later) or Valkey.
//
// Records and leases are keys with a prefix that holds the version of this layout, announcements
// are two streams (redis_scripts.h says which). Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "cache/cluster/shared_server.h"
#include "cache/redis/redis_pool.h"
#include "cache/redis/redis_scripts.h"

namespace uopd::cache {

struct RedisSharedOptions {
  RedisPoolOptions pool;
  std::string prefix = "uopd:1:";  // of all keys
  int64_t record_ttl_ms = int64_t{30} * 24 * 3600 * 1000;
  int64_t announcements = 10'000;  // that each stream keeps, about
};

class RedisSharedServer final : public SharedServer {
 public:
  explicit RedisSharedServer(RedisSharedOptions options);

  int64_t connections() const override { return pool_.begun(); }
  absl::StatusOr<std::optional<std::string>> Get(const Digest& address, Deadline deadline) override;
  absl::StatusOr<bool> Has(const Digest& address, Deadline deadline) override;
  absl::StatusOr<bool> HasAll(std::span<const Digest> addresses, Deadline deadline) override;
  absl::StatusOr<bool> Put(const Announcement& what, std::string_view record, int64_t fence,
                           std::optional<Stream> stream, Deadline deadline) override;
  absl::StatusOr<LeaseResult> TryLease(const Digest& address, std::string_view owner,
                                       int64_t ttl_us, Deadline deadline) override;
  absl::Status Renew(const Digest& address, int64_t token, std::string_view owner, int64_t ttl_us,
                     Deadline deadline) override;
  absl::Status Release(const Digest& address, int64_t token, Deadline deadline) override;
  absl::Status CheckNewest(const Digest& address, int64_t token, Deadline deadline) override;
  absl::StatusOr<bool> IsHeld(const Digest& address, Deadline deadline) override;
  absl::StatusOr<KeysAge> AskKeysAge(Deadline deadline) override;
  absl::StatusOr<std::vector<Announcement>> Listen(Stream stream, std::string& cursor,
                                                   Deadline deadline) override;

 private:
  using Words = RedisConnection::Command;
  // The reply to a command. UNAVAILABLE: an error of the server, or none in time.
  absl::StatusOr<RespValue> Run(const Words& words, Deadline deadline);
  struct Script {
    explicit Script(std::string_view of);
    std::string_view text;
    std::string sha1;  // its name in Redis
  };
  // Runs a script by its name, and sends it to servers that do not have it yet.
  absl::StatusOr<RespValue> RunScript(const Script& script, const std::vector<std::string>& keys,
                                      const std::vector<std::string_view>& args, Deadline deadline);
  // "{hex}:part" behind the prefix.
  std::string KeyOf(const Digest& address, std::string_view part) const;
  const std::string& NameOf(Stream stream) const {
    return stream == Stream::kPuts ? puts_ : notices_;
  }
  // The reply to the question for what is behind the cursor, which waits at the server until the
  // deadline.
  absl::StatusOr<RespValue> Read(const std::string& stream, const std::string& cursor,
                                 Deadline deadline, Deadline last);

  const RedisSharedOptions options_;
  const std::string puts_, notices_;  // names of the streams
  const std::string number_;          // of this daemon, where they are counted
  const Script try_lease_{kTryLeaseScript}, renew_{kRenewScript}, release_{kReleaseScript},
      put_{kPutScript}, age_{kAgeScript};
  RedisPool pool_;
  std::atomic<bool> check_cursor_{
      false};  // the last question for puts failed: the server may be another one
};

}  // namespace uopd::cache
