// SPDX-License-Identifier: MIT
// The types of elements of ONNX tensors.
#include <gtest/gtest.h>

#include "uopd/onnx.h"

namespace uopd::client {
namespace {

TEST(OnnxElementTypes, AreThoseOfTheFormat) {
  int32_t next = 1;
  for (const OnnxElementType& t : OnnxElementTypes()) {
    EXPECT_EQ(t.number, next++) << "no number is left out";
    EXPECT_EQ(FindOnnxElementType(t.number), &t);
    if (t.dtype) {
      EXPECT_EQ(t.bits, ir::Bits(*t.dtype)) << t.name;
    }
  }
  EXPECT_EQ(OnnxElementTypes().size(), 26u);
  EXPECT_EQ(FindOnnxElementType(22)->name, "INT4");
  EXPECT_EQ(FindOnnxElementType(15)->bits, 128);
  for (const int64_t number : {int64_t{0}, int64_t{27}, int64_t{-1}, (int64_t{1} << 32) + 1})
    EXPECT_EQ(FindOnnxElementType(number), nullptr) << number;
}

}  // namespace
}  // namespace uopd::client
