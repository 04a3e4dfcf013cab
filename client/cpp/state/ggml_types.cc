// SPDX-License-Identifier: MIT
// The types of GGML. client/python/src/uopd/llm/ggml.py has what makes floats of their blocks.
#include <algorithm>

#include "uopd/gguf.h"

namespace uopd::client {
namespace {

constexpr GgmlType kGgmlTypes[] = {
    {0, "F32", 1, 4, Dtype::F32},  {1, "F16", 1, 2, Dtype::F16},
    {2, "Q4_0", 32, 18},           {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},           {7, "Q5_1", 32, 24},
    {8, "Q8_0", 32, 34},           {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},        {12, "Q4_K", 256, 144},
    {13, "Q5_K", 256, 176},        {14, "Q6_K", 256, 210},
    {15, "Q8_K", 256, 292},        {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74},       {18, "IQ3_XXS", 256, 98},
    {20, "IQ4_NL", 32, 18},        {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},        {23, "IQ4_XS", 256, 136},
    {24, "I8", 1, 1, Dtype::I8},   {25, "I16", 1, 2, Dtype::I16},
    {26, "I32", 1, 4, Dtype::I32}, {27, "I64", 1, 8, Dtype::I64},
    {28, "F64", 1, 8, Dtype::F64}, {30, "BF16", 1, 2, Dtype::BF16},
    {39, "MXFP4", 32, 17},         {41, "Q1_0", 128, 18},
};

}  // namespace

std::span<const GgmlType> GgmlTypes() { return kGgmlTypes; }

const GgmlType* FindGgmlType(uint32_t number) {
  const auto* const found = std::ranges::find(kGgmlTypes, number, &GgmlType::number);
  return found == std::end(kGgmlTypes) ? nullptr : found;
}

}  // namespace uopd::client
