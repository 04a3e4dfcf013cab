// SPDX-License-Identifier: MIT
// Where the folders of a process's control group lie, from the texts of /proc/self/cgroup and /proc/self/mountinfo.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace uopd {

// A line of /proc/self/mountinfo about control groups.
struct GroupMount {
  std::string
      root;  // the part of the hierarchy that is seen there; "/../.." is above this namespace's own
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

}  // namespace uopd
