// SPDX-License-Identifier: MIT
#include "server/worker/tune/check_outputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/text.h"

namespace uopd::worker {
namespace {

double ToleranceOf(ir::Dtype dtype) {
  switch (dtype) {
    case ir::Dtype::F64:
      return 1e-10;
    case ir::Dtype::F32:
      return 1e-4;
    case ir::Dtype::TF32:
    case ir::Dtype::F16:
      return 4e-3;
    case ir::Dtype::BF16:
      return 2e-2;
    default:
      return 0.25;  // 8-bit floats: two to three bits of mantissa
  }
}

double At(ir::Dtype dtype, std::string_view bytes, size_t i, size_t width) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + i * width, width);
  return ir::DecodeFloat(dtype, bits);
}

absl::Status Differs(size_t i, const std::string& reference, const std::string& got) {
  return absl::InternalError(
      Cat("element ", i, " of the output is ", got, " where the reference has ", reference));
}

}  // namespace

absl::Status CheckOutputs(ir::Dtype dtype, std::string_view reference, std::string_view got) {
  if (reference.size() != got.size()) {
    return absl::InternalError(
        Cat("the output has ", got.size(), " bytes where the reference has ", reference.size()));
  }
  if (reference == got) return absl::OkStatus();
  const auto width = static_cast<size_t>(ir::ByteSize(dtype));
  const size_t count = reference.size() / width;
  if (!ir::IsFloat(dtype)) {
    const auto at = std::mismatch(reference.begin(), reference.end(), got.begin()).first;
    const size_t i = static_cast<size_t>(at - reference.begin()) / width;
    uint64_t a = 0, b = 0;
    if (i < count) {
      std::memcpy(&a, reference.data() + i * width, width);
      std::memcpy(&b, got.data() + i * width, width);
    }
    return Differs(i, Cat("bits ", a), Cat("bits ", b));
  }
  double scale = 1;
  for (size_t i = 0; i < count; ++i) {
    const double v = std::abs(At(dtype, reference, i, width));
    if (std::isfinite(v)) scale = std::max(scale, v);
  }
  const double bound = scale * ToleranceOf(dtype);
  for (size_t i = 0; i < count; ++i) {
    const double a = At(dtype, reference, i, width), b = At(dtype, got, i, width);
    const bool same = a == b || (std::isnan(a) && std::isnan(b));
    if (!same && !(std::abs(a - b) <= bound)) return Differs(i, Cat(a), Cat(b));
  }
  return absl::OkStatus();
}

}  // namespace uopd::worker
