// SPDX-License-Identifier: MIT
// A client that begins many calls, each with a message that it never completes. It sends as much of
// every message as flow control allows: a server keeps all of that.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "core/base/unique_fd.h"

namespace uopd::test::http2 {

class HalfMessages {
 public:
  // From the address `from`; `calls` messages of `message_bytes`, of which 100 bytes are never
  // sent.
  HalfMessages(const std::string& host_port, const std::string& from, int calls,
               uint32_t message_bytes);
  bool open() const { return static_cast<bool>(fd_); }
  uint64_t sent() const { return sent_; }  // bytes of messages
  // Reads what the server said and sends what it allows, without waiting.
  void Go();

 private:
  struct Stream {
    int64_t window = 0;
    uint32_t left = 0;  // bytes to send
    bool begun = false;
  };

  bool Read();
  void Hear(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload);
  void Begin();
  void Send();

  UniqueFd fd_;
  const int calls_;
  const uint32_t message_bytes_;
  std::string heard_, waiting_;
  std::map<uint32_t, Stream> streams_;
  int64_t window_ = 65'535, first_window_ = 65'535;
  uint64_t sent_ = 0;
};

}  // namespace uopd::test::http2
