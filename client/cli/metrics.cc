// SPDX-License-Identifier: MIT
// uopctl metrics: one GET of the daemon's /metrics.
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "client/cli/command.h"
#include "core/base/text.h"

namespace uopd::cli {
namespace {

constexpr size_t kMaxAnswer = 64 << 20;

struct Socket {
  int fd = -1;
  ~Socket() {
    if (fd >= 0) close(fd);
  }
};

// The body of the answer to GET `path`. Uses HTTP/1.0, so that the answer ends with the connection.
absl::StatusOr<std::string> HttpGet(const std::string& address, const std::string& path,
                                    double timeout_s) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos)
    return absl::InvalidArgumentError(Cat("`", address, "` is no host:port"));
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int error = getaddrinfo(address.substr(0, colon).c_str(), address.substr(colon + 1).c_str(),
                                &hints, &found);
  if (error != 0)
    return absl::UnavailableError(Cat("cannot resolve ", address, ": ", gai_strerror(error)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, freeaddrinfo);
  Socket socket;
  timeval timeout{static_cast<time_t>(timeout_s), 0};
  for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
    Socket candidate{::socket(a->ai_family, a->ai_socktype, a->ai_protocol)};
    if (candidate.fd < 0) continue;
    setsockopt(candidate.fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(candidate.fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    if (connect(candidate.fd, a->ai_addr, a->ai_addrlen) != 0) continue;
    std::swap(socket.fd, candidate.fd);
    break;
  }
  if (socket.fd < 0)
    return absl::UnavailableError(Cat("cannot connect to ", address, ": ", std::strerror(errno)));
  const std::string request = Cat("GET ", path, " HTTP/1.0\r\nHost: ", address, "\r\n\r\n");
  for (size_t at = 0; at < request.size();) {
    const ssize_t n = send(socket.fd, request.data() + at, request.size() - at, MSG_NOSIGNAL);
    if (n <= 0)
      return absl::UnavailableError(Cat("cannot write to ", address, ": ", std::strerror(errno)));
    at += static_cast<size_t>(n);
  }
  std::string answer;
  char buffer[1 << 16];
  while (true) {
    const ssize_t n = recv(socket.fd, buffer, sizeof buffer, 0);
    if (n == 0) break;
    if (n < 0)
      return absl::UnavailableError(Cat("cannot read from ", address, ": ", std::strerror(errno)));
    answer.append(buffer, static_cast<size_t>(n));
    if (answer.size() > kMaxAnswer)
      return absl::ResourceExhaustedError(
          Cat(address, " answers with more than ", kMaxAnswer, " bytes"));
  }
  const size_t head = answer.find("\r\n\r\n");
  const std::string first = answer.substr(0, answer.find("\r\n"));
  if (head == std::string::npos || first.find(" 200") == std::string::npos) {
    return absl::UnavailableError(Cat(address, " answers: ", first.substr(0, 200)));
  }
  return answer.substr(head + 4);
}

absl::Status Metrics(const Globals& globals, const std::string& http, const std::string& filter) {
  UOPD_ASSIGN(const std::string body, HttpGet(http, "/metrics", globals.timeout_s));
  for (size_t at = 0; at < body.size();) {
    const size_t end = std::min(body.find('\n', at), body.size());
    const std::string line = body.substr(at, end - at);
    if (filter.empty() || (!line.starts_with('#') && line.find(filter) != std::string::npos))
      std::printf("%s\n", line.c_str());
    at = end + 1;
  }
  return absl::OkStatus();
}

}  // namespace

void AddMetrics(CLI::App& app, Globals& globals) {
  struct Flags {
    std::string http = "127.0.0.1:50511", filter;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("metrics", "the daemon's metrics, as Prometheus reads them");
  command
      ->add_option("--http", flags->http,
                   "host:port of the daemon's HTTP server (UOPD_HTTP_ADDRESS)")
      ->envname("UOPD_HTTP_ADDRESS")
      ->capture_default_str();
  command->add_option("filter", flags->filter, "print only samples that contain this");
  command->callback(
      [&globals, flags] { globals.status = Metrics(globals, flags->http, flags->filter); });
}

}  // namespace uopd::cli
