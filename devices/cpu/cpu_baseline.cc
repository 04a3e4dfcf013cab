// SPDX-License-Identifier: MIT
#include "devices/cpu/cpu_baseline.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>
#include <llvm/TargetParser/X86TargetParser.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/machine/small_file.h"

namespace uopd::devices::cpu {
namespace {

constexpr const char* kLevels[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};

// AMX registers need the permission of the operating system, once per process. Without it their
// first use kills the process.
bool MayUseAmx() {
#if defined(__x86_64__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

// By feature of the baseline: the item that brought it in.
using Wanted = std::map<std::string, std::string, std::less<>>;

// The feature with all that it needs, or with all that need it.
std::vector<std::string> Implied(const std::string& feature, bool enabled) {
  llvm::StringMap<bool> features;
  llvm::X86::updateImpliedFeatures(feature, enabled, features);
  std::vector<std::string> out = {feature};
  for (const auto& other : features) out.push_back(other.first().str());
  return out;
}

void Add(const std::string& feature, const std::string& item, Wanted& wanted) {
  for (std::string& each : Implied(feature, true)) wanted.try_emplace(std::move(each), item);
}

void AddLevel(const std::string& level, Wanted& wanted) {
  llvm::SmallVector<llvm::StringRef, 64> features;
  llvm::X86::getFeaturesForCPU(level, features);
  for (const llvm::StringRef feature : features) Add(feature.str(), level, wanted);
}

// Adds the item to the baseline, or takes it away.
absl::Status Apply(const std::string& item, const MachineFeatures& machine, Wanted& wanted) {
  if (std::ranges::find(kLevels, item) != std::end(kLevels)) {
    AddLevel(item, wanted);
    return absl::OkStatus();
  }
  const bool minus = absl::StartsWith(item, "-");
  const std::string feature = minus ? item.substr(1) : item;
  if (!machine.contains(feature)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", feature, "\" is no feature of a processor, and no level such as x86-64-v3"));
  }
  if (!minus) {
    Add(feature, item, wanted);
    return absl::OkStatus();
  }
  Wanted least = {{"64bit", item}, {"sse2", item}};  // LLVM's list of the level leaves them out
  AddLevel(kLevels[0], least);
  for (const std::string& each : Implied(feature, false)) {
    if (least.contains(each)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", item, "\" takes ", each, " away, which every x86-64 program needs"));
    }
    wanted.erase(each);
  }
  return absl::OkStatus();
}

std::string TextOf(const std::vector<std::string>& features) {
  std::string out;
  for (const std::string& feature : features)
    absl::StrAppend(&out, out.empty() ? "+" : ",+", feature);
  return out;
}

}  // namespace

MachineFeatures ReadMachineFeatures() {
  MachineFeatures out;
  bool has_amx = false;
  for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
    out[feature.first().str()] = feature.second;
    has_amx |= feature.second && feature.first().starts_with("amx");
  }
  if (has_amx && !MayUseAmx()) {
    for (auto& [name, has] : out) has = has && !absl::StartsWith(name, "amx");
  }
  return out;
}

std::string ModelName() {
  // One paragraph for each processor; the first ones say all. Some machines name no model.
  const std::string text = ReadSmallFile("/proc/cpuinfo").value_or("");
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, "model name")) continue;
    const std::pair<std::string, std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
    return std::string(absl::StripAsciiWhitespace(parts.second));
  }
  return "";
}

std::string FeaturesText(const MachineFeatures& machine) {
  std::vector<std::string> on;
  for (const auto& [name, has] : machine) {
    if (has) on.push_back(name);
  }
  return TextOf(on);
}

absl::StatusOr<std::string> ReadBaseline(std::string_view text, const MachineFeatures& machine) {
  if (!llvm::Triple(llvm::sys::getProcessTriple()).isX86()) {
    return absl::InvalidArgumentError("there are baselines for x86-64 only");
  }
  std::vector<std::string> items;
  for (const auto piece : absl::StrSplit(std::string(text), ','))
    items.emplace_back(absl::StripAsciiWhitespace(piece));
  const auto is_minus = [](const std::string& item) { return absl::StartsWith(item, "-"); };
  Wanted wanted;
  if (std::ranges::all_of(items, is_minus)) {
    for (const auto& [name, has] : machine) {
      if (has) wanted.emplace(name, "the machine");
    }
  } else {
    AddLevel(kLevels[0], wanted);
  }
  for (const std::string& item : items) {
    UOPD_TRY(Apply(item, machine, wanted));
  }
  std::vector<std::string> on;
  for (const auto& [name, item] : wanted) {
    const auto found = machine.find(name);
    if (found == machine.end())
      continue;  // every processor has what cannot be detected, such as "x87"
    if (!found->second) {
      return absl::InvalidArgumentError(
          absl::StrCat("this machine's processor has no ", name,
                       name == item ? "" : ", which " + item + " needs"));
    }
    on.push_back(name);
  }
  return TextOf(on);
}

}  // namespace uopd::devices::cpu
