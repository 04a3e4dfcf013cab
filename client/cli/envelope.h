// SPDX-License-Identifier: MIT
// What --json prints: one object on one line, whatever happens (docs/operations/looking.md,
// "JSON").
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "client/cli/exit_codes.h"

namespace uopd::cli {

// Another number says that a key was renamed or means something else. New keys may come without
// that.
inline constexpr int kEnvelopeSchema = 1;

struct CommandEnd {
  std::string command;  // "cache ls"
  absl::Status status;
  std::string bad;               // not empty: the command ran, and this is what it found
  std::optional<int> exit_code;  // instead of that of the kind

  End end() const { return !status.ok() ? EndOf(status) : bad.empty() ? End::kOk : End::kFailed; }
  int exit_status() const { return exit_code.value_or(Info(end()).exit_code); }
};

// `data` null: the command has no result.
nlohmann::ordered_json Envelope(const CommandEnd& end, const nlohmann::json& data);
// As text for a line. Bytes that are not UTF-8 are replaced: texts may come from the daemon or from
// files.
std::string LineOf(const nlohmann::ordered_json& value);

}  // namespace uopd::cli
