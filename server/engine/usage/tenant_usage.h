// SPDX-License-Identifier: MIT
// What each tenant asks for: uopd_tenant_requests_total and its siblings. A call without a valid
// token counts for the tenant "-", as every call does if the daemon has no tokens.
//
// The first kShown tenants have series of their own; the rest counts as "other". Thread-safe. A
// TenantUse lives as long as the process.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "core/base/telemetry/metrics.h"
#include "server/engine/usage/request_parts.h"

namespace uopd::engine {

class TenantUse {
 public:
  static constexpr size_t kShown = 200;
  static constexpr size_t kMethods = 64;

  // Of the tenant of this name; "" if the daemon has no tenants.
  static TenantUse& Of(std::string_view tenant);

  // The end of a call. `method`: its number, below kMethods, and its name.
  void Count(size_t method, std::string_view method_name, absl::StatusCode code);
  // A request for a program, which took this time.
  void AddWork(const RequestParts& parts);
  void AddReceived(uint64_t bytes) { received_.Increment(bytes); }
  void AddSent(uint64_t bytes) { sent_.Increment(bytes); }
  // Time for which the daemon waited for the client to send or to take bytes.
  void AddWire(int64_t ns) { wire_.AddNs(static_cast<uint64_t>(ns)); }

  const std::string& label() const { return label_; }

 private:
  friend class TenantUses;
  explicit TenantUse(std::string label);

  static constexpr size_t kCodes = 17;

  const std::string label_;
  std::array<std::atomic<Counter*>, kMethods * kCodes> requests_{};  // null: none yet
  Histogram &total_, &waited_;
  std::array<TimeCounter*, kPartCount> parts_;
  TimeCounter& wire_;
  Counter &faults_, &received_, &sent_;
};

// Bytes of buffers and graphs that came from a client or went to one.
void CountReceived(std::string_view tenant, uint64_t bytes);
void CountSent(std::string_view tenant, uint64_t bytes);

}  // namespace uopd::engine
