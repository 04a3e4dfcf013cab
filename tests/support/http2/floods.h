// SPDX-License-Identifier: MIT
// Floods of HTTP/2 frames: each is a way to let a server work or keep memory for little of the
// sender's own work.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace uopd::test::http2 {

// What one connection of a flood sends next.
struct Sender {
  uint32_t stream = 1;  // the next one of the client
  uint64_t parts = 0;   // sent so far
};

struct Flood {
  const char* name;
  // The next bytes, some 16 KiB. Empty: the connection has said all, and stays open.
  std::function<std::string(Sender&)> next;
  bool acknowledges = true;  // the settings of the server
  bool reads = true;         // what the server answers
};

const std::vector<Flood>& Floods();

struct FloodResult {
  uint64_t bytes = 0, connections = 0, refused = 0;  // refused: connections that the server closed
};

// Sends the flood from `connections` connections at one time, from the address `from`, until done()
// holds. A connection that the server closes is opened again.
FloodResult Send(const Flood& flood, const std::string& host_port, const std::string& from,
                 int connections, const std::function<bool()>& done);

}  // namespace uopd::test::http2
