// SPDX-License-Identifier: MIT
#include "server/engine/report/measured_speeds.h"

#include "core/base/telemetry/log.h"
#include "core/base/text.h"

namespace uopd::engine {
namespace {

constexpr int kMeasureVersion = 1;    // of Device::MeasureSpeeds: raise it with what is measured
constexpr int64_t kCostUs = 300'000;  // to the eviction

}  // namespace

std::optional<Speeds> MeasuredSpeeds::Get(DeviceState& state) {
  devices::Device& device = state.device();
  const cache::Key key("machine", Cat(device.info().model, " ", device.target().Key()),
                       Cat("measure=", kMeasureVersion));
  const MutexLock lock(mu_);
  if (const auto known = known_.find(key.semantic()); known != known_.end()) return known->second;
  std::optional<Speeds> speeds;
  if (const cache::GetResult found = store_.Get(key); found.hit())
    speeds = Speeds::FromText(found.entry.bytes);
  if (!speeds) {
    speeds = device.MeasureSpeeds();
    if (!speeds) return std::nullopt;
    UOPD_LOG(kInfo, "speeds measured", {"device", state.name()}, {"speeds", speeds->Text()});
    if (const absl::Status kept = store_.Put(key, speeds->Text(), kCostUs); !kept.ok())
      UOPD_LOG(kDebug, "measured speeds are not kept", {"error", kept});
  }
  known_[key.semantic()] = *speeds;
  return speeds;
}

}  // namespace uopd::engine
