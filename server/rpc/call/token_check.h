// SPDX-License-Identifier: MIT
// Whether the caller of a call that lasts may still call: a reload of the settings may take its
// token away, or its place among the operators.
#pragma once
#include <grpcpp/server_context.h>

#include <atomic>

#include "core/base/status.h"
#include "server/engine/base/caller.h"
#include "server/engine/engine.h"

namespace uopd::rpc {

// Thread-safe. Made before the caller is authenticated.
class TokenCheck {
 public:
  TokenCheck(const engine::Engine& engine, const grpc::CallbackServerContext& context)
      : engine_(engine), context_(context), version_(engine.tenants().version()) {}

  // OK as long as the caller is who it was. UNAUTHENTICATED: its token is of no tenant any more, or
  // of another one. PERMISSION_DENIED: it is no operator any more. Costs nothing while no tokens
  // change.
  absl::Status Check(const engine::Caller& caller);

 private:
  const engine::Engine& engine_;
  const grpc::CallbackServerContext& context_;
  std::atomic<uint64_t> version_;  // of the tenants who know the caller
};

}  // namespace uopd::rpc
