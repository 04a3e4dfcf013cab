// SPDX-License-Identifier: MIT
// The HTTP side of the daemon: /metrics, /healthz and /readyz.
//
// Answers GET and HEAD only; any other path is 404. One thread serves every
// connection without waiting for any: clients that send or read slowly hold up nobody. A request
// head comes whole within kHeadLimit and kMaxHead bytes; of more than kMaxConnections the oldest is
// closed. The readiness function is called on that thread and so should be quick; it is not called
// after Stop() returns. Knows nothing of the engine. Start fails with
// INVALID_ARGUMENT for an address that makes no sense and with UNAVAILABLE for one that cannot be
// bound.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "server/net/listener.h"

namespace uopd::http {

inline constexpr size_t kMaxConnections = 256;
inline constexpr size_t kMaxHead = 8 << 10;
inline constexpr std::chrono::milliseconds kHeadLimit{2000};
inline constexpr std::chrono::milliseconds kAnswerLimit{10'000};  // to take an answer

// Empty when the daemon takes requests; otherwise why not, in a few words: "starting", "draining",
// "no device".
using ReadinessFn = std::function<std::string()>;

class HttpServer {
 public:
  // `address` is host:port with an IP address or localhost; port 0 takes a free one.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const std::string& address, ReadinessFn readiness,
      std::chrono::milliseconds head_limit = kHeadLimit);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // host:port with the port that was bound.
  const std::string& address() const { return address_; }

  // Ends every connection; may be called once more by the destructor.
  void Stop();

 private:
  HttpServer(ReadinessFn readiness, std::chrono::milliseconds head_limit);
  void Run();
  // The whole answer to a request whose head is `head`.
  std::string Answer(std::string_view head) const;

  const ReadinessFn readiness_;
  const std::chrono::milliseconds head_limit_;
  std::string address_;
  std::unique_ptr<net::Listener> listener_;
  UniqueFd stop_;
  std::thread thread_;
};

}  // namespace uopd::http
