// SPDX-License-Identifier: MIT
// Reads IDX files, the format of MNIST and similar data sets, gzipped or plain.
//
// Files are not trusted: reading checks everything and bounds the unpacked size. Errors are
// INVALID_ARGUMENT, or NOT_FOUND for a missing file, and name the file.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace uopd::client {

struct IdxArray {
  std::vector<int64_t> dims;
  std::string bytes;  // unsigned bytes, row-major
};

// If `file` starts like a gzip file, it is unpacked first, to at most `max_bytes`.
absl::StatusOr<IdxArray> ParseIdx(std::string_view file, size_t max_bytes = size_t{1} << 30);

struct Examples {
  int64_t count = 0, rows = 0, columns = 0;
  std::string images;  // count * rows * columns bytes
  std::string labels;  // count bytes
};

// Images and labels of a MNIST-like data set: PREFIX is "train" or "t10k". Takes
// train-images-idx3-ubyte as well as train-images.idx3-ubyte, each with or without .gz.
absl::StatusOr<Examples> LoadExamples(const std::string& folder, const std::string& prefix);

}  // namespace uopd::client
