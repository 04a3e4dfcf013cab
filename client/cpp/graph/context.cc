// SPDX-License-Identifier: MIT
#include "uopd/context.h"

#include "client/cpp/graph/graph_state.h"

namespace uopd::client {

Context::Context(Client& client, const ContextChanges& changes)
    : graph_(client.graph_), before_(graph_->options().execution) {
  ExecutionOptions& options = graph_->execution();
  if (changes.beam) options.beam = *changes.beam;
  if (changes.ignore_beam_cache) options.ignore_beam_cache = *changes.ignore_beam_cache;
  if (changes.cache_level) options.cache_level = changes.cache_level;
  if (changes.noopt) options.noopt = *changes.noopt;
  if (changes.fast_math) options.fast_math = *changes.fast_math;
  if (changes.allow_bf16) options.allow_bf16 = *changes.allow_bf16;
  if (changes.allow_f16) options.allow_f16 = *changes.allow_f16;
  if (changes.allow_tf32) options.allow_tf32 = *changes.allow_tf32;
  if (changes.reproducible) options.reproducible = *changes.reproducible;
  if (changes.debug) options.debug = *changes.debug;
}

Context::~Context() { graph_->execution() = before_; }

}  // namespace uopd::client
