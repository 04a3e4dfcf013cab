// SPDX-License-Identifier: MIT
// ControlGroup: a real control group below that of the test, with limits, for a daemon to run in.
// Of v1 or v2, as the machine has it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace uopd::test {

struct ControlGroupOptions {
  int64_t memory_bytes = 0;  // 0: no limit
  double processors = 0;     // quota; 0: none
  bool nested = false;       // the limits are those of the parent; the group has larger ones
};

class ControlGroup {
 public:
  // UNAVAILABLE, with the reason, where this user cannot make groups. Such a test skips.
  static absl::StatusOr<std::unique_ptr<ControlGroup>> Make(const ControlGroupOptions& options);
  // REQUIRES: the processes have ended, or do so soon.
  ~ControlGroup();
  ControlGroup(const ControlGroup&) = delete;
  ControlGroup& operator=(const ControlGroup&) = delete;

  // The group of this process in one hierarchy.
  struct Place {
    std::string folder, name;
    bool unified = false;
  };

  // What a process that writes "0" into the file cgroup.procs of each of these is in.
  const std::vector<std::string>& folders() const { return enter_; }
  // The path of the limited group of memory as the daemon shows it.
  const std::string& name() const { return name_; }
  bool unified() const { return unified_; }
  absl::Status SetMemory(int64_t bytes) const;
  int64_t PeakBytes() const;    // -1: the kernel does not say
  int64_t KilledCount() const;  // processes that the kernel killed because memory ran out

 private:
  ControlGroup() = default;
  absl::Status Add(const Place& own, const std::vector<const char*>& controllers,
                   const ControlGroupOptions& options);

  std::vector<std::string> made_;  // parents first
  std::vector<std::string> enter_;
  std::string memory_, name_;  // the limited group of memory
  bool unified_ = false;
};

}  // namespace uopd::test
