// SPDX-License-Identifier: MIT
// The control groups of this process, and what they allow it: cgroup v1, v2, and both side by side.
//
// /proc/self/cgroup says the path of the process in each hierarchy, /proc/self/mountinfo where
// hierarchies are mounted and which part of one is seen there. A limit holds for everything below a
// group, so all groups up to the top of the mount count, and the smallest limit wins. Where a
// namespace hides names between the top of the mount and the process (paths such as "/../.."), the
// folder is the one whose list of processes has this process.
//
// Reads files and nothing else, needs no privilege, and never fails: what cannot be read or
// understood is no limit.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace uopd {

// A line of /proc/self/mountinfo about control groups. It says where folders of groups lie.
struct GroupMount {
  // The part of the hierarchy that is seen there; "/../.." is above this namespace's own.
  std::string root;
  std::string point;  // the folder
  bool unified = false;
  std::string options;  // of v1: the controllers, with commas between them
};
std::vector<GroupMount> ReadGroupMounts(std::string_view mountinfo);

// A line of /proc/self/cgroup.
struct GroupPath {
  std::string controllers;  // with commas between them; empty: v2
  std::string path;
};
std::vector<GroupPath> ReadGroupPaths(std::string_view cgroup);

// Whether `list`, with commas between its words, has this word.
bool HasWord(std::string_view list, std::string_view word);

// A group below a mount: the folder of the mount, and what follows it.
struct GroupFolder {
  std::string top;                 // folder of the mount
  std::string top_name;            // path of the group that lies there
  std::vector<std::string> below;  // from the top down to the group of the process
};
// nullopt: the group is not below the mount. `file_root` is put before the folder of the mount.
std::optional<GroupFolder> FindGroupFolder(const std::string& file_root, const GroupMount& mount,
                                           std::string_view path);

class ControlGroups {
 public:
  // The groups that the process is in now. All files are looked for below the folder `root`, for
  // tests.
  static ControlGroups Find(const std::string& root = "");

  struct Memory {
    int64_t bytes = 0;
    std::string group;  // path of the group, such as "/system.slice/uopd.service"
  };
  // The smallest of memory.max and memory.high (v2) and memory.limit_in_bytes (v1). A group above
  // memory.high is not killed, but its processes hardly go on. nullopt: no group limits the memory.
  std::optional<Memory> MemoryLimit() const;
  // The memory that the group with the least room can still take: its limit less its use. Pages of
  // files that the kernel can drop do not count as use.
  std::optional<Memory> MemoryRoom() const;

  struct Processors {
    double count = 0;  // processor time in the time that passes, such as 1.5
    std::string group;
  };
  // The smallest of cpu.max (v2) and cpu.cfs_quota_us (v1).
  std::optional<Processors> ProcessorQuota() const;

  // Whether the kernel kills all processes of a group at once when its memory runs out
  // (memory.oom.group, v2).
  bool KillsTogether() const;

  // Group paths in the order in which they are looked at, from the process up. For tests.
  std::vector<std::string> names() const;

 private:
  struct Group {
    std::string folder, name;
    bool unified = false;  // v2
  };
  std::vector<Group> memory_, cpu_;
  // The limit of a group of v1 that a namespace or a mount hides, when Find was called.
  std::optional<Memory> hidden_;
};

}  // namespace uopd
