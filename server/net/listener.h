// SPDX-License-Identifier: MIT
// The sockets that a server listens at.
//
// A Unix socket belongs to one process. A lock file beside it (PATH.lock) is locked while that
// process lives; the lock ends with the process in every case. A socket file at which nobody
// listens is replaced. A socket file that answers, or a file that is not a socket, is refused. The
// listener removes both files when it is destroyed.
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
  std::string mode;   // octal; empty: 0600, or 0660 if there is a group
  std::string group;  // name or number; empty: the group of the process
};

// INVALID_ARGUMENT: it has an invalid mode or group.
absl::Status Check(const SocketFile& file);

class Listener {
 public:
  // Returns a listener that listens already. Its sockets do not block. INVALID_ARGUMENT: an invalid
  // mode or group. UNAVAILABLE: the address cannot be bound, or another process serves it.
  static absl::StatusOr<std::unique_ptr<Listener>> Listen(const Address& address,
                                                          const SocketFile& file = {});
  // The same in two steps: a listener that has its address, at which nobody can connect before
  // Open. Errors as above; Open: UNAVAILABLE, another process was quicker.
  static absl::StatusOr<std::unique_ptr<Listener>> Bind(const Address& address,
                                                        const SocketFile& file = {});
  absl::Status Open();
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // The address with the port that was bound.
  const Address& address() const { return address_; }
  // One socket for each address of the host's name.
  const std::vector<UniqueFd>& sockets() const { return sockets_; }

 private:
  explicit Listener(Address address) : address_(std::move(address)) {}
  absl::Status BindTcp();
  absl::Status BindUnix(const SocketFile& file);
  absl::Status TakeLock();
  absl::Status RemoveStale() const;

  Address address_;
  std::vector<UniqueFd> sockets_;
  UniqueFd lock_;  // of a Unix socket with a file
  dev_t device_ = 0;
  ino_t inode_ = 0;  // of the socket file; 0: there is no file
};

}  // namespace uopd::net
