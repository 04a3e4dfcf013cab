// SPDX-License-Identifier: MIT
// Memory that a client of the same machine shares with the daemon: a file without a name
// (memfd_create), whose descriptor the client gets over the side socket (server/rpc/side_socket.h).
// Data of uploads and downloads go through it, in place of messages.
//
// The daemon makes the file and seals its size, so nobody can shrink it or let it grow. The daemon
// never maps it. It copies with pread and pwrite: a client that changes the contents meanwhile
// changes its own data, and nothing that a client does with its descriptor makes a copy wait or
// crash. When the area is destroyed its memory is freed, even if the client keeps the descriptor.
//
// Thread-safe.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "core/base/status.h"
#include "core/base/unique_fd.h"
#include "server/engine/session/quota.h"

namespace uopd::engine {

class SharedArea {
 public:
  // Large enough to copy on both sides at the same time, small enough to stay in the caches.
  static constexpr uint64_t kBytes = 8 << 20;

  // Charges kBytes to `quota`. RESOURCE_EXHAUSTED: the quota is used up. UNAVAILABLE: the system
  // gives no such file.
  static absl::StatusOr<std::shared_ptr<SharedArea>> Create(uint64_t number,
                                                            std::shared_ptr<Quota> quota);
  ~SharedArea();
  SharedArea(const SharedArea&) = delete;
  SharedArea& operator=(const SharedArea&) = delete;

  uint64_t number() const { return number_; }
  // To be sent to the client.
  int descriptor() const { return file_.get(); }

  // INVALID_ARGUMENT: bytes outside of the area.
  absl::Status CheckRange(uint64_t offset, uint64_t bytes) const;
  // REQUIRES: the range is in the area. INTERNAL: the system does not copy.
  absl::Status Read(uint64_t offset, std::span<std::byte> out) const;
  absl::Status Write(uint64_t offset, std::span<const std::byte> data);

 private:
  SharedArea(uint64_t number, UniqueFd file, std::shared_ptr<Quota> quota, Charge charge);

  const uint64_t number_;
  const UniqueFd file_;
  const std::shared_ptr<Quota> quota_;
  const Charge charge_;
};

}  // namespace uopd::engine
