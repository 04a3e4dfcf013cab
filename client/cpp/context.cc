// SPDX-License-Identifier: MIT
#include "client/cpp/context.h"

#include "client/cpp/graph_state.h"

namespace uopd::client {

Context::Context(Client& client, const ContextChanges& changes)
    : graph_(client.graph_), before_(graph_->options().execution) {
  v1::Options& options = graph_->execution();
  if (changes.beam) options.set_beam(*changes.beam);
  if (changes.ignore_beam_cache) options.set_ignore_beam_cache(*changes.ignore_beam_cache);
  if (changes.cache_level) options.set_cache_level(*changes.cache_level);
  if (changes.noopt) options.set_noopt(*changes.noopt);
  if (changes.fast_math) options.set_fast_math(*changes.fast_math);
  if (changes.allow_bf16) options.set_allow_bf16(*changes.allow_bf16);
  if (changes.allow_f16) options.set_allow_f16(*changes.allow_f16);
  if (changes.debug) options.set_debug(*changes.debug);
}

Context::~Context() { graph_->execution() = before_; }

}  // namespace uopd::client
