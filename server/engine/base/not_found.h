// SPDX-License-Identifier: MIT
// NOT_FOUND statuses that carry the kind of the missing thing. The kind tells the client what to
// do: send the graph (program), open a session again (session), give up (buffer), or send the data
// in messages (area). Pure functions.
#pragma once
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace uopd::engine {

inline constexpr std::string_view kProgram = "program";
inline constexpr std::string_view kSession = "session";
inline constexpr std::string_view kBuffer = "buffer";
inline constexpr std::string_view kArea = "area";

absl::Status NotFound(std::string_view kind, const std::string& message);
// The kind given to NotFound; empty for every other status.
std::string MissingKind(const absl::Status& status);

}  // namespace uopd::engine
