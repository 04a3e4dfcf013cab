// SPDX-License-Identifier: MIT
// Who asks for work. The daemon shares its capacity among peers and flows by these names.
#pragma once
#include <string>

namespace uopd::engine {

struct Caller {
  // The address of the client without its port; "unix" for every Unix socket. Empty: the daemon
  // itself.
  std::string peer;
  // The session that the work is for; if there is no session, the connection.
  std::string flow;
  // The tenant that the call belongs to (session/tenants.h). Empty if the daemon has no tenants.
  std::string tenant;
  // The caller is an operator, and the call shows operators what belongs to all tenants.
  bool sees_all = false;
};

}  // namespace uopd::engine
