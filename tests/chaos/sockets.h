// SPDX-License-Identifier: MIT
// Raw connections, for what no well-written client does, and a relay that gives connections made by
// gRPC an address of their own: all of 127.0.0.0/8 is this machine.
#pragma once
#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <thread>

namespace uopd::chaos {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& o) noexcept : fd_(o.fd_) { o.fd_ = -1; }
  Socket& operator=(Socket&& o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }
  ~Socket();

  // From an address of this machine; invalid when nobody accepts within two seconds.
  static Socket Connect(const std::string& host_port, const std::string& from = "");

  bool ok() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  bool Send(const std::string& bytes);
  // The peer has closed it. Drops what it has sent.
  bool Closed();

 private:
  int fd_ = -1;
};

// Passes connections to its address on to `target`, which sees them come from `from`.
class Relay {
 public:
  Relay(std::string target, std::string from);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  const std::string& address() const { return address_; }

 private:
  struct Pair {
    Socket in, out;
    std::thread forth, back;
  };
  void Accept();

  const std::string target_, from_;
  Socket listener_;
  std::string address_;
  std::atomic<bool> over_ = false;
  std::list<Pair> pairs_;  // of the accepting thread until it has ended
  std::thread acceptor_;
};

// An address of this machine that only one actor uses.
std::string SourceAddress(int number);

}  // namespace uopd::chaos
