// SPDX-License-Identifier: MIT
#include "server/engine/session/tenant_table.h"

#include "core/base/telemetry/metrics.h"
#include "server/engine/usage/tenant_usage.h"

namespace uopd::engine {

absl::Status TenantTable::Reload(const Config& config) {
  auto tenants = std::make_shared<Tenants>();
  if (!token_file_.empty()) {
    auto read = Tenants::Read(token_file_);
    if (!read.ok()) return WithFrame(read.status(), "reading setting server.token_file");
    *tenants = *std::move(read);
  }
  const absl::Status operators =
      config.About("server.operators", tenants->SetOperators(config.server_operators()));
  // The first fault of a tenant is then an increase.
  if (tenants->names().size() <= TenantUse::kShown) {
    for (const std::string& name : tenants->names()) metrics::TenantFaults({name});
  }
  MutexLock lock(mu_);
  if (!operators.ok() && tenants_ != nullptr) tenants->KeepOperatorsOf(*tenants_);
  if (tenants_ != nullptr && *tenants == *tenants_) return operators;
  tenants_ = std::move(tenants);
  version_.fetch_add(1, std::memory_order_acq_rel);
  return operators;
}

}  // namespace uopd::engine
