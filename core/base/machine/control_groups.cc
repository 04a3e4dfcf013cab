// SPDX-License-Identifier: MIT
#include "core/base/machine/control_groups.h"

#include <unistd.h>
#include <algorithm>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/machine/small_file.h"
#include "core/base/text.h"

namespace uopd {

namespace {

namespace fs = std::filesystem;

// Folders that a search for this process may look into, and the part of a list of processes that it
// reads.
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

// Looks for this process in the folders `depth` levels below `at`, and there at the end of the path
// `then`.
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

namespace {

constexpr size_t kMaxMountinfo = 4 << 20;
// v1 says "no limit" by the largest number of whole pages; no machine has a quarter of that.
constexpr int64_t kUnlimited = int64_t{1} << 61;
constexpr int64_t kUsualPeriod = 100'000;  // microseconds

std::optional<int64_t> NumberOf(absl::string_view text) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(text), &value)) return std::nullopt;
  return value;
}

// "max", "-1" and what is no number are no value.
std::optional<int64_t> NumberIn(const std::string& path) {
  const std::optional<std::string> text = ReadSmallFile(path, 256);
  return text ? NumberOf(*text) : std::nullopt;
}

std::optional<int64_t> BytesIn(const std::string& path) {
  std::optional<int64_t> out = NumberIn(path);
  if (out && (*out < 0 || *out >= kUnlimited)) out = std::nullopt;
  return out;
}

// The value of a line "KEY VALUE" of memory.stat.
int64_t StatOf(const std::string& stat, std::string_view key) {
  for (absl::string_view line : absl::StrSplit(stat, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ');
    if (fields.size() == 2 && fields[0] == ViewOf(key)) return NumberOf(fields[1]).value_or(0);
  }
  return 0;
}

std::optional<int64_t> Smaller(std::optional<int64_t> a, std::optional<int64_t> b) {
  return a && b ? std::min(*a, *b) : a ? a : b;
}

std::optional<int64_t> LimitOf(const std::string& folder, bool unified) {
  if (unified) return Smaller(BytesIn(folder + "/memory.max"), BytesIn(folder + "/memory.high"));
  return BytesIn(folder + "/memory.limit_in_bytes");
}

// What the group uses and the kernel could not have back by forgetting pages of files.
std::optional<int64_t> UsedOf(const std::string& folder, bool unified) {
  const std::optional<int64_t> used =
      BytesIn(folder + (unified ? "/memory.current" : "/memory.usage_in_bytes"));
  if (!used) return std::nullopt;
  const std::string stat = ReadSmallFile(folder + "/memory.stat").value_or("");
  const std::string prefix = unified ? "" : "total_";
  return std::max<int64_t>(
      0, *used - StatOf(stat, prefix + "inactive_file") - StatOf(stat, prefix + "active_file"));
}

std::optional<double> QuotaOf(const std::string& folder, bool unified) {
  std::optional<int64_t> quota, period;
  if (unified) {
    const std::string text = ReadSmallFile(folder + "/cpu.max", 256).value_or("");
    const std::vector<absl::string_view> fields =
        absl::StrSplit(absl::StripAsciiWhitespace(text), ' ');
    quota = NumberOf(fields[0]);
    if (fields.size() > 1) period = NumberOf(fields[1]);
  } else {
    quota = NumberIn(folder + "/cpu.cfs_quota_us");
    period = NumberIn(folder + "/cpu.cfs_period_us");
  }
  if (!quota || *quota <= 0) return std::nullopt;
  return static_cast<double>(*quota) /
         static_cast<double>(period && *period > 0 ? *period : kUsualPeriod);
}

}  // namespace

