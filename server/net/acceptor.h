// SPDX-License-Identifier: MIT
// Accepts connections for a server that cannot limit their number itself, and hands over those that
// send the greeting.
//
//   accepted --its first bytes are the greeting--> handed over     --other bytes--> closed
//   accepted --nothing within greeting_limit, or pushed out by newer silent ones--> closed
//   handed over --over the limit of its peer or of all--> closed instead
//   handed over --its frames are refused by its guard--> shut down (guarded_socket.h)
//   handed over --all hold too many bytes of unfinished messages, its peer the most--> shut down
//     (unfinished_messages.h)
//   handed over --its peer had a connection shut down lately--> mostly closed instead (offenders.h)
//
// A connection that sends nothing costs one descriptor for a few seconds, and costs the server
// nothing. Connections are counted by peer: the address without its port, or the user of a Unix
// socket. The new owner closes descriptors without telling the acceptor. So the acceptor asks the
// kernel whether a descriptor is still open (same number, same inode). It has one thread, from its
// constructor to its destructor.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/mutex.h"
#include "core/base/telemetry/metrics.h"
#include "server/net/frame_guard.h"
#include "server/net/freed_memory.h"
#include "server/net/listener.h"
#include "server/net/offenders.h"
#include "server/net/unfinished_messages.h"

namespace uopd::net {

// How many connections each peer has. Only peers that have one cost memory: whoever is refused
// leaves nothing.
class PeerCounts {
 public:
  size_t Of(const std::string& peer) const {
    const auto it = all_.find(peer);
    return it == all_.end() ? 0 : it->second;
  }
  void Add(const std::string& peer) { ++all_[peer]; }
  // REQUIRES: it was added.
  void Remove(const std::string& peer) {
    if (const auto it = all_.find(peer); --it->second == 0) all_.erase(it);
  }
  size_t peers() const { return all_.size(); }

 private:
  absl::flat_hash_map<std::string, size_t> all_;
};

struct AcceptorOptions {
  std::string greeting;  // first bytes of a client; empty: do not wait for any
  std::chrono::milliseconds greeting_limit{5000};
  size_t max_silent = 512;
  size_t max_connections = 4096, max_per_peer = 1024;  // handed over and still open
  // The metrics that count the connections. Null: none.
  Gauge* connections = nullptr;
  std::function<void(const char* reason)> on_refused;
  // Every connection gets a guard with these limits. Null: none does.
  std::optional<FrameLimits> frames;
  // The bytes of unfinished messages that all connections with a guard may hold together.
  uint64_t max_unfinished_bytes = uint64_t{256} << 20;
  // A guard or the server has ended a connection because of what came. Called by the thread that
  // reads or closes the connection.
  std::function<void(const std::string& peer, const char* reason)> on_ended;
};

class Acceptor {
 public:
  // Called with a connection. The function owns the descriptor from the call on.
  using HandOver = std::function<void(int listener, int fd)>;

  // The listener outlives the acceptor.
  Acceptor(const Listener& listener, AcceptorOptions options, HandOver hand_over);
  ~Acceptor();  // closes the connections not handed over
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // The bytes that were sent over the connections handed over and that the peers' systems have not
  // confirmed. They are lost if the connection is closed now and its peer then sends something.
  uint64_t UnconfirmedBytes() UOPD_EXCLUDES(mu_);

 private:
  using Clock = std::chrono::steady_clock;
  struct Silent {
    UniqueFd fd;
    int listener;
    Clock::time_point since;
  };
  struct Open {
    std::string peer;
    int fd;
    uint64_t inode;
  };

  void Run();
  void Accept(int listener);
  // Decides about a connection that has sent something or ended.
  void Listen(std::list<Silent>::iterator silent);
  void Admit(std::list<Silent>::iterator silent);
  // False: no guard is possible.
  bool Guard(int fd, const std::string& peer);
  void Drop(std::list<Silent>::iterator silent, const char* reason);
  void Tick();
  void EndSilent();
  void ForgetClosed() UOPD_EXCLUDES(mu_);
  void Count(double change);

  const Listener& listener_;
  const AcceptorOptions options_;
  const HandOver hand_over_;
  UniqueFd epoll_, stop_;
  const std::shared_ptr<Offenders> offenders_ = std::make_shared<Offenders>();
  // The daemon ends, and closes all connections by itself. Connections outlive the acceptor.
  const std::shared_ptr<std::atomic<bool>> ending_ = std::make_shared<std::atomic<bool>>(false);
  const std::shared_ptr<UnfinishedMessages> unfinished_;

  Mutex mu_;  // held to change open_, and to read it on another thread than the acceptor's
  std::vector<Open> open_;

  // Used by the thread only.
  std::list<Silent> silent_;  // oldest first
  absl::flat_hash_map<int, std::list<Silent>::iterator> by_fd_;
  PeerCounts peers_;  // of open_
  FreedMemory freed_;
  Clock::time_point next_tick_;
  std::thread thread_;
};

}  // namespace uopd::net
