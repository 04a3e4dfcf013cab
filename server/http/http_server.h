// SPDX-License-Identifier: MIT
// The HTTP side of the daemon: /metrics, /healthz and /readyz.
//
// Answers GET and HEAD only; any other path is 404. One thread serves all connections and never
// blocks on one, so a client that sends or reads slowly delays nobody. /metrics is written as
// OpenMetrics if the client's Accept header prefers that (open_metrics.h). A request head must be
// complete within kHeadLimit and kMaxHead bytes. If there are more than kMaxConnections, the oldest
// is closed. The readiness function is called on that thread, so it should be quick. It is not
// called after Stop() has returned. The server knows nothing of the engine. Errors of Start:
// INVALID_ARGUMENT for an invalid address, UNAVAILABLE for an address that cannot be bound.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "server/http/metrics_pages.h"
#include "server/net/listener.h"

namespace uopd::http {

inline constexpr size_t kMaxConnections = 256;
inline constexpr size_t kMaxHead = 8 << 10;
inline constexpr size_t kMaxHeldBytes = size_t{32} << 20;  // of answers that clients have not read
inline constexpr std::chrono::milliseconds kHeadLimit{2000};
inline constexpr std::chrono::milliseconds kAnswerLimit{10'000};  // for reading an answer

struct Readiness {
  // Empty if the daemon takes requests; otherwise why not, in a few words: "starting", "draining".
  std::string reasons;
  std::string degraded;  // lines about what it lacks and serves without
};
using ReadinessFn = std::function<Readiness()>;

class HttpServer {
 public:
  // `address` is host:port with an IP address or localhost. Port 0 means any free port.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const std::string& address, ReadinessFn readiness,
      std::chrono::milliseconds head_limit = kHeadLimit);
  // The same at an address that is bound already.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      std::unique_ptr<net::Listener> bound, ReadinessFn readiness,
      std::chrono::milliseconds head_limit = kHeadLimit);
  // INVALID_ARGUMENT: this is no address for Start.
  static absl::Status Check(const net::Address& address);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // host:port; the port is the one that was bound.
  const std::string& address() const { return address_; }

  // Ends every connection. May be called twice; the destructor calls it too.
  void Stop();

 private:
  HttpServer(ReadinessFn readiness, std::chrono::milliseconds head_limit);
  void Run();
  // Returns the whole answer to a request whose head is `head`.
  std::string Answer(std::string_view head);

  const ReadinessFn readiness_;
  const std::chrono::milliseconds head_limit_;
  std::string address_;
  MetricsPages pages_;  // used by the thread only
  std::unique_ptr<net::Listener> listener_;
  UniqueFd stop_;
  std::thread thread_;
};

}  // namespace uopd::http
