// SPDX-License-Identifier: MIT
#include "server/http/http_server.h"

#include <arpa/inet.h>
#include <civetweb.h>
#include <netinet/in.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <exception>
#include <optional>
#include <string_view>
#include <thread>

#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/metrics.h"
#include "core/base/status.h"
#include "server/http/metrics_collectable.h"

namespace uopd::http {
namespace {

constexpr char kText[] = "text/plain; charset=utf-8";
constexpr char kPrometheusText[] = "text/plain; version=0.0.4; charset=utf-8";

struct HostPort {
  std::string host;  // dotted IPv4
  int port;
};

std::optional<HostPort> Split(std::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  HostPort out{std::string(address.substr(0, colon)), 0};
  std::string_view port = address.substr(colon + 1);
  auto [rest, error] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (error != std::errc() || rest != port.data() + port.size()) return std::nullopt;
  if (out.port < 0 || out.port > 65535) return std::nullopt;
  if (out.host == "localhost") out.host = "127.0.0.1";
  // Nothing else gets to civetweb, whose syntax has lists and suffixes that open ports nobody asked
  // for.
  in_addr parsed{};
  if (inet_pton(AF_INET, out.host.c_str(), &parsed) != 1) return std::nullopt;
  return out;
}

const char* Reason(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 500:
      return "Internal Server Error";
    default:
      return "Service Unavailable";
  }
}

int Reply(mg_connection* connection, int code, const Page& page) {
  const std::string head =
      absl::StrCat("HTTP/1.1 ", code, " ", Reason(code), "\r\nContent-Type: ", page.content_type,
                   "\r\nContent-Length: ", page.body.size(), "\r\nCache-Control: no-store",
                   "\r\nX-Content-Type-Options: nosniff", code == 405 ? "\r\nAllow: GET, HEAD" : "",
                   "\r\nConnection: close\r\n\r\n");
  mg_write(connection, head.data(), head.size());
  if (std::string_view(mg_get_request_info(connection)->request_method) != "HEAD") {
    mg_write(connection, page.body.data(), page.body.size());
  }
  return code;
}

// Connects to the server's own address and hangs up. That it may fail does not matter.
void Knock(const HostPort& address) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(address.port));
  inet_pton(AF_INET, address.host.c_str(), &to.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0 || errno == EINPROGRESS) {
    shutdown(fd, SHUT_RDWR);
  }
  close(fd);
}

Page MetricsPage() {
  const MetricsCollectable collectable(MetricRegistry::Global());
  return {kPrometheusText, prometheus::TextSerializer().Serialize(collectable.Collect())};
}

}  // namespace

HttpServer::HttpServer(ReadinessFn readiness, Pages pages)
    : readiness_(std::move(readiness)), pages_(std::move(pages)) {
  pages_["/metrics"] = &MetricsPage;
  pages_["/healthz"] = [] { return Page{kText, "ok\n"}; };
}

HttpServer::~HttpServer() { Stop(); }

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address,
                                                              ReadinessFn readiness, Pages pages) {
  const auto split = Split(address);
  if (!split) {
    return absl::InvalidArgumentError(
        absl::StrCat("HTTP address (", address, ") is not host:port with an IPv4 host"));
  }
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(readiness), std::move(pages)));

  const std::string ports = absl::StrCat(split->host, ":", split->port);
  const std::string threads = absl::StrCat(kThreads);
  const char* options[] = {"listening_ports",
                           ports.c_str(),
                           "num_threads",
                           threads.c_str(),
                           "request_timeout_ms",
                           "10000",
                           "enable_directory_listing",
                           "no",
                           nullptr};
  char why[256] = "";
  mg_error_data error{};
  error.text = why;
  error.text_buffer_size = sizeof why;
  mg_callbacks callbacks{};
  // civetweb prints to stderr unless this is set; the log has the line instead.
  callbacks.log_message = [](const mg_connection*, const char* message) {
    UOPD_LOG(kDebug, "http", {"what", message});
    return 1;
  };
  mg_init_data init{};
  init.callbacks = &callbacks;
  init.user_data = server.get();
  init.configuration_options = options;
  server->context_ = mg_start2(&init, &error);
  if (!server->context_) {
    return absl::UnavailableError(
        absl::StrCat("HTTP address (", address, ") cannot be bound: ", why));
  }
  mg_set_request_handler(server->context_, "**", &HttpServer::OnRequest, server.get());
  mg_server_port bound{};
  if (mg_get_server_ports(server->context_, 1, &bound) != 1) {
    return absl::UnavailableError(
        absl::StrCat("HTTP address (", address, ") has no port after binding"));
  }
  server->address_ = absl::StrCat(split->host, ":", bound.port);
  return server;
}

void HttpServer::Stop() {
  if (!context_) return;
  // civetweb's acceptor looks at its stop flag every two seconds, or after a connection: make
  // connections until it has seen the flag, so that the daemon and every test of it stop at once.
  const auto own = Split(address_);
  std::atomic<bool> stopped{false};
  std::thread knocker([&] {
    while (!stopped) {
      Knock(*own);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  mg_stop(context_);
  context_ = nullptr;
  stopped = true;
  knocker.join();
}

int HttpServer::OnRequest(mg_connection* connection, void* self) {
  return static_cast<const HttpServer*>(self)->Answer(connection);
}

int HttpServer::Answer(mg_connection* connection) const {
  const mg_request_info& request = *mg_get_request_info(connection);
  const std::string_view method(request.request_method);
  const std::string path(request.local_uri);
  // civetweb is C: an exception of a page or of the serializer must not pass through it.
  try {
    if (method != "GET" && method != "HEAD")
      return Reply(connection, 405, {kText, "only GET and HEAD\n"});
    if (path == "/readyz") {
      const std::string reason = readiness_();
      return reason.empty() ? Reply(connection, 200, {kText, "ready\n"})
                            : Reply(connection, 503, {kText, absl::StrCat(reason, "\n")});
    }
    if (auto page = pages_.find(path); page != pages_.end())
      return Reply(connection, 200, page->second());
    return Reply(connection, 404, {kText, "not found\n"});
  } catch (const std::exception& error) {
    UOPD_LOG(kError, "http page failed", {"path", path}, {"what", error.what()});
    return Reply(connection, 500, {kText, "internal error\n"});
  }
}

}  // namespace uopd::http
