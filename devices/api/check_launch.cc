// SPDX-License-Identifier: MIT
#include "devices/api/check_launch.h"

#include "core/base/status.h"

#include "absl/strings/str_cat.h"

namespace uopd::devices {
namespace {

absl::Status CheckDimensions(const char* what, const int64_t (&asked)[3],
                             const int64_t (&most)[3]) {
  for (int i = 0; i < 3; ++i) {
    if (asked[i] < 1 || asked[i] > most[i]) {
      return Invalid(absl::StrCat("Dimension ", i, " of the ", what, " (", asked[i],
                                  ") is not between 1 and ", most[i]));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckLaunch(const Device& device, const Executable& executable,
                         const LaunchShape& shape, size_t buffers, size_t vars) {
  const std::string& entry = executable.entry();
  const Target& limits = device.target();
  if (&executable.device() != &device) {
    return Invalid(absl::StrCat("Kernel ", entry, " is loaded on ", executable.device().info().name,
                                " and launched on a stream of ", device.info().name));
  }
  if (buffers != static_cast<size_t>(executable.args().buffers) ||
      vars != static_cast<size_t>(executable.args().vars)) {
    return Invalid(absl::StrCat("Kernel ", entry, " takes ", executable.args().buffers,
                                " buffers and ", executable.args().vars,
                                " variables, and is launched with ", buffers, " and ", vars));
  }
  UOPD_TRY(CheckDimensions("grid", shape.grid, limits.max_grid));
  UOPD_TRY(CheckDimensions("block", shape.block, limits.max_block));
  // Each dimension is bounded now, but the product of the dimensions can still overflow 64 bits. So
  // divide instead of multiplying.
  const int64_t rest = limits.max_block_threads / shape.block[0] / shape.block[1];
  if (shape.block[2] > rest) {
    return Invalid(absl::StrCat("A block of ", shape.block[0], " x ", shape.block[1], " x ",
                                shape.block[2], " threads is more than ",
                                limits.max_block_threads));
  }
  if (shape.shared_bytes < 0 || shape.shared_bytes > limits.shared_bytes) {
    return Invalid(absl::StrCat("Shared memory of ", shape.shared_bytes,
                                " bytes is not between 0 and ", limits.shared_bytes));
  }
  if (!shape.maps.empty() && !limits.bulk_copies)
    return Invalid(absl::StrCat("Kernel ", entry, " has maps of tensors, which ",
                                device.info().name, " does not"));
  for (const TensorMap& map : shape.maps) {
    if (map.slot < 0 || static_cast<size_t>(map.slot) >= buffers)
      return Invalid(absl::StrCat("A tensor lies in buffer ", map.slot, " of ", buffers));
    if (const std::string wrong = map.MaybeWrong(); !wrong.empty())
      return Invalid(absl::StrCat("In the map of buffer ", map.slot, " ", wrong));
  }
  return absl::OkStatus();
}

absl::Status CheckTensorsFit(const Executable& executable, const LaunchShape& shape,
                             std::span<const BufferArg> buffers) {
  for (const TensorMap& map : shape.maps) {
    const BufferArg& arg = buffers[static_cast<size_t>(map.slot)];
    const size_t left = arg.buffer->size() - arg.offset;
    const auto wanted = static_cast<size_t>(map.tensor_bytes());
    if (wanted <= left) continue;
    return Invalid(absl::StrCat("Kernel ", executable.entry(), " copies boxes of a tensor of ",
                                wanted, " bytes from buffer ", map.slot, ", which has ", left));
  }
  return absl::OkStatus();
}

}  // namespace uopd::devices
