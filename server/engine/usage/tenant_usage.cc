// SPDX-License-Identifier: MIT
#include "server/engine/usage/tenant_usage.h"

#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/base/mutex.h"
#include "server/engine/usage/outcome.h"

namespace uopd::engine {
namespace {

constexpr std::string_view kNobody = "-";
constexpr std::string_view kOther = "other";

double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace

// All uses, by label. Never destroyed: threads may count while the process exits.
class TenantUses {
 public:
  static TenantUses& Global() {
    static TenantUses& uses = *new TenantUses();
    return uses;
  }

  TenantUse& Get(std::string_view tenant) UOPD_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    if (const auto it = uses_.find(std::string(tenant)); it != uses_.end()) return *it->second;
    const bool shown = uses_.size() < TenantUse::kShown;
    auto& use = uses_[std::string(shown ? tenant : kOther)];
    if (use == nullptr) use.reset(new TenantUse(std::string(shown ? tenant : kOther)));
    return *use;
  }

 private:
  Mutex mu_;
  absl::flat_hash_map<std::string, std::unique_ptr<TenantUse>> uses_ UOPD_GUARDED_BY(mu_);
};

TenantUse::TenantUse(std::string label)
    : label_(std::move(label)),
      total_(metrics::TenantRequestDuration({label_, "total"})),
      waited_(metrics::TenantRequestDuration({label_, "waited"})),
      wire_(metrics::TenantTime({label_, "wire"})),
      faults_(metrics::TenantFaults({label_})),
      received_(metrics::TenantBytes({label_, "received"})),
      sent_(metrics::TenantBytes({label_, "sent"})) {
  for (size_t i = 0; i < kPartCount; ++i) parts_[i] = &metrics::TenantTime({label_, kPartNames[i]});
}

TenantUse& TenantUse::Of(std::string_view tenant) {
  if (tenant.empty()) tenant = kNobody;
  // Threads mostly serve the tenant that they served before.
  thread_local std::string last_name;
  thread_local TenantUse* last = nullptr;
  if (last == nullptr || last_name != tenant) {
    last = &TenantUses::Global().Get(tenant);
    last_name = tenant;
  }
  return *last;
}

void TenantUse::Count(size_t method, std::string_view method_name, absl::StatusCode code) {
  auto& slot = requests_.at(method * kCodes + static_cast<size_t>(code));
  Counter* found = slot.load(std::memory_order_acquire);
  if (found == nullptr) {
    const std::string name = absl::StatusCodeToString(code);
    found = &metrics::TenantRequests({label_, method_name, name});
    slot.store(found, std::memory_order_release);
  }
  found->Increment();
  if (OutcomeOf(code) == Outcome::kFailed) faults_.Increment();
}

void TenantUse::AddWork(const RequestParts& parts) {
  int64_t total = 0;
  for (size_t i = 0; i < kPartCount; ++i) {
    total += parts.ns[i];
    if (parts.ns[i] > 0) parts_[i]->AddNs(static_cast<uint64_t>(parts.ns[i]));
  }
  total_.Observe(Seconds(total));
  waited_.Observe(Seconds(parts.waited_ns()));
}

void CountReceived(std::string_view tenant, uint64_t bytes) {
  metrics::BytesReceived().Increment(bytes);
  TenantUse::Of(tenant).AddReceived(bytes);
}

void CountSent(std::string_view tenant, uint64_t bytes) {
  metrics::BytesSent().Increment(bytes);
  TenantUse::Of(tenant).AddSent(bytes);
}

}  // namespace uopd::engine
