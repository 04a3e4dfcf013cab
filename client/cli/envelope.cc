// SPDX-License-Identifier: MIT
#include "client/cli/envelope.h"

#include "core/base/status.h"

namespace uopd::cli {

nlohmann::ordered_json Envelope(const CommandEnd& end, const nlohmann::json& data) {
  const int exit_status = end.exit_status();
  nlohmann::ordered_json out;
  out["schema"] = kEnvelopeSchema;
  out["command"] = end.command;
  out["ok"] = exit_status == 0;
  if (!data.is_null()) out["data"] = data;
  if (exit_status == 0) return out;
  const EndKind& kind = Info(end.end() == End::kOk ? End::kFailed : end.end());
  out["error"] = {{"kind", kind.name},
                  {"code", end.status.ok() ? "" : absl::StatusCodeToString(end.status.code())},
                  {"message", end.status.ok() ? end.bad : StatusText(end.status)},
                  {"exit_status", exit_status}};
  return out;
}

std::string LineOf(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace uopd::cli
