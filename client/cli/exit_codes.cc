// SPDX-License-Identifier: MIT
#include "client/cli/exit_codes.h"

#include "core/base/text.h"

namespace uopd::cli {

End EndOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return End::kOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return End::kUsage;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return End::kUnreachable;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
      return End::kRefused;
    case absl::StatusCode::kNotFound:
      return End::kNotFound;
    default:
      return End::kFailed;
  }
}

std::string ExitCodesDocs() {
  std::string out = "| exit status | `kind` | means |\n|---|---|---|\n";
  for (const EndKind& end : kEnds)
    Append(out, "| ", end.exit_code, " | `", end.name, "` | ", end.meaning, " |\n");
  return out;
}

}  // namespace uopd::cli
