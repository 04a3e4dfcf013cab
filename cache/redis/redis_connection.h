// SPDX-License-Identifier: MIT
// RedisConnection: one authenticated connection to a server of Redis (6 or later) or Valkey.
//
// Not thread-safe. A connection that failed once must not be used again: a reply that comes late
// would be taken for that of another command.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cache/redis/redis_url.h"
#include "cache/redis/resp.h"
#include "cache/redis/transport.h"

namespace uopd::cache {

struct RedisLogin {
  std::string user;      // empty: the default user
  std::string password;  // empty: none
  int database = 0;
};

class RedisConnection {
 public:
  using Command = std::vector<std::string_view>;

  // Logs in on a transport. UNAUTHENTICATED: the server refuses the name or the password;
  // UNAVAILABLE: the server cannot serve now; FAILED_PRECONDITION: it is older than version 6.
  // Messages never hold the password.
  static absl::StatusOr<std::unique_ptr<RedisConnection>> Login(
      std::unique_ptr<Transport> transport, const RedisLogin& login, Deadline deadline);

  // The reply to one command, which may be an error of the server (RespKind::kError). The status is
  // an error only if the connection cannot be used any more.
  absl::StatusOr<RespValue> Run(const Command& command, Deadline deadline);
  // The same for several commands, which travel together. Replies are in the order of the commands.
  absl::StatusOr<std::vector<RespValue>> RunAll(std::span<const Command> commands,
                                                Deadline deadline);

  // Whether there were failures.
  bool usable() const { return usable_; }

 private:
  explicit RedisConnection(std::unique_ptr<Transport> transport)
      : transport_(std::move(transport)) {}
  absl::StatusOr<RespValue> ReadReply(Deadline deadline);

  std::unique_ptr<Transport> transport_;
  RespReader reader_;
  std::string scratch_;
  bool usable_ = true;
};

// Whether a reply is an error of the server that begins with this word, as "NOSCRIPT" or
// "READONLY".
bool IsError(const RespValue& reply, std::string_view word);

}  // namespace uopd::cache
