// SPDX-License-Identifier: MIT
#include "server/rpc/call/token_check.h"

#include "core/base/text.h"
#include "server/rpc/call/call_scope.h"

namespace uopd::rpc {

absl::Status TokenCheck::Check(const engine::Caller& caller) {
  const uint64_t version = engine_.tenants().version();
  if (version == version_.load(std::memory_order_acquire)) return absl::OkStatus();
  UOPD_ASSIGN(const std::string tenant, TenantOf(engine_, context_));
  if (tenant != caller.tenant)
    return absl::UnauthenticatedError("the token belongs to another tenant now");
  if (caller.sees_all && !engine_.tenants().Now()->IsOperator(tenant)) {
    return absl::PermissionDeniedError(
        Cat(tenant, " is no operator of this daemon any more (server.operators)"));
  }
  version_.store(version, std::memory_order_release);
  return absl::OkStatus();
}

}  // namespace uopd::rpc
