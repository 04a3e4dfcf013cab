// SPDX-License-Identifier: MIT
// The buffers of the jobs "measure" of one worker. Those of the last job stay for the next one: the
// candidates of a kernel have the same buffers, and to allocate and fill them takes longer than to
// run most kernels.
//
// A guard of bytes that no kernel writes is behind each buffer. Each buffer begins with the pattern
// of its slot (FillPattern). Used by one thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/ir/dtype.h"
#include "devices/api/device.h"

namespace uopd::worker {

// Deterministic contents for the buffers of measured kernels.
//
// The same dtype, seed and size give the same bytes in every process. The values are harmless.
// Floats are in (-1, 1), without zeros, denormals, infinities or NaNs, which would change times and
// hide differences. Integers are in [1, 16], so that nothing is divided by zero. Bools take both
// values.
//
// Bytes after the last whole element become 0. REQUIRES: values of the dtype can be stored.
void FillPattern(ir::Dtype dtype, uint64_t seed, std::span<std::byte> out);

struct MeasureBuffer {
  ir::Dtype dtype = ir::Dtype::F32;
  uint64_t bytes = 0;
  bool read = false, written = false;

  bool operator==(const MeasureBuffer&) const = default;
};

class MeasureBuffers {
 public:
  // Prepares one buffer for each of `wanted`, in the order of slots. `fresh`: each holds its
  // pattern. Otherwise those that a kernel only writes may hold what another run has left. Buffers
  // that cannot be used again are freed first.
  absl::Status Take(std::shared_ptr<devices::Device> device, std::span<const MeasureBuffer> wanted,
                    bool fresh, devices::Stream& stream);
  // Frees all. A job whose kernel may have written anywhere calls this.
  void Drop();

  // Writes the pattern of the slot again.
  absl::Status Fill(size_t slot, devices::Stream& stream) { return Fill(slot, false, stream); }
  // INTERNAL: a kernel wrote behind a buffer.
  absl::Status CheckGuards(devices::Stream& stream) const;
  const std::vector<std::shared_ptr<devices::Buffer>>& buffers() const { return buffers_; }

 private:
  absl::Status Fill(size_t slot, bool guard, devices::Stream& stream);

  std::shared_ptr<devices::Device> device_;
  std::vector<MeasureBuffer> kinds_;
  std::vector<std::shared_ptr<devices::Buffer>> buffers_;
};

}  // namespace uopd::worker
