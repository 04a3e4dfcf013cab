// SPDX-License-Identifier: MIT
// A server of HTTP that answers what a test says, one connection at a time and one request for
// each.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "core/base/mutex.h"
#include "core/base/unique_fd.h"

namespace uopd::test {

class FakeHttp {
 public:
  // The bytes of the answer to request number n, from 0; empty: none, and the connection stays open
  // until the server ends.
  using Answer = std::function<std::string(int n)>;

  // `pause`: between the bytes of an answer; 0: all at once.
  explicit FakeHttp(Answer answer, std::chrono::milliseconds pause = {})
      : answer_(std::move(answer)), pause_(pause) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size);
    getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    listen(listener_.get(), 16);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~FakeHttp() {
    stop_ = true;
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int requests() const { return requests_; }
  std::string last_request() {
    const MutexLock lock(mu_);
    return last_;
  }

 private:
  void Serve() {
    while (!stop_) {
      const UniqueFd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (client.get() < 0) continue;
      const timeval wait = {.tv_sec = 0, .tv_usec = 300'000};
      setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
      const std::string request = Read(client.get());
      {
        const MutexLock lock(mu_);
        last_ = request;
      }
      const std::string answer = answer_(requests_++);
      for (size_t at = 0; at < answer.size();) {
        const size_t most = pause_.count() > 0 ? 1 : answer.size() - at;
        const ssize_t n = send(client.get(), answer.data() + at, most, MSG_NOSIGNAL);
        if (n <= 0 || stop_) break;
        std::this_thread::sleep_for(pause_);
        at += static_cast<size_t>(n);
      }
      while (answer.empty() && !stop_) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  // The head and the body, by its Content-Length.
  static std::string Read(int fd) {
    std::string out;
    char piece[4096];
    while (true) {
      const size_t head = out.find("\r\n\r\n");
      if (head != std::string::npos) {
        const size_t at = out.find("Content-Length: ");
        const size_t body = at < head ? std::stoul(out.substr(at + 16)) : 0;
        if (out.size() >= head + 4 + body) return out;
        if (out.find("Expect: 100-continue") < head && out.size() == head + 4)
          std::ignore = send(fd, "HTTP/1.1 100 Continue\r\n\r\n", 25, MSG_NOSIGNAL);
      }
      const ssize_t n = recv(fd, piece, sizeof piece, 0);
      if (n <= 0) return out;
      out.append(piece, static_cast<size_t>(n));
    }
  }

  const Answer answer_;
  const std::chrono::milliseconds pause_;
  const UniqueFd listener_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  uint16_t port_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<int> requests_{0};
  Mutex mu_;
  std::string last_ UOPD_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace uopd::test
