// SPDX-License-Identifier: MIT
// TensorInterpreter: a deliberately naive evaluator of tensor-level graphs on host arrays, to test
// everything else against.
//
// Every value becomes a whole array of ir::Scalars, computed element by element with ir::EvalAlu;
// nothing is fused, reordered or shared with the pipeline under test. Reductions combine in
// row-major order and round to the dtype after every step, so F64 graphs are exact to double
// precision.
//
// Stores: a PARAM is its contents before the run wherever it is read bare; AFTER(x, STOREs) is x
// with those stores applied in their order. Run returns every slot with the stores of the SINK
// applied in the order of its sources.
//
// REQUIRES: graphs passed ir::Verify(..., Stage::kTensor). Errors are INVALID_ARGUMENT for slots
// and variables that do not fit.
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/ir/context.h"
#include "core/ir/eval.h"
#include "core/ir/shape.h"

namespace uopd::testing {

// A dense row-major array; the rank-0 array has one element.
struct HostArray {
  ir::Dtype dtype = ir::Dtype::Void;
  ir::Dims dims;
  std::vector<ir::Scalar> values;

  static HostArray Zeros(ir::Dtype dtype, ir::Dims dims);
  // Rounded or wrapped to the dtype. REQUIRES: as many values as elements.
  static HostArray Of(ir::Dtype dtype, ir::Dims dims, std::span<const double> values);
  // Little-endian elements as buffers hold them.
  static HostArray FromBytes(ir::Dtype dtype, ir::Dims dims, std::string_view bytes);
  std::string ToBytes() const;
  std::vector<double> ToDoubles() const;
};

class TensorInterpreter {
 public:
  explicit TensorInterpreter(ir::UOpContext& ctx) : ctx_(ctx) {}

  // Slots by PARAM number (unused ones may be anything). A slot is laid out with the largest value
  // of
  absl::StatusOr<std::vector<HostArray>> Run(ir::UOp sink, std::vector<HostArray> slots,
                                             const std::map<std::string, int64_t>& variables = {});
  // One value. REQUIRES: no node under it stores.
  absl::StatusOr<HostArray> Evaluate(ir::UOp value, const std::vector<HostArray>& slots,
                                     const std::map<std::string, int64_t>& variables = {});

 private:
  ir::UOpContext& ctx_;
};

}  // namespace uopd::testing
