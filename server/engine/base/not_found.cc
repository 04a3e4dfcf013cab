// SPDX-License-Identifier: MIT
#include "server/engine/base/not_found.h"

#include "absl/strings/cord.h"

namespace uopd::engine {
namespace {
constexpr char kUrl[] = "uopd.v1/missing";
}

absl::Status NotFound(std::string_view kind, const std::string& message) {
  absl::Status status = absl::NotFoundError(message);
  status.SetPayload(kUrl, absl::Cord(absl::string_view(kind.data(), kind.size())));
  return status;
}

std::string MissingKind(const absl::Status& status) {
  auto kind = status.GetPayload(kUrl);
  return kind ? std::string(*kind) : std::string();
}

}  // namespace uopd::engine
