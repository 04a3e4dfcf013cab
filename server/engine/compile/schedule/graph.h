// SPDX-License-Identifier: MIT
// The graph of a request, verified. It is the first artefact of a compile (compile_service.h).
//
// A request names its graph by a GraphRef. Graphs turns the reference into a Graph: it verifies the
// bytes that a client sent, or it reads the bytes from the store "graph" by their digest.
//
// Invariants of a Graph
//   (1) bytes() is the canonical form, and digest() is the hash of bytes().
//   (2) bytes() passed verification, in this process or before they were stored.
//   (3) Nodes exist only after NeedNodes. A graph from the store often needs no nodes.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cache/store.h"
#include "core/base/digest.h"
#include "core/base/interrupt.h"
#include "core/ir/context.h"
#include "core/ir/io/wire.h"
#include "server/engine/base/request_context.h"

namespace uopd::engine {

// Names a graph by its digest, its bytes, or both. An empty field is absent.
struct GraphRef {
  std::string_view digest, bytes;
};

// What clients' graphs may take.
struct GraphLimits : ir::WireLimits {
  // The memory that the nodes of a graph take, and all that is made of them until its kernels are
  // text, by the bytes of the graph: 900,000 additions of 13 MB took 460 MB.
  static constexpr int64_t kMemoryOfByte = 48;
  // Smaller graphs are not charged: of these, the memory of all threads together is small.
  static constexpr size_t kCharged = 64 << 10;

  // Charges memory to what clients may hold. What it returns gives the memory back at its end.
  // Null: nothing is charged.
  std::function<absl::StatusOr<std::shared_ptr<const void>>(int64_t bytes)> charge{};

  absl::StatusOr<std::shared_ptr<const void>> Charge(size_t graph_bytes) const {
    if (charge == nullptr || graph_bytes < kCharged) return std::shared_ptr<const void>();
    return charge(static_cast<int64_t>(graph_bytes) * kMemoryOfByte);
  }
};

// The key of a graph's bytes in the store "graph".
cache::Key GraphKey(std::string_view digest);
// The error for a reference that has neither bytes nor a valid digest.
absl::Status BadDigest(std::string_view digest);

// While this object lives, the request's limits can end work in the context.
class InterruptScope {
 public:
  InterruptScope(ir::UOpContext& ctx, Interrupt& interrupt) : ctx_(ctx) {
    ctx_.set_interrupt(&interrupt);
  }
  ~InterruptScope() { ctx_.set_interrupt(nullptr); }
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  ir::UOpContext& ctx_;
};

// Used by one thread at a time.
class Graph {
 public:
  // Verifies bytes in any form. `digest`: of `bytes`, if it is known. INVALID_ARGUMENT names the
  // node at fault. RESOURCE_EXHAUSTED: clients hold too much memory for the nodes of such a graph.
  static absl::StatusOr<std::unique_ptr<Graph>> Verify(
      std::string_view bytes, const GraphLimits& limits, Interrupt& interrupt,
      const std::optional<Digest>& digest = std::nullopt);
  // A graph that was read from the store. REQUIRES: invariants (1) and (2).
  static std::unique_ptr<Graph> Stored(std::string bytes, const Digest& digest,
                                       const GraphLimits& limits);

  const std::string& bytes() const { return bytes_; }
  const Digest& digest() const { return digest_; }
  bool stored() const { return stored_; }

  // Decodes the nodes if they do not exist. RESOURCE_EXHAUSTED as above.
  absl::Status NeedNodes(RequestContext& request);
  // REQUIRES: the nodes exist.
  ir::UOpContext& ctx() { return *ctx_; }
  ir::UOp sink() const { return sink_; }
  // Drops the nodes, so that the next NeedNodes decodes them again. For work that starts again:
  // node numbers decide between equal choices, so a used context would give another schedule.
  void DropNodes();

 private:
  explicit Graph(const GraphLimits& limits) : limits_(limits) { DropNodes(); }

  const GraphLimits limits_;
  std::shared_ptr<const void> memory_;  // the charge for the nodes
  std::string bytes_;
  Digest digest_;
  bool stored_ = false;
  std::unique_ptr<ir::UOpContext> ctx_;  // never null
  ir::UOp sink_;                         // null: the nodes do not exist
};

// Thread-safe.
class Graphs {
 public:
  // `store` outlives this object.
  Graphs(cache::Store& store, const GraphLimits& limits) : store_(store), limits_(limits) {}

  // NOT_FOUND (program): only a digest is given, and the store does not have the graph.
  // INVALID_ARGUMENT: the graph fails verification, or the digest is not the digest of the graph.
  // `digest`: of the bytes, if it is known.
  absl::StatusOr<std::unique_ptr<Graph>> Get(RequestContext& request, const GraphRef& ref,
                                             const std::optional<Digest>& digest = std::nullopt);
  // Puts a new graph into the store. From then on its digest is enough to name it.
  void Keep(const Graph& graph);

 private:
  absl::StatusOr<std::unique_ptr<Graph>> Load(std::string_view digest);

  cache::Store& store_;
  const GraphLimits limits_;
};

}  // namespace uopd::engine
