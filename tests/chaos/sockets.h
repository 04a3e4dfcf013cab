// SPDX-License-Identifier: MIT
// Raw connections, for what no well-written client does. And a relay that gives gRPC's connections
// a separate source address: all of 127.0.0.0/8 is this machine.
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

  // `from` is an address of this machine. Invalid if nobody accepts within two seconds.
  static Socket Connect(const std::string& host_port, const std::string& from = "");

  bool ok() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  bool Send(const std::string& bytes);
  // True if the peer has closed the connection. Drops what the peer has sent.
  bool Closed();

 private:
  int fd_ = -1;
};

// Passes connections to its own address on to `target`. `target` sees `from` as their source
// address.
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
  std::list<Pair> pairs_;  // used by the accepting thread until it has ended
  std::thread acceptor_;
};

// An address of this machine that only one actor uses.
std::string SourceAddress(int number);

}  // namespace uopd::chaos
