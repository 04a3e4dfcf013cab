// SPDX-License-Identifier: MIT
#include "server/engine/operate/environments.h"

#include <algorithm>

#include "core/base/text.h"
#include "server/engine/base/code_key.h"
#include "server/engine/compile/kernel/kernel_keys.h"
#include "server/engine/compile/schedule/graph.h"

namespace uopd::engine {
namespace {

constexpr size_t kMaxKnown = 1024;

std::optional<Environments::Tuning> FindTuning(
    const KernelTuner& tuner, const std::vector<std::shared_ptr<devices::Device>>& devices,
    const std::string& environment) {
  for (const auto& device : devices) {
    for (const bool fast_math : {false, true}) {
      for (int beam = 1; beam <= CompileOptions::kMaxBeam; ++beam) {
        const CompileOptions options{.fast_math = fast_math, .beam = beam};
        if (tuner.Environment(*device, options) == environment)
          return Environments::Tuning{device, options};
      }
    }
  }
  return std::nullopt;
}

}  // namespace

Environments::Environments(const GraphCompiler& graph_compiler, const KernelTuner* maybe_tuner,
                           DeviceSet& devices)
    : graph_compiler_(graph_compiler), tuner_(maybe_tuner) {
  for (const devices::DeviceEntry& entry : devices.List()) {
    if (entry.device != nullptr) devices_.push_back(entry.device);
  }
}

bool Environments::Uses(std::string_view store, const std::string& environment) {
  if (store == "graph") return environment == GraphKey("").environment();
  if (store == "schedule")
    return environment.starts_with(Cat(graph_compiler_.ScheduleEnvironment(), " "));
  if (store == kOptimisedStores.kernel || store == kDraftStores.kernel) {
    return std::ranges::any_of(devices_, [&](const auto& device) {
      return environment == KernelEnvironmentOf(device->target());
    });
  }
  if (store == kOptimisedStores.choice || store == kDraftStores.choice) {
    // The options of the requests to come and the opts of their kernels stand at the end.
    const size_t options = CompileOptions{}.KernelText().size();
    return std::ranges::any_of(devices_, [&](const auto& device) {
      const std::string whole = graph_compiler_.ChoiceEnvironment(*device, CompileOptions{});
      return environment.starts_with(std::string_view(whole).substr(0, whole.size() - options));
    });
  }
  return store == "tuning" && TuningOf(environment).has_value();
}

std::string Environments::ChoiceFacts(const std::string& environment) const {
  for (const auto& device : devices_) {
    std::string facts = CodeEnvironment(device->target());
    if (environment.find(Cat(" facts=", HashBytes(facts).Hex(), " ")) != std::string::npos)
      return facts;
  }
  return "";
}

const std::optional<Environments::Tuning>& Environments::TuningOf(const std::string& environment) {
  if (tunings_.size() >= kMaxKnown) tunings_.clear();
  const auto [it, added] = tunings_.try_emplace(environment);
  if (added && tuner_ != nullptr) it->second = FindTuning(*tuner_, devices_, environment);
  return it->second;
}

}  // namespace uopd::engine
