// SPDX-License-Identifier: MIT
#include "core/base/machine/group_folder.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/machine/small_file.h"
#include "core/base/text.h"

namespace uopd {
namespace {

namespace fs = std::filesystem;

// Folders that a search for this process may look into, and the part of a list of processes that it reads.
constexpr int kMaxFolders = 4096;
constexpr size_t kMaxProcesses = 1 << 20;

std::string AsString(absl::string_view text) { return {text.data(), text.size()}; }

std::vector<absl::string_view> LinesOf(std::string_view text) {
  return absl::StrSplit(ViewOf(text), '\n', absl::SkipEmpty());
}

// mountinfo writes blanks, tabs, ends of lines and backslashes as three octal digits.
std::string Unescaped(absl::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '7' ? text[at] - '0' : -1;
    };
    if (text[i] == '\\' && digit(i + 1) >= 0 && digit(i + 2) >= 0 && digit(i + 3) >= 0) {
      out.push_back(static_cast<char>(digit(i + 1) * 64 + digit(i + 2) * 8 + digit(i + 3)));
      i += 3;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

// A path as the number of steps up and the names that follow: "/../../a" is 2 and {a}.
struct Steps {
  size_t up = 0;
  std::vector<std::string> names;
};

Steps StepsOf(std::string_view path) {
  Steps out;
  for (absl::string_view part : absl::StrSplit(ViewOf(path), '/', absl::SkipEmpty())) {
    if (part != ".." || !out.names.empty()) {
      out.names.push_back(AsString(part));
    } else {
      ++out.up;
    }
  }
  return out;
}

bool HasThisProcess(const std::string& folder) {
  const std::string pid = Cat(getpid());
  const std::string list =
      ReadSmallFile(folder + "/cgroup.procs", kMaxProcesses).value_or(std::string());
  return std::ranges::any_of(LinesOf(list), [&](absl::string_view line) { return line == pid; });
}

// Looks for this process in the folders `depth` levels below `at`, and there at the end of the path `then`.
bool Search(const std::string& at, size_t depth, const std::vector<std::string>& then, int& left,
            std::vector<std::string>& below) {
  if (--left < 0) return false;
  if (depth == 0) {
    const std::string rest = absl::StrJoin(then, "/");
    if (!HasThisProcess(rest.empty() ? at : at + "/" + rest)) return false;
    below.insert(below.end(), then.begin(), then.end());
    return true;
  }
  std::error_code error;
  for (fs::directory_iterator it(at, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (!it->is_directory(ignored) || it->is_symlink(ignored)) continue;
    below.push_back(it->path().filename().string());
    if (Search(it->path().string(), depth - 1, then, left, below)) return true;
    below.pop_back();
  }
  return false;
}

}  // namespace

bool HasWord(std::string_view list, std::string_view word) {
  for (absl::string_view one : absl::StrSplit(ViewOf(list), ',')) {
    if (one == ViewOf(word)) return true;
  }
  return false;
}

std::vector<GroupMount> ReadGroupMounts(std::string_view mountinfo) {
  std::vector<GroupMount> out;
  for (absl::string_view line : LinesOf(mountinfo)) {
    // 35 31 0:32 ROOT POINT OPTIONS [OPTIONAL]... - TYPE SOURCE OPTIONS
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ');
    if (fields.size() < 10) continue;
    const auto dash = std::find(fields.begin() + 6, fields.end(), "-");
    if (fields.end() - dash < 4) continue;
    const absl::string_view type = dash[1];
    if (type != "cgroup" && type != "cgroup2") continue;
    out.push_back({Unescaped(fields[3]), Unescaped(fields[4]), type == "cgroup2",
                   AsString(type == "cgroup2" ? "" : dash[3])});
  }
  return out;
}

std::vector<GroupPath> ReadGroupPaths(std::string_view cgroup) {
  std::vector<GroupPath> out;
  for (absl::string_view line : LinesOf(cgroup)) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    int id = 0;
    if (fields.size() != 3 || !absl::SimpleAtoi(fields[0], &id)) continue;
    out.push_back({AsString(fields[1]), AsString(fields[2])});
  }
  return out;
}

std::optional<GroupFolder> FindGroupFolder(const std::string& file_root, const GroupMount& mount,
                                           std::string_view path) {
  const Steps top = StepsOf(mount.root), group = StepsOf(path);
  GroupFolder out{file_root + mount.point, "/" + absl::StrJoin(top.names, "/"), {}};
  if (top.up == group.up) {
    const size_t common = top.names.size();
    if (common > group.names.size() ||
        !std::equal(top.names.begin(), top.names.end(), group.names.begin())) {
      return std::nullopt;
    }
    out.below.assign(group.names.begin() + static_cast<ptrdiff_t>(common), group.names.end());
    std::error_code error;
    const std::string below = absl::StrJoin(out.below, "/");
    if (!fs::is_directory(out.top + "/" + below, error)) return std::nullopt;
    return out;
  }
  // The mount begins above the namespace, whose names between the two are hidden.
  if (top.up < group.up || !top.names.empty()) return std::nullopt;
  int left = kMaxFolders;
  if (!Search(out.top, top.up - group.up, group.names, left, out.below)) return std::nullopt;
  return out;
}

}  // namespace uopd
