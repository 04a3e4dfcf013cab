// SPDX-License-Identifier: MIT
// The maps that launches pass to kernels which copy boxes of tensors (TensorMap): the driver makes
// one from the address of a buffer. A context keeps the latest ones, as launches repeat.
#pragma once
#include <span>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "devices/gpu/gpu_api.h"

namespace uopd::devices::gpu {

class TensorMaps {
 public:
  static constexpr size_t kKept = 256;

  // One map for each description, of the buffers at these addresses. INTERNAL: the driver takes no
  // such tensor, as an address that is no multiple of 16 bytes. UNIMPLEMENTED: it has no maps.
  // Thread-safe. REQUIRES: the slots are those of buffers.
  absl::StatusOr<std::vector<GpuTensorMap>> For(const GpuApi& api,
                                                const std::vector<TensorMap>& descriptions,
                                                std::span<const GpuPointer> buffers)
      UOPD_EXCLUDES(mu_);

 private:
  struct Made {
    GpuPointer address = 0;
    TensorMap description;
    GpuTensorMap map;
  };
  Mutex mu_;
  std::vector<Made> made_ UOPD_GUARDED_BY(mu_);  // a ring
  size_t next_ UOPD_GUARDED_BY(mu_) = 0;         // the one that is replaced next
};

}  // namespace uopd::devices::gpu
