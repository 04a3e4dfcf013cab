// SPDX-License-Identifier: MIT
// Reads and writes .npy files (NumPy's format, versions 1 to 3): little-endian, C order, the dtypes
// that NumPy has.
//
// Files are not trusted: reading checks everything. Errors are INVALID_ARGUMENT and say what is
// wrong.
#pragma once
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/ir/dtype.h"
#include "core/ir/shape.h"

namespace uopd::client {

struct NpyArray {
  ir::Dtype dtype = ir::Dtype::F32;
  ir::Dims dims;
  std::string bytes;
};

absl::StatusOr<NpyArray> ParseNpy(std::string_view file);
// INVALID_ARGUMENT for a dtype that NumPy lacks (bf16, fp8).
absl::StatusOr<std::string> FormatNpy(const NpyArray& array);

}  // namespace uopd::client
