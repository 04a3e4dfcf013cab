// SPDX-License-Identifier: MIT
// What the reader of ONNX files says to bytes that are wrong.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "core/base/status.h"
#include "uopd/onnx.h"

namespace uopd::client {

// "" for a model that is right.
inline std::string OnnxComplaint(std::string_view file) {
  const auto model = ParseOnnx(file);
  if (model.ok()) return "";
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument) << model.status();
  return StatusText(model.status());
}

// The contents of a tensor.
inline std::string OnnxContents(std::string_view file, const OnnxTensor& tensor) {
  std::string out(tensor.bytes(), '\xee');
  const absl::Status status = ReadOnnx(file, tensor, out);
  EXPECT_TRUE(status.ok()) << status;
  return out;
}

}  // namespace uopd::client
