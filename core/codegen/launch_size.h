// SPDX-License-Identifier: MIT
// The dimensions of a launch: integers that may depend on the variables of the kernel, evaluated
// when the kernel is launched.
//
// Plain data without a context: what the cache keeps. Immutable, freely shared.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/bytes.h"
#include "core/ir/op.h"
#include "core/ir/uop.h"

namespace uopd::codegen {

class LaunchSize {
 public:
  static constexpr size_t kMaxSteps = 64;

  LaunchSize(int64_t constant = 1) : constant_(constant) {}  // NOLINT: a number is a size

  // The value of `size`, an index expression over `variables` (by their order at launch).
  // UNIMPLEMENTED for one that depends on anything else or has more than kMaxSteps operations.
  static absl::StatusOr<LaunchSize> Of(ir::UOp size, std::span<const std::string> variables);

  bool is_constant() const { return steps_.empty(); }
  // REQUIRES: as many values as there were variables. A value that leaves 64 bits wraps.
  int64_t Evaluate(std::span<const int64_t> values) const;
  bool operator==(const LaunchSize&) const = default;

  void Encode(std::string& out) const;
  // False for bytes that are no size over `variables` variables.
  static bool Decode(ByteReader& in, size_t variables, LaunchSize& out);

 private:
  // One operation, in order; the last one is the size. A source is the number of an earlier step.
  struct Step {
    ir::Op op = ir::Op::CONST;
    int64_t value = 0;  // CONST: itself; DEFINE_VAR: which variable
    std::array<uint32_t, 2> srcs{};
    bool operator==(const Step&) const = default;
  };

  int64_t constant_ = 1;
  std::vector<Step> steps_;  // empty: the constant
};

struct LaunchGeometry {
  LaunchSize grid[3], block[3];
  int64_t shared_bytes = 0;
  bool operator==(const LaunchGeometry&) const = default;

  void Encode(std::string& out) const;
  static bool Decode(ByteReader& in, size_t variables, LaunchGeometry& out);
};

}  // namespace uopd::codegen
