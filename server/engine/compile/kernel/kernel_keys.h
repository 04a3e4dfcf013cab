// SPDX-License-Identifier: MIT
// The keys of a kernel in the cache. It has two rows:
//
//   choice   graph          | what decides its source, its opts  ─►  digest of the source
//   kernel   source, graph  | what makes an object of it         ─►  KernelRecord
//
// Graph and source are digests (SHA-256), so the two lookups of a warm daemon read little.
//
// The number of threads and the caches of a device decide which source codegen chooses. So they are
// in the key of the choice only, and devices for which the same source is chosen share the compiled
// kernel. A choice never makes a kernel wrong: whichever source it names, the row of the kernel is
// one of the same graph, for the same instructions and by the same toolchain.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "cache/base/row/key.h"
#include "core/base/digest.h"
#include "core/base/target/target.h"

namespace uopd::engine {

// Where the rows of optimised kernels lie, or those of drafts.
struct KernelStores {
  const char* choice;
  const char* kernel;
};
inline constexpr KernelStores kOptimisedStores{"choice", "kernel"};
inline constexpr KernelStores kDraftStores{"draft_choice", "draft"};

// `graph`: of the bytes of Item::graph. `environment`: ChoiceEnvironment, and the opts if there are
// any.
cache::Key ChoiceKey(const KernelStores& stores, const Digest& graph, std::string environment);
// `source`: KernelSource::digest.
cache::Key KernelKey(const KernelStores& stores, const Digest& graph, const Target& target,
                     const Digest& source);

// The environment of all kernels of a target. A daemon that has asked for one kernel is told of
// others with the same environment, so the source is in the other part of the key.
std::string KernelEnvironmentOf(const Target& target);

// The value of the row of a choice.
std::string EncodeChoice(const Digest& source);
// nullopt: the bytes are no such value.
std::optional<Digest> DecodeChoice(std::string_view bytes);

}  // namespace uopd::engine