ControlGroups ControlGroups::Find(const std::string& root) {
  ControlGroups out;
  const std::vector<GroupMount> mounts =
      ReadGroupMounts(ReadSmallFile(root + "/proc/self/mountinfo", kMaxMountinfo).value_or(""));
  const std::vector<GroupPath> paths =
      ReadGroupPaths(ReadSmallFile(root + "/proc/self/cgroup").value_or(""));
  // The groups of one hierarchy, from the process up, by the mount that shows most of them.
  const auto groups = [&](std::string_view controller, bool unified) {
    std::vector<Group> best;
    for (const GroupPath& path : paths) {
      if (unified ? !path.controllers.empty() : !HasWord(path.controllers, controller)) continue;
      for (const GroupMount& mount : mounts) {
        if (mount.unified != unified) continue;
        if (!unified && !HasWord(mount.options, controller)) continue;
        const std::optional<GroupFolder> found = FindGroupFolder(root, mount, path.path);
        if (!found || found->below.size() + 1 <= best.size()) continue;
        std::vector<Group> all = {{found->top, found->top_name, unified}};
        for (const std::string& name : found->below) {
          const std::string& above = all.back().name;
          all.push_back(
              {all.back().folder + "/" + name, Cat(above == "/" ? "" : above, "/", name), unified});
        }
        best = std::move(all);
      }
    }
    std::ranges::reverse(best);
    return best;
  };
  const std::vector<Group> unified = groups("", true);
  for (auto [list, controller] : {std::pair(&out.memory_, "memory"), {&out.cpu_, "cpu"}}) {
    *list = groups(controller, false);
    list->insert(list->end(), unified.begin(), unified.end());
  }
  // Of v1 the kernel says what all groups above allow together.
  if (!out.memory_.empty() && !out.memory_.front().unified) {
    const Group& own = out.memory_.front();
    const std::string stat = ReadSmallFile(own.folder + "/memory.stat").value_or("");
    const int64_t all = StatOf(stat, "hierarchical_memory_limit");
    const std::optional<Memory> seen = out.MemoryLimit();
    if (all > 0 && all < kUnlimited && (!seen || all < seen->bytes)) out.hidden_ = {all, own.name};
  }
  return out;
}

std::optional<ControlGroups::Memory> ControlGroups::MemoryLimit() const {
  std::optional<Memory> out = hidden_;
  for (const Group& group : memory_) {
    const std::optional<int64_t> limit = LimitOf(group.folder, group.unified);
    if (limit && (!out || *limit < out->bytes)) out = Memory{*limit, group.name};
  }
  return out;
}

std::optional<ControlGroups::Memory> ControlGroups::MemoryRoom() const {
  std::optional<Memory> out;
  if (hidden_) {  // what the hidden group uses is hidden as well
    const Group& own = memory_.front();
    const int64_t used = UsedOf(own.folder, own.unified).value_or(0);
    out = Memory{std::max<int64_t>(0, hidden_->bytes - used), hidden_->group};
  }
  for (const Group& group : memory_) {
    const std::optional<int64_t> limit = LimitOf(group.folder, group.unified);
    if (!limit) continue;
    const int64_t used = UsedOf(group.folder, group.unified).value_or(0);
    const int64_t room = std::max<int64_t>(0, *limit - used);
    if (!out || room < out->bytes) out = Memory{room, group.name};
  }
  return out;
}

std::optional<ControlGroups::Processors> ControlGroups::ProcessorQuota() const {
  std::optional<Processors> out;
  for (const Group& group : cpu_) {
    const std::optional<double> quota = QuotaOf(group.folder, group.unified);
    if (quota && (!out || *quota < out->count)) out = Processors{*quota, group.name};
  }
  return out;
}

bool ControlGroups::KillsTogether() const {
  return std::ranges::any_of(memory_, [](const Group& group) {
    return group.unified && NumberIn(group.folder + "/memory.oom.group") == 1;
  });
}

std::vector<std::string> ControlGroups::names() const {
  std::vector<std::string> out;
  for (const Group& group : memory_) out.push_back(group.name);
  return out;
}

}  // namespace uopd
