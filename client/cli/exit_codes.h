// SPDX-License-Identifier: MIT
// How a command ended, for scripts: the one table of exit statuses. Special ones of single commands
// are in docs/operations/looking.md.
#pragma once
#include <array>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace uopd::cli {

struct EndKind {
  std::string_view name;  // "not_found", as JSON has it
  int exit_code;
  std::string_view meaning;
};

enum class End : uint8_t { kOk, kFailed, kUsage, kUnreachable, kRefused, kNotFound };

inline constexpr auto kEnds = std::to_array<EndKind>({
    {"ok", 0, "it did what it was asked for"},
    {"failed", 1,
     "it ran and found something bad, or broke: a damaged entry stays, a kernel could not be "
     "tuned, an error inside of the "
     "daemon"},
    {"usage", 2, "the command line is wrong, or a graph, a file or an id that it names"},
    {"unreachable", 3,
     "the daemon, or a server or device that it needs, does not answer, answers too late, or is "
     "shutting down"},
    {"refused", 4,
     "the daemon refuses: no permission or token, a limit is reached, or it is not in a state for "
     "it"},
    {"not_found", 5, "what was named does not exist"},
});

constexpr const EndKind& Info(End end) { return kEnds[static_cast<size_t>(end)]; }
// kOk for OK.
End EndOf(const absl::Status& status);
// The table of docs/operations/looking.md.
std::string ExitCodesDocs();

}  // namespace uopd::cli
