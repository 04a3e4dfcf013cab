// SPDX-License-Identifier: MIT
// The HTTP side of the daemon: /metrics, /healthz, /readyz and pages that others register.
//
// Answers GET and HEAD only; a path that nobody registered is 404. Handlers run on kThreads threads
// owned by the server, several at a time, so that pages and the readiness function must be
// thread-safe; they are not called after Stop() returns. Knows nothing of the engine. Start fails
// with INVALID_ARGUMENT for an address that makes no sense and with UNAVAILABLE for one that cannot
// be bound.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

struct mg_connection;
struct mg_context;

namespace uopd::http {

inline constexpr int kThreads = 4;

// Empty when the daemon takes requests; otherwise why not, in a few words: "starting", "draining",
// "no device".
using ReadinessFn = std::function<std::string()>;

struct Page {
  std::string content_type;
  std::string body;
};
// By path, e.g. "/debug/config". Called for every request of exactly this path.
using Pages = std::map<std::string, std::function<Page()>>;

class HttpServer {
 public:
  // `address` is host:port with an IPv4 host or localhost; port 0 takes a free one. (The
  // distribution's civetweb is built without IPv6.)
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address,
                                                           ReadinessFn readiness, Pages pages = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // host:port with the port that was bound.
  const std::string& address() const { return address_; }

  // Waits for requests in progress; may be called once more by the destructor.
  void Stop();

 private:
  HttpServer(ReadinessFn readiness, Pages pages);
  static int OnRequest(mg_connection* connection, void* self);
  int Answer(mg_connection* connection) const;

  const ReadinessFn readiness_;
  Pages pages_;
  std::string address_;
  mg_context* context_ = nullptr;
};

}  // namespace uopd::http
