// SPDX-License-Identifier: MIT
// The binary form of graphs: a canonical protobuf encoding of uopd.v1.Graph
// (proto/uopd/v1/graph.proto). It is read and written here without the protobuf library, so that
// core and its digests do not depend on it.
//
// Encode writes nodes in topological order, fields in ascending order, and nothing optional, so
// equal graphs give equal bytes in every process. The bytes are the semantic key, their SHA-256 is
// the digest. Tags are not written.
#pragma once
#include <string>
#include <string_view>

#include "core/base/digest.h"
#include "core/base/status.h"
#include "core/ir/context.h"
#include "core/ir/verify/spec.h"

namespace uopd::ir {

inline constexpr uint64_t kIrVersion = 1;

std::string Encode(const UOpContext& ctx, UOp root);

struct WireLimits {
  size_t max_nodes = 1'000'000;
  size_t max_sources = 16'000'000;  // of all nodes together
};

// Reads any valid encoding into ctx and returns the last node. Verifies every node as it is read,
// and the whole graph at the end. Errors: INVALID_ARGUMENT, naming the node by its position;
// RESOURCE_EXHAUSTED over the limits; FAILED_PRECONDITION for another IR version.
absl::StatusOr<UOp> Decode(UOpContext& ctx, std::string_view bytes, Level level,
                           const WireLimits& limits = {});

}  // namespace uopd::ir
