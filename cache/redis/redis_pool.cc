// SPDX-License-Identifier: MIT
#include "cache/redis/redis_pool.h"

#include <charconv>
#include <utility>

#include "absl/status/status.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::cache {

absl::StatusOr<std::unique_ptr<RedisConnection>> RedisPool::Take(Deadline deadline) {
  {
    const MutexLock lock(mu_);
    if (!idle_.empty()) {
      std::unique_ptr<RedisConnection> out = std::move(idle_.back());
      idle_.pop_back();
      return out;
    }
  }
  begun_.fetch_add(1, std::memory_order_relaxed);
  return Connect(deadline);
}

void RedisPool::Give(std::unique_ptr<RedisConnection> connection) {
  if (!connection->usable()) return;
  const MutexLock lock(mu_);
  if (idle_.size() < options_.idle) idle_.push_back(std::move(connection));
}

void RedisPool::Clear() {
  std::vector<std::unique_ptr<RedisConnection>> ended;
  const MutexLock lock(mu_);
  ended.swap(idle_);
}

absl::StatusOr<std::unique_ptr<RedisConnection>> RedisPool::Connect(Deadline deadline) const {
  const RedisUrl& url = options_.url;
  std::unique_ptr<Transport> transport;
  if (!url.unix_path.empty()) {
    UOPD_ASSIGN(transport, Transport::ConnectUnix(url.unix_path, deadline));
  } else {
    RedisServer server = url.servers.front();
    if (!url.sentinel_name.empty()) {
      UOPD_ASSIGN(server, FindMaster(deadline));
    }
    UOPD_ASSIGN(transport, Transport::Connect(server, *options_.resolver, maybe_tls(), deadline));
  }
  return RedisConnection::Login(std::move(transport), {url.user, options_.password, url.database},
                                deadline);
}

absl::StatusOr<RedisServer> RedisPool::FindMaster(Deadline deadline) const {
  absl::Status last = absl::UnavailableError("no sentinel");
  for (const RedisServer& sentinel : options_.url.servers) {
    // A sentinel that does not answer must leave time for the next one.
    const auto now = std::chrono::steady_clock::now();
    const auto share = now + (deadline - now) / 2;
    const auto ask = [&]() -> absl::StatusOr<RedisServer> {
      UOPD_ASSIGN(auto transport,
                  Transport::Connect(sentinel, *options_.resolver, maybe_tls(), share));
      UOPD_ASSIGN(
          auto connection,
          RedisConnection::Login(std::move(transport), {"", options_.sentinel_password, 0}, share));
      UOPD_ASSIGN(const RespValue reply,
                  connection->Run(
                      {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", options_.url.sentinel_name}, share));
      if (reply.values.size() != 2)
        return absl::UnavailableError(
            Cat("The sentinel ", Name(sentinel), " does not know ", options_.url.sentinel_name));
      RedisServer master{.host = reply.values[0].text};
      const std::string& port = reply.values[1].text;
      const auto [end, error] =
          std::from_chars(port.data(), port.data() + port.size(), master.port);
      if (error != std::errc{} || end != port.data() + port.size() || master.host.empty())
        return absl::UnavailableError(
            Cat("The sentinel ", Name(sentinel), " names a server without a port"));
      return master;
    };
    absl::StatusOr<RedisServer> master = ask();
    if (master.ok()) return master;
    last = master.status();
  }
  return WithFrame(std::move(last), "asking the sentinels of the shared tier");
}

}  // namespace uopd::cache
