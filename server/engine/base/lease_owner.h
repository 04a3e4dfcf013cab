// SPDX-License-Identifier: MIT
// The name under which this process takes leases: for people who read it, and for other daemons
// that want to know whether the owner is on their machine.
#pragma once

#include <string>
#include <string_view>

namespace uopd::engine {

// "HOST pid 123 boot 1f2e3d4c". The last part names the running kernel, which all containers of a
// machine share.
std::string LeaseOwner();

// Whether both owners are on one machine. True if it cannot be told.
bool OnOneMachine(std::string_view owner, std::string_view other);

}  // namespace uopd::engine
