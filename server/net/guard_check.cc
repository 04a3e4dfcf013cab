// SPDX-License-Identifier: MIT
#include "server/net/guard_check.h"

#include <poll.h>
#include <sys/socket.h>

#include <condition_variable>
#include <memory>
#include <optional>
#include <string_view>

#include "core/base/mutex.h"
#include "core/base/text.h"
#include "core/base/unique_fd.h"
#include "server/net/guarded_socket.h"

namespace uopd::net {
namespace {

constexpr std::chrono::seconds kPatience{10};
// The preface of HTTP/2 and a frame of empty settings.
constexpr std::string_view kFirstBytes("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);

// Lives as long as the guard or the check needs it.
struct Seen {
  Mutex mu;
  std::condition_variable changed;
  std::optional<GuardedBytes> bytes UOPD_GUARDED_BY(mu);  // once the connection is closed
};

absl::Status NotSeen(std::string_view what) {
  return absl::FailedPreconditionError(
      Cat("gRPC goes around the guard of HTTP/2 frames: ", what,
          "; it must be the system's shared library, which calls recvmsg, sendmsg and close"));
}

}  // namespace

absl::Status CheckGuard(const std::function<void(int fd)>& hand_over) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
    return absl::UnavailableError("no pair of sockets for the check of the guard");
  }
  UniqueFd server(pair[0]), client(pair[1]);
  const auto seen = std::make_shared<Seen>();
  const bool guarded =
      GuardSocket(server.get(), {}, {.on_closed = [seen](const GuardedBytes& bytes) {
                    MutexLock lock(seen->mu);
                    seen->bytes = bytes;
                    seen->changed.notify_all();
                  }});
  if (!guarded || write(client.get(), kFirstBytes.data(), kFirstBytes.size()) !=
                      static_cast<ssize_t>(kFirstBytes.size())) {
    return absl::UnavailableError("no connection for the check of the guard");
  }
  hand_over(server.Release());
  pollfd answer{client.get(), POLLIN, 0};
  if (poll(&answer, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) != 1) {
    return absl::UnavailableError("gRPC does not answer the connection that checks the guard");
  }
  client.Reset();
  MutexLock lock(seen->mu);
  if (!lock.WaitUntil(seen->changed, std::chrono::steady_clock::now() + kPatience,
                      [&]() UOPD_REQUIRES(seen->mu) { return seen->bytes.has_value(); })) {
    return NotSeen("it did not see that a connection was closed");
  }
  if (seen->bytes->received != kFirstBytes.size())
    return NotSeen("it did not see what was received");
  return seen->bytes->sent ? absl::OkStatus() : NotSeen("it did not see what was sent");
}

}  // namespace uopd::net
