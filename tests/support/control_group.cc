// SPDX-License-Identifier: MIT
#include "tests/support/control_group.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>

#include "absl/strings/str_join.h"
#include "core/base/machine/control_groups.h"
#include "core/base/machine/small_file.h"
#include "core/base/text.h"
#include "core/base/unique_fd.h"

namespace uopd::test {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPeriodUs = 100'000;

absl::Status Put(const std::string& path, const std::string& text) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return absl::UnavailableError(Cat(path, " cannot be written: ", std::strerror(errno)));
  return absl::OkStatus();
}

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  if (fs::create_directory(path, error)) return absl::OkStatus();
  return absl::UnavailableError(Cat("no control group ", path, ": ", error.message()));
}

// The group of this process that has the controller.
std::optional<ControlGroup::Place> OwnGroup(const char* controller) {
  const auto mounts = ReadGroupMounts(ReadSmallFile("/proc/self/mountinfo", 4 << 20).value_or(""));
  for (const GroupPath& path : ReadGroupPaths(ReadSmallFile("/proc/self/cgroup").value_or(""))) {
    for (const GroupMount& mount : mounts) {
      if (mount.unified != path.controllers.empty()) continue;
      if (!mount.unified &&
          (!HasWord(mount.options, controller) || !HasWord(path.controllers, controller))) {
        continue;
      }
      const auto found = FindGroupFolder("", mount, path.path);
      if (!found) continue;
      ControlGroup::Place own{found->top, found->top_name == "/" ? "" : found->top_name,
                              mount.unified};
      for (const std::string& name : found->below) own.folder += "/" + name, own.name += "/" + name;
      const std::string has =
          Cat(" ", ReadSmallFile(own.folder + "/cgroup.controllers").value_or(""), " ");
      if (mount.unified && has.find(Cat(" ", controller)) == std::string::npos) continue;
      return own;
    }
  }
  return std::nullopt;
}

int64_t ValueIn(const std::string& path, const std::string& key) {
  const std::string text = "\n" + ReadSmallFile(path).value_or("");
  const size_t at = key.empty() ? 0 : text.find("\n" + key + " ");
  if (at == std::string::npos || text.size() < 2) return -1;
  return std::atoll(text.c_str() + at + 1 + key.size());
}

}  // namespace

absl::StatusOr<std::unique_ptr<ControlGroup>> ControlGroup::Make(
    const ControlGroupOptions& options) {
  std::unique_ptr<ControlGroup> out(new ControlGroup);
  std::vector<const char*> wanted;
  if (options.memory_bytes > 0) wanted.push_back("memory");
  if (options.processors > 0) wanted.push_back("cpu");
  // A hierarchy of v1 has controllers of its own. That of v2 has all of them, and a process is in
  // one group of it.
  std::map<std::string, std::vector<const char*>> by_folder;
  std::map<std::string, Place> owns;
  for (const char* controller : wanted) {
    const std::optional<Place> own = OwnGroup(controller);
    if (!own) return absl::UnavailableError(Cat("this process has no group of ", controller));
    by_folder[own->folder].push_back(controller);
    owns.emplace(own->folder, *own);
  }
  for (const auto& [folder, controllers] : by_folder)
    UOPD_TRY(out->Add(owns.at(folder), controllers, options));
  return out;
}

absl::Status ControlGroup::Add(const Place& own, const std::vector<const char*>& controllers,
                               const ControlGroupOptions& options) {
  static std::atomic<int> count{0};
  const std::string leaf = Cat("uopd-test-", getpid(), "-", count++);
  const std::string limited = own.folder + "/" + leaf, inner = limited + "/inner";
  const auto make = [&](const std::string& parent, const std::string& folder) -> absl::Status {
    // Of v2, a group with processes may not give its controllers to groups below, unless it is the
    // top.
    for (const char* controller : controllers) {
      if (own.unified) UOPD_TRY(Put(parent + "/cgroup.subtree_control", Cat("+", controller)));
    }
    UOPD_TRY(MakeFolder(folder));
    made_.push_back(folder);
    return absl::OkStatus();
  };
  const auto limit = [&](const std::string& folder, std::string_view controller, int64_t times) {
    if (controller == "memory") {
      return Put(folder + (own.unified ? "/memory.max" : "/memory.limit_in_bytes"),
                 Cat(times * options.memory_bytes));
    }
    const auto quota = static_cast<int64_t>(options.processors * kPeriodUs) * times;
    return own.unified ? Put(folder + "/cpu.max", Cat(quota, " ", kPeriodUs))
                       : Put(folder + "/cpu.cfs_quota_us", Cat(quota));
  };
  UOPD_TRY(make(own.folder, limited));
  if (options.nested) UOPD_TRY(make(limited, inner));
  enter_.push_back(options.nested ? inner : limited);
  for (const std::string_view controller : controllers) {
    UOPD_TRY(limit(limited, controller, 1));
    if (controller != "memory") continue;  // v1 refuses a quota above the parent's
    if (options.nested) UOPD_TRY(limit(inner, controller, 2));
    memory_ = limited, name_ = own.name + "/" + leaf, unified_ = own.unified;
  }
  return absl::OkStatus();
}

ControlGroup::~ControlGroup() {
  std::ranges::reverse(made_);
  for (const std::string& folder : made_) {
    for (int i = 0; i < 500 && rmdir(folder.c_str()) != 0 && errno == EBUSY; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

absl::Status ControlGroup::SetMemory(int64_t bytes) const {
  return Put(memory_ + (unified_ ? "/memory.max" : "/memory.limit_in_bytes"), Cat(bytes));
}

int64_t ControlGroup::PeakBytes() const {
  return ValueIn(memory_ + (unified_ ? "/memory.peak" : "/memory.max_usage_in_bytes"), "");
}

int64_t ControlGroup::KilledCount() const {
  int64_t sum = 0;
  for (const std::string& folder : made_) {
    if (folder.starts_with(memory_))
      sum += std::max<int64_t>(
          0, ValueIn(folder + (unified_ ? "/memory.events" : "/memory.oom_control"), "oom_kill"));
  }
  return sum;
}

}  // namespace uopd::test
