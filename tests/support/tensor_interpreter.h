// SPDX-License-Identifier: MIT
// TensorInterpreter: a deliberately naive evaluator of tensor graphs on host arrays. The reference
// for the whole pipeline.
//
// Every value becomes a whole array of ir::Scalars, computed element by element with ir::EvalAlu;
// nothing is fused, reordered or shared with the compiler under test. Reductions combine in
// row-major order and round to the dtype after every step, so F64 graphs are exact to double
// precision.
//
// Stores: a PARAM that is read without an AFTER has its contents from before the run. AFTER(x,
// STOREs) is x with these stores applied in order. Run returns every slot with the stores of the
// SINK applied in the order of its sources.
//
// REQUIRES: graphs passed ir::Verify(..., Level::kTensor). Errors are INVALID_ARGUMENT for slots
// and variables that do not fit.
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/ir/analysis/eval.h"
#include "core/ir/context.h"
#include "core/ir/shape.h"

namespace uopd::test {

// A dense row-major array; the rank-0 array has one element.
struct HostArray {
  ir::Dtype dtype = ir::Dtype::Void;
  ir::Dims dims;
  std::vector<ir::Scalar> values;

  static HostArray Zeros(ir::Dtype dtype, ir::Dims dims);
  // The values are rounded or wrapped to the dtype. REQUIRES: as many values as elements.
  static HostArray Of(ir::Dtype dtype, ir::Dims dims, std::span<const double> values);
  // The bytes are little-endian elements, as in a buffer.
  static HostArray FromBytes(ir::Dtype dtype, ir::Dims dims, std::string_view bytes);
  std::string ToBytes() const;
  std::vector<double> ToDoubles() const;
};

class TensorInterpreter {
 public:
  explicit TensorInterpreter(ir::UOpContext& ctx) : ctx_(ctx) {}

  // `slots`: by PARAM number; unused ones may be anything. The layout of a slot uses the maximum of
  // every symbolic dimension.
  absl::StatusOr<std::vector<HostArray>> Run(ir::UOp sink, std::vector<HostArray> slots,
                                             const std::map<std::string, int64_t>& variables = {});
  // Evaluates one value. REQUIRES: the graph of the value contains no STORE.
  absl::StatusOr<HostArray> Evaluate(ir::UOp value, const std::vector<HostArray>& slots,
                                     const std::map<std::string, int64_t>& variables = {});

 private:
  ir::UOpContext& ctx_;
};

}  // namespace uopd::test
