// SPDX-License-Identifier: MIT
// The sockets that a server listens at.
//
// A Unix socket belongs to one process: a lock file beside it (PATH.lock) says so while the process
// lives, however it ends. A socket file that nobody listens at is replaced; one that answers, or a
// file that is no socket, is refused. The files go with the listener.
#pragma once
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/unique_fd.h"
#include "server/net/address.h"

namespace uopd::net {

// Who may connect to a Unix socket.
struct SocketFile {
  std::string mode;   // octal; empty: 0600, with a group 0660
  std::string group;  // name or number; empty: that of the process
};

class Listener {
 public:
  // Listening when it returns, with sockets that do not block. INVALID_ARGUMENT for a mode or group
  // that makes no sense, UNAVAILABLE for an address that cannot be bound or is served by another
  // process.
  static absl::StatusOr<std::unique_ptr<Listener>> Listen(const Address& address,
                                                          const SocketFile& file = {});
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // With the port that was bound.
  const Address& address() const { return address_; }
  // One per address that the host's name has.
  const std::vector<UniqueFd>& sockets() const { return sockets_; }

 private:
  explicit Listener(Address address) : address_(std::move(address)) {}
  absl::Status ListenTcp();
  absl::Status ListenUnix(const SocketFile& file);
  absl::Status TakeLock();
  absl::Status RemoveStale() const;

  Address address_;
  std::vector<UniqueFd> sockets_;
  UniqueFd lock_;  // of a Unix socket with a file
  dev_t device_ = 0;
  ino_t inode_ = 0;  // of the socket file; 0: there is none
};

}  // namespace uopd::net
