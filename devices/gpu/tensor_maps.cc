// SPDX-License-Identifier: MIT
#include "devices/gpu/tensor_maps.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace uopd::devices::gpu {

absl::StatusOr<std::vector<GpuTensorMap>> TensorMaps::For(
    const GpuApi& api, const std::vector<TensorMap>& descriptions,
    std::span<const GpuPointer> buffers) {
  std::vector<GpuTensorMap> out;
  if (descriptions.empty()) return out;
  if (!api.EncodeTensorMap)
    return absl::UnimplementedError(
        absl::StrCat("The ", api.library, " driver has no maps of tensors"));
  MutexLock lock(mu_);
  for (const TensorMap& d : descriptions) {
    const GpuPointer address = buffers[static_cast<size_t>(d.slot)];
    const auto found = std::ranges::find_if(
        made_, [&](const Made& m) { return m.address == address && m.description == d; });
    if (found != made_.end()) {
      out.push_back(found->map);
      continue;
    }
    Made made{address, d, {}};
    const GpuOutcome outcome = api.EncodeTensorMap(&made.map, address, &d);
    if (outcome.result != kSuccess)
      return absl::InternalError(absl::StrCat(outcome.call, " fails with ",
                                              api.name_of(outcome.result), " for slot ", d.slot));
    out.push_back(made.map);
    if (made_.size() < kKept) {
      made_.push_back(std::move(made));
    } else {
      made_[next_] = std::move(made);
      next_ = (next_ + 1) % kKept;
    }
  }
  return out;
}

}  // namespace uopd::devices::gpu
