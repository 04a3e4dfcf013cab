// SPDX-License-Identifier: MIT
// The calls of the service and who may make them, as proto/methods.def has it: the one table that
// decides.
//
// CallScope refuses a call by this table, and gives the engine the caller's rights
// (engine::Caller). Whatever looks for a thing that belongs to somebody takes the Caller, or its
// tenant.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace uopd::rpc {

enum class Method : uint8_t {
#define UOPD_UNARY(name, audience) k##name,
#define UOPD_QUERY(name, audience) k##name,
#define UOPD_STREAM(name, audience) k##name,
#include "proto/methods.def"
#undef UOPD_UNARY
#undef UOPD_QUERY
#undef UOPD_STREAM
};

// See methods.def.
enum class Audience : uint8_t { kEveryone, kTenant, kTenantOrOperator, kOperator };

struct MethodInfo {
  std::string_view name;
  Audience audience;
  bool stream;  // many messages in one or both directions
};

inline constexpr auto kMethods = std::to_array<MethodInfo>({
#define UOPD_UNARY(name, audience) {#name, Audience::k##audience, false},
#define UOPD_QUERY(name, audience) {#name, Audience::k##audience, false},
#define UOPD_STREAM(name, audience) {#name, Audience::k##audience, true},
#include "proto/methods.def"
#undef UOPD_UNARY
#undef UOPD_QUERY
#undef UOPD_STREAM
});

constexpr const MethodInfo& Info(Method method) { return kMethods[static_cast<size_t>(method)]; }

// Whether the call is about a program that is prepared or run. The objectives for latency are about
// these calls.
constexpr bool AsksForProgram(Method method) {
  return method == Method::kPrepare || method == Method::kExecute || method == Method::kRun;
}

// Whether an operator who makes the call sees what belongs to all tenants.
constexpr bool OperatorsSeeAll(Audience audience) {
  return audience == Audience::kTenantOrOperator || audience == Audience::kOperator;
}

}  // namespace uopd::rpc
