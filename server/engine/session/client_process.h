// SPDX-License-Identifier: MIT
// The process of a client that runs on the same machine: its sessions end with it.
#pragma once
#include "core/base/process_name.h"
#include "core/base/unique_fd.h"

namespace uopd::engine {

class ClientProcess {
 public:
  // Of which nothing is known.
  ClientProcess() = default;
  // The process of this name, if it is certain which one that is: it runs in the PID namespace of
  // the daemon, and began when the name says. Otherwise nothing is known of it.
  explicit ClientProcess(const ProcessName& name);

  bool known() const { return static_cast<bool>(pidfd_); }
  // True once the process has ended, with all of its threads, whether or not its parent has waited
  // for it.
  bool Ended() const;

 private:
  UniqueFd pidfd_;
};

}  // namespace uopd::engine
