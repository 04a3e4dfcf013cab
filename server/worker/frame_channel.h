// SPDX-License-Identifier: MIT
// Frames of bytes between the daemon and a worker: one end of a stream socket.
//
// A frame is a header and its payload; a payload above kInlineBytes travels in a memfd whose
// descriptor comes with the header, so that it is copied once and never fills the socket. The
// payload's encoding is the caller's (core/base/bytes.h). The other end may be hostile or dying:
// sizes are bounded, every wait has an end, nothing is mapped.
//
// Owns its socket. One thread at a time. After an error other than CANCELLED or DEADLINE_EXCEEDED
// before the first byte, the stream is out of step and the channel is useless.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/base/unique_fd.h"

namespace uopd::worker {

// How long to wait. `cancelled` is asked every kCancelPoll while waiting; null: never cancelled.
struct Patience {
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kCancelPoll{10};

  Clock::time_point deadline = Clock::time_point::max();
  const std::function<bool()>* cancelled = nullptr;

  // CANCELLED or DEADLINE_EXCEEDED when it has run out.
  absl::Status Check() const;
  // For poll(2): milliseconds until there is something to check again; -1: never.
  int PollTimeoutMs() const;
};

class FrameChannel {
 public:
  static constexpr size_t kInlineBytes = 64 << 10;
  static constexpr size_t kMaxBytes = size_t{4} << 30;

  FrameChannel() = default;
  explicit FrameChannel(UniqueFd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  // A process whose death (pidfd readable) ends waits as the end of the stream does; -1: none.
  void WatchProcess(int pidfd) { pidfd_ = pidfd; }

  // UNAVAILABLE: the other end is gone. RESOURCE_EXHAUSTED: no memory for the payload.
  absl::Status Send(std::string_view payload, const Patience& patience);
  // UNAVAILABLE: the other end is gone. DATA_LOSS: what came is no frame.
  absl::StatusOr<std::string> Receive(const Patience& patience, size_t max_bytes = kMaxBytes);

 private:
  // Waits for `events` on the socket.
  absl::Status Wait(short events, const Patience& patience) const;
  absl::Status SendAll(std::string_view data, int fd, const Patience& patience);
  absl::Status ReceiveAll(char* data, size_t size, UniqueFd* fd, const Patience& patience);

  UniqueFd socket_;
  int pidfd_ = -1;
};

}  // namespace uopd::worker
