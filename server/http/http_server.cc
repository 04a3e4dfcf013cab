// SPDX-License-Identifier: MIT
#include "server/http/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <exception>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/base/telemetry/log.h"
#include "server/http/connections.h"
#include "server/http/open_metrics.h"
#include "server/net/address.h"

namespace uopd::http {
namespace {

constexpr char kText[] = "text/plain; charset=utf-8";
constexpr int kOutOfDescriptorsMs = 20;  // pause before the next attempt to accept

const char* Reason(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    default:
      return "Service Unavailable";
  }
}

std::string Reply(int code, const Page& page, bool with_body = true) {
  return absl::StrCat("HTTP/1.1 ", code, " ", Reason(code), "\r\nContent-Type: ", page.content_type,
                      "\r\nContent-Length: ", page.body.size(), "\r\nCache-Control: no-store",
                      "\r\nX-Content-Type-Options: nosniff",
                      code == 405 ? "\r\nAllow: GET, HEAD" : "", "\r\nConnection: close\r\n\r\n",
                      with_body ? page.body : "");
}

bool IsNumeric(const net::Address& address) {
  in6_addr parsed{};
  return inet_pton(AF_INET, address.host.c_str(), &parsed) == 1 ||
         inet_pton(AF_INET6, address.host.c_str(), &parsed) == 1;
}

bool Watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

HttpServer::HttpServer(ReadinessFn readiness, std::chrono::milliseconds head_limit)
    : readiness_(std::move(readiness)), head_limit_(head_limit) {}

HttpServer::~HttpServer() { Stop(); }

absl::Status HttpServer::Check(const net::Address& address) {
  if (IsNumeric(address) || address.host == "localhost") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("HTTP address (", ToText(address), ") is no host:port with an IP address"));
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    const std::string& address, ReadinessFn readiness, std::chrono::milliseconds head_limit) {
  UOPD_ASSIGN(const net::Address at, net::ParseAddress(address));
  UOPD_TRY(Check(at));
  UOPD_ASSIGN(auto bound, net::Listener::Bind(at));
  return Start(std::move(bound), std::move(readiness), head_limit);
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    std::unique_ptr<net::Listener> bound, ReadinessFn readiness,
    std::chrono::milliseconds head_limit) {
  UOPD_TRY(bound->Open());
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(readiness), head_limit));
  server->listener_ = std::move(bound);
  server->address_ = ToText(server->listener_->address());
  server->stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  server->thread_ = std::thread([self = server.get()] { self->Run(); });
  return server;
}

void HttpServer::Stop() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
  listener_ = nullptr;
}

void HttpServer::Run() {
  const UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  Watch(epoll.get(), stop_.get());
  for (const UniqueFd& socket : listener_->sockets()) Watch(epoll.get(), socket.get());
  Connections connections(epoll.get(), head_limit_,
                          [this](std::string_view head) { return Answer(head); });
  std::array<epoll_event, 64> events;
  for (;;) {
    const int timeout = connections.EndOverdue();
    const int n = epoll_wait(epoll.get(), events.data(), static_cast<int>(events.size()), timeout);
    for (int i = 0; i < n; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == stop_.get()) return;
      if (connections.OnEvent(fd)) continue;
      // Either a listening socket, or a connection that an earlier event of this round ended. In
      // the second case accept fails.
      UniqueFd accepted(accept4(fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (accepted) {
        connections.Add(std::move(accepted));
      } else if (errno == EMFILE || errno == ENFILE) {
        std::this_thread::sleep_for(std::chrono::milliseconds(kOutOfDescriptorsMs));
      }
    }
  }
}

std::string HttpServer::Answer(std::string_view head) {
  if (head.size() > kMaxHead) return Reply(431, {kText, "request head is too large\n"});
  const std::string_view line = head.substr(0, head.find("\r\n"));
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last ||
      !line.substr(last + 1).starts_with("HTTP/1.")) {
    return Reply(400, {kText, "this is no HTTP/1 request\n"});
  }
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string path(target.substr(0, target.find('?')));
  const bool body = method != "HEAD";
  try {  // the readiness function or the serializer may throw
    if (method != "GET" && method != "HEAD") return Reply(405, {kText, "only GET and HEAD\n"});
    if (path == "/readyz") {
      const auto [reasons, degraded] = readiness_();
      if (!reasons.empty()) return Reply(503, {kText, absl::StrCat(reasons, "\n", degraded)}, body);
      return Reply(
          200, {kText, degraded.empty() ? "ready\n" : absl::StrCat("degraded\n", degraded)}, body);
    }
    if (path == "/metrics") {
      return Reply(200, pages_.Get(PrefersOpenMetrics(head)), body);
    }
    if (path == "/healthz") return Reply(200, {kText, "ok\n"}, body);
    return Reply(404, {kText, "not found\n"}, body);
  } catch (const std::exception& error) {
    UOPD_LOG(kError, "http page failed", {"path", path}, {"what", error.what()});
    return Reply(500, {kText, "internal error\n"}, body);
  }
}

}  // namespace uopd::http
