// SPDX-License-Identifier: MIT
#include "cache/redis/resolver.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <condition_variable>
#include <cstring>
#include <map>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "core/base/mutex.h"
#include "core/base/text.h"

namespace uopd::cache {
namespace {

using ResolverClock = std::chrono::steady_clock;

absl::StatusOr<SocketAddresses> AskTheSystem(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (failed != 0)
    return absl::UnavailableError(Cat("The name ", host, " is not known: ", gai_strerror(failed)));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);
  SocketAddresses out;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    std::memcpy(&out.emplace_back().bytes, one->ai_addr, one->ai_addrlen);
    out.back().size = one->ai_addrlen;
  }
  if (out.empty()) return absl::UnavailableError(Cat("The name ", host, " has no address"));
  return out;
}

// Of digits alone. A zone ("fe80::1%eth0") is left to getaddrinfo, which does not ask anybody for
// it, either.
std::optional<SocketAddress> InDigits(const std::string& host) {
  SocketAddress out;
  sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
  if (inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    std::memcpy(&out.bytes, &v4, sizeof v4);
    out.size = sizeof v4;
    return out;
  }
  sockaddr_in6 v6 = {};
  v6.sin6_family = AF_INET6;
  if (inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) != 1) return std::nullopt;
  std::memcpy(&out.bytes, &v6, sizeof v6);
  out.size = sizeof v6;
  return out;
}

}  // namespace

void SocketAddress::SetPort(uint16_t port) {
  const uint16_t wire = htons(port);
  const size_t at = bytes.ss_family == AF_INET6 ? offsetof(sockaddr_in6, sin6_port)
                                                : offsetof(sockaddr_in, sin_port);
  std::memcpy(reinterpret_cast<char*>(&bytes) + at, &wire, sizeof wire);
}

// Shared with the threads that ask.
struct Resolver::State {
  struct Name {
    SocketAddresses good;             // the last good answer; empty: none yet
    absl::Status failure;             // of the last search, if it failed
    ResolverClock::time_point asked;  // when the last search ended
    uint64_t searches = 0;            // that have ended
    bool searching = false;
  };

  explicit State(Options options) : options(std::move(options)) {
    if (!this->options.look_up) this->options.look_up = AskTheSystem;
  }

  Options options;
  Mutex mu;
  std::condition_variable answered;
  std::map<std::string, Name> names UOPD_GUARDED_BY(mu);

  // REQUIRES: nobody searches for the name.
  static void Search(const std::shared_ptr<State>& state, const std::string& host)
      UOPD_REQUIRES(state->mu) {
    Name& name = state->names[host];
    name.searching = true;
    try {
      std::thread([state, host] {
        auto found = state->options.look_up(host);
        const MutexLock lock(state->mu);
        Name& done = state->names[host];
        done.failure = found.status();
        if (found.ok()) done.good = *std::move(found);
        done.asked = ResolverClock::now();
        ++done.searches;
        done.searching = false;
        state->answered.notify_all();
      }).detach();
    } catch (const std::system_error&) {
      name.searching = false;
      name.failure = absl::UnavailableError("The system has no thread that could resolve a name");
      ++name.searches;
    }
  }
};

Resolver::Resolver(Options options) : state_(std::make_shared<State>(std::move(options))) {}
Resolver::~Resolver() = default;

absl::StatusOr<SocketAddresses> Resolver::Resolve(const std::string& host, Deadline deadline) {
  if (const auto digits = InDigits(host)) return SocketAddresses{*digits};
  MutexLock lock(state_->mu);
  State::Name& name = state_->names[host];  // stays where it is: nothing is erased
  if (!name.good.empty()) {
    const bool old = ResolverClock::now() - name.asked > state_->options.fresh;
    SocketAddresses out = name.good;
    if (old && !name.searching) State::Search(state_, host);
    return out;
  }
  const uint64_t before = name.searches;
  if (!name.searching) State::Search(state_, host);
  const bool ended = lock.WaitUntil(state_->answered, deadline, [&]() UOPD_REQUIRES(state_->mu) {
    return name.searches != before;
  });
  if (!ended)
    return absl::DeadlineExceededError(Cat("The name ", host, " was not resolved in time"));
  if (name.good.empty()) return name.failure;
  return name.good;
}

}  // namespace uopd::cache
