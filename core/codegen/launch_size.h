// SPDX-License-Identifier: MIT
// The dimensions of a launch: integer expressions over the variables of a kernel.
//
// Codegen makes them; the launch evaluates them with the values of that run. Plain data without a
// context, so the cache can store them. Immutable; any thread may read them.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/bytes.h"
#include "core/base/target/launch_shape.h"
#include "core/ir/op.h"
#include "core/ir/uop.h"

namespace uopd::codegen {

class LaunchSize {
 public:
  static constexpr size_t kMaxSteps = 64;

  LaunchSize(int64_t constant = 1) : constant_(constant) {}  // NOLINT: a number is a size

  // The size that the index expression `size` describes. `variables` are names, in launch order.
  // UNIMPLEMENTED if `size` depends on anything but variables and constants, or needs more than
  // kMaxSteps steps.
  static absl::StatusOr<LaunchSize> Of(ir::UOp size, std::span<const std::string> variables);

  bool is_constant() const { return steps_.empty(); }
  // REQUIRES: one value per variable, in launch order. Arithmetic wraps at 64 bits.
  int64_t Evaluate(std::span<const int64_t> values) const;
  bool operator==(const LaunchSize&) const = default;

  void Encode(std::string& out) const;
  // False unless the bytes are a valid size over `variables` variables.
  static bool Decode(ByteReader& in, size_t variables, LaunchSize& out);

 private:
  // One operation. Steps run in order; the last result is the size. A source is the position of an
  // earlier step.
  struct Step {
    ir::Op op = ir::Op::CONST;
    int64_t value = 0;  // CONST: its value; DEFINE_VAR: the position of the variable
    std::array<uint32_t, 2> srcs{};
    bool operator==(const Step&) const = default;
  };

  int64_t constant_ = 1;
  std::vector<Step> steps_;  // empty: the size is constant_
};

struct LaunchGeometry {
  LaunchSize grid[3], block[3];
  int64_t shared_bytes = 0;
  std::vector<TensorMap> maps;  // what the kernel copies boxes of, in the order of its parameters
  bool operator==(const LaunchGeometry&) const = default;

  // The dimensions for these values of the variables, as in LaunchSize::Evaluate.
  LaunchShape At(std::span<const int64_t> variables) const;
  void Encode(std::string& out) const;
  static bool Decode(ByteReader& in, size_t variables, LaunchGeometry& out);
};

}  // namespace uopd::codegen
