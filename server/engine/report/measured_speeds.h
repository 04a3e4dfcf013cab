// SPDX-License-Identifier: MIT
// The speeds of devices as they were measured (Device::MeasureSpeeds), each machine once: they are
// kept in the store "machine", under the model of the processor and the facts that decide code.
//
// Thread-safe. One device is measured at a time, since measurements disturb each other.
#pragma once
#include <map>
#include <optional>

#include "cache/store.h"
#include "core/base/mutex.h"
#include "core/base/target/speeds.h"
#include "server/engine/base/device_set.h"

namespace uopd::engine {

class MeasuredSpeeds {
 public:
  // `store` outlives this object.
  explicit MeasuredSpeeds(cache::Store& store) : store_(store) {}

  // May take 300 ms. nullopt: the device measures nothing.
  std::optional<Speeds> Get(DeviceState& device) UOPD_EXCLUDES(mu_);

 private:
  cache::Store& store_;
  Mutex mu_;
  std::map<std::string, Speeds> known_ UOPD_GUARDED_BY(mu_);  // by the semantic key
};

}  // namespace uopd::engine
