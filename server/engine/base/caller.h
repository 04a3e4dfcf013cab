// SPDX-License-Identifier: MIT
// Who asks for work: what shares of the daemon are counted by.
#pragma once
#include <string>

namespace uopd::engine {

struct Caller {
  // The address of the client without its port; "unix" for every Unix socket. Empty: the daemon.
  std::string peer;
  // The session that the work is for, or the connection where there is none.
  std::string flow;
};

}  // namespace uopd::engine
