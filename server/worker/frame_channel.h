// SPDX-License-Identifier: MIT
// Frames of bytes between the daemon and a worker. A FrameChannel is one end of a stream socket.
//
// A frame is a header and its payload. A payload above kInlineBytes is in a memfd, whose descriptor
// is sent with the header. So the payload is copied once and never fills the socket. The caller
// encodes the payload (core/base/bytes.h). The other end may be hostile or dying: sizes are
// bounded, every wait ends, and nothing is mapped.
//
// Owns its socket. One thread at a time. After an error the stream is out of step and the channel
// cannot be used any more. Exception: CANCELLED or DEADLINE_EXCEEDED before the first byte.
#pragma once
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/base/unique_fd.h"
#include "core/base/work_limits.h"

namespace uopd::worker {

// Check of a caller that waits for a worker: its errors say so.
absl::Status CheckWait(const WorkLimits& limits);

class FrameChannel {
 public:
  static constexpr size_t kInlineBytes = 64 << 10;
  static constexpr size_t kMaxBytes = size_t{4} << 30;

  FrameChannel() = default;
  explicit FrameChannel(UniqueFd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  // Sets the process whose death (pidfd readable) ends waits, as the end of the stream does; -1:
  // none.
  void WatchProcess(int pidfd) { pidfd_ = pidfd; }

  // UNAVAILABLE: the other end is gone. RESOURCE_EXHAUSTED: no memory for the payload.
  absl::Status Send(std::string_view payload, const WorkLimits& limits);
  // UNAVAILABLE: the other end is gone. DATA_LOSS: the received bytes are not a frame.
  absl::StatusOr<std::string> Receive(const WorkLimits& limits, size_t max_bytes = kMaxBytes);

 private:
  // Waits for `events` on the socket.
  absl::Status Wait(short events, const WorkLimits& limits) const;
  absl::Status SendAll(std::string_view data, int fd, const WorkLimits& limits);
  absl::Status ReceiveAll(char* data, size_t size, UniqueFd* fd, const WorkLimits& limits);

  UniqueFd socket_;
  int pidfd_ = -1;
};

}  // namespace uopd::worker
