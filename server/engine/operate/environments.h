// SPDX-License-Identifier: MIT
// Which environment keys this daemon asks the cache for: of its devices, its versions and its
// settings.
//
// An entry of another environment is never found by a request of this daemon. Short-lived: it knows
// the devices that were there when it was made. One thread at a time.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/engine/base/device_set.h"
#include "server/engine/compile/source/graph_compiler.h"
#include "server/engine/tune/kernel_tuner.h"

namespace uopd::engine {

class Environments {
 public:
  // Opens the devices that are not open yet. `maybe_tuner`: null if the daemon does not tune.
  Environments(const GraphCompiler& graph_compiler, const KernelTuner* maybe_tuner,
               DeviceSet& devices);

  // Whether the daemon may ask for entries of this store and environment.
  bool Uses(std::string_view store, const std::string& environment);

  // What stands as a digest in the environment of a choice: every version and fact about the device
  // that decided the source. Empty: of no device of this daemon, or of another version.
  std::string ChoiceFacts(const std::string& environment) const;

  // The device and the options whose tuning has this environment key.
  struct Tuning {
    std::shared_ptr<devices::Device> device;
    CompileOptions options;
  };
  const std::optional<Tuning>& TuningOf(const std::string& environment);

 private:
  const GraphCompiler& graph_compiler_;
  const KernelTuner* const tuner_;
  std::vector<std::shared_ptr<devices::Device>> devices_;
  absl::flat_hash_map<std::string, std::optional<Tuning>>
      tunings_;  // as far as they were asked for
};

}  // namespace uopd::engine
