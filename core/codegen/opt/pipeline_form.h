// SPDX-License-Identifier: MIT
// PipelineForm: what the amount of a PIPELINE says. The last decimal digit is the number of parts of the shared arrays. The
// digit before it is the number of warps that a block has for copying alone, besides those that compute: none, one, or a
// whole group of four, which gives most of its registers to the others. PIPELINE(2, 44) has four parts and four such warps.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>

namespace uopd::codegen {

struct PipelineForm {
  static constexpr int64_t kMostParts = 8;
  static constexpr std::array<int64_t, 3> kProducerWarps = {0, 1, 4};

  int64_t parts = 2, producer_warps = 0;

  static PipelineForm Of(int64_t amount) { return {amount % 10, amount / 10}; }
  int64_t Amount() const { return parts + 10 * producer_warps; }
  bool IsValid() const {
    return parts >= 2 && parts <= kMostParts &&
           std::ranges::find(kProducerWarps, producer_warps) != kProducerWarps.end();
  }
};

}  // namespace uopd::codegen
