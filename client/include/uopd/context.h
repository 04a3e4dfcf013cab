// SPDX-License-Identifier: MIT
// Context: other switches for the requests of one client, as long as the Context lives.
//
//   {
//     Context tuned(client, {.beam = 2, .debug = 2});
//     UOPD_TRY(loss.Realize());  // this request has BEAM=2 and DEBUG=2
//   }
//
// The switches belong to requests, not to tensors: a tensor that is built in the scope and realised
// after it is computed without them. They are those of the thread that began the Context: requests
// of other threads are not changed. Contexts nest, and an inner one goes before an outer one.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "uopd/client.h"

namespace uopd::client {

// The switches that change; see ExecutionOptions. Those without a value stay as they are.
struct ContextChanges {
  std::optional<uint32_t> beam;
  std::optional<bool> ignore_beam_cache;
  std::optional<uint32_t> cache_level;
  std::optional<bool> noopt;
  std::optional<bool> fast_math;
  std::optional<bool> allow_bf16, allow_f16, allow_tf32;
  std::optional<bool> reproducible;
  std::optional<uint32_t> debug;
};

struct Caller;

class Context {
 public:
  Context(Client& client, const ContextChanges& changes);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

 private:
  friend class GraphState;
  void Apply(ExecutionOptions& options) const;

  const std::shared_ptr<GraphState> graph_;
  const ContextChanges changes_;
  const std::shared_ptr<Caller> caller_;
};

}  // namespace uopd::client
