// SPDX-License-Identifier: MIT
#include "server/engine/compile/kernel/kernel_keys.h"

#include <utility>

#include "core/base/text.h"
#include "server/engine/base/code_key.h"
#include "server/engine/compile/source/kernel_record.h"

namespace uopd::engine {

cache::Key ChoiceKey(const KernelStores& stores, const Digest& graph, std::string environment) {
  return {stores.choice, std::string(graph.view()), std::move(environment)};
}

cache::Key KernelKey(const KernelStores& stores, const Digest& graph, const Target& target,
                     const Digest& source) {
  return {stores.kernel, Cat(source.view(), graph.view()), KernelEnvironmentOf(target)};
}

std::string KernelEnvironmentOf(const Target& target) {
  return Cat("record=", kKernelRecordVersion, " ", ObjectEnvironment(target));
}

std::string EncodeChoice(const Digest& source) { return std::string(source.view()); }

std::optional<Digest> DecodeChoice(std::string_view bytes) {
  Digest out;
  return out.FromBytes(bytes) ? std::optional(out) : std::nullopt;
}

}  // namespace uopd::engine
