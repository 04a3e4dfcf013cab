// SPDX-License-Identifier: MIT
// TenantTable: the tenants of now. A reload puts others in their place. Thread-safe.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "core/base/config/config.h"
#include "core/base/mutex.h"
#include "server/engine/session/tenants.h"

namespace uopd::engine {

class TenantTable {
 public:
  // `token_file`: the one that the daemon is started with; empty: none.
  explicit TenantTable(std::string token_file) : token_file_(std::move(token_file)) {}

  // Reads the file of tokens, and who is an operator. An error about the file changes nothing.
  // After one about operators they stay as they were, and the tokens are those of the file: what
  // was taken away has to go.
  absl::Status Reload(const Config& config) UOPD_EXCLUDES(mu_);
  // The tenants of now, in an object that does not change. Not null after the first Reload.
  std::shared_ptr<const Tenants> Now() const UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return tenants_;
  }
  // Whether no token leads to this tenant any more.
  bool WasRemoved(const std::string& tenant) const UOPD_EXCLUDES(mu_) {
    const auto now = Now();
    return now != nullptr && now->required() && !now->names().contains(tenant);
  }
  // A number that grows with each change.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  const std::string token_file_;
  mutable Mutex mu_;
  std::shared_ptr<const Tenants> tenants_ UOPD_GUARDED_BY(mu_);
  std::atomic<uint64_t> version_{0};
};

}  // namespace uopd::engine
