// SPDX-License-Identifier: MIT
// Ends the daemon with the process that it belongs to (setting server.owner_fd).
//
// The owner gives the daemon a descriptor that can be read once the owner has ended: a pidfd of the
// owner, or the end of a pipe whose other end only the owner holds. A pidfd is of the whole
// process: no thread of it and no child of it matters. Then the daemon gets SIGTERM, and stops in
// order.
#pragma once
#include <memory>
#include <thread>

#include "core/base/status.h"
#include "core/base/unique_fd.h"

namespace uopd {

class OwnerWatch {
 public:
  // Takes the descriptor over. INVALID_ARGUMENT: it is not open.
  // REQUIRES: SIGTERM is blocked in the calling thread, so that a thread that waits for it gets it.
  static absl::StatusOr<std::unique_ptr<OwnerWatch>> Start(int fd);
  ~OwnerWatch();  // no signal comes any more
  OwnerWatch(const OwnerWatch&) = delete;
  OwnerWatch& operator=(const OwnerWatch&) = delete;

 private:
  OwnerWatch(UniqueFd owner, UniqueFd stop);
  void Watch() const;

  const UniqueFd owner_, stop_;
  std::thread thread_;
};

}  // namespace uopd
