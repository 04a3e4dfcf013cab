// SPDX-License-Identifier: MIT
#include "uopd/context.h"

#include <vector>

#include "client/cpp/graph/caller.h"
#include "client/cpp/graph/graph_state.h"

namespace uopd::client {

Context::Context(Client& client, const ContextChanges& changes)
    : graph_(client.graph_), changes_(changes), caller_(Caller::Current()) {
  caller_->contexts.push_back(this);
}

Context::~Context() { std::erase(caller_->contexts, this); }

void Context::Apply(ExecutionOptions& options) const {
  if (changes_.beam) options.beam = *changes_.beam;
  if (changes_.ignore_beam_cache) options.ignore_beam_cache = *changes_.ignore_beam_cache;
  if (changes_.cache_level) options.cache_level = changes_.cache_level;
  if (changes_.noopt) options.noopt = *changes_.noopt;
  if (changes_.fast_math) options.fast_math = *changes_.fast_math;
  if (changes_.allow_bf16) options.allow_bf16 = *changes_.allow_bf16;
  if (changes_.allow_f16) options.allow_f16 = *changes_.allow_f16;
  if (changes_.allow_tf32) options.allow_tf32 = *changes_.allow_tf32;
  if (changes_.reproducible) options.reproducible = *changes_.reproducible;
  if (changes_.debug) options.debug = *changes_.debug;
}

ExecutionOptions GraphState::execution() const {
  ExecutionOptions out = options_.execution;
  for (const Context* context : Caller::Current()->contexts) {
    if (context->graph_.get() == this) context->Apply(out);
  }
  return out;
}

}  // namespace uopd::client
