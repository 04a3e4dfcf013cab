// SPDX-License-Identifier: MIT
// The binary form of graphs: a canonical protobuf encoding of uopd.v1.Graph
// (proto/uopd/v1/graph.proto), read and written here without protobuf so that core and its digests
// depend on nothing.
//
// Encode writes nodes in topological order with fields in ascending order and nothing optional, so
// equal graphs give equal bytes in every process: the bytes are the semantic key and their SHA-256
// is the digest. Tags are not written.
#pragma once
#include <string>
#include <string_view>

#include "core/base/digest.h"
#include "core/base/status.h"
#include "core/ir/context.h"
#include "core/ir/spec.h"

namespace uopd::ir {

inline constexpr uint64_t kIrVersion = 1;

std::string Encode(const UOpContext& ctx, UOp root);

struct WireLimits {
  size_t max_nodes = 1'000'000;
  size_t max_sources = 16'000'000;  // in all
};

// Reads any valid encoding into ctx, verifying every node at `stage` as it comes, and the whole at
// the end; returns the last node. Errors are INVALID_ARGUMENT naming the node by its position,
// RESOURCE_EXHAUSTED over the limits, and FAILED_PRECONDITION for another IR version.
absl::StatusOr<UOp> Decode(UOpContext& ctx, std::string_view bytes, Stage stage,
                           const WireLimits& limits = {});

}  // namespace uopd::ir
