// SPDX-License-Identifier: MIT
// Operations on values as PTX: arithmetic, comparisons, conversions, lanes of vectors.
//
// Floats are rounded to nearest at every operation (.rn), so that no compiler contracts two of
// them, and keep their denormals.
#pragma once
#include "core/base/status.h"
#include "core/render/ptx/text.h"

namespace uopd::render {

// The UNIMPLEMENTED error of a line that has no rendering.
absl::Status NoPtx(ir::UOp u);

// Not thread-safe. The text must outlive it.
class PtxValues {
 public:
  explicit PtxValues(PtxText& text) : text_(text) {}

  // An elementwise op, STACK or GEP. UNIMPLEMENTED names an op that has no rendering: functions of
  // f64 but SQRT and TRUNC.
  absl::Status Line(ir::UOp u);

 private:
  absl::Status Alu(ir::UOp u);
  absl::Status Cast(ir::UOp u);
  absl::Status Bitcast(ir::UOp u);
  // One lane of a result.
  std::string AluLane(ir::UOp u, int64_t lane, std::string_view instruction);
  std::string Shifted(ir::UOp u, int64_t lane);
  std::string Compared(ir::UOp u, int64_t lane);
  std::string OfBools(ir::UOp u, int64_t lane, std::string_view instruction);
  std::string Selected(ir::UOp u, int64_t lane);
  std::string Converted(ir::Dtype from, ir::Dtype to, const std::string& x);
  std::string FromBool(ir::Dtype to, const std::string& x);
  std::string IntToInt(ir::Dtype from, ir::Dtype to, const std::string& x);
  std::string FloatToInt(ir::Dtype from, ir::Dtype to, const std::string& x);
  std::string HalfToFloat(const std::string& x);
  std::string ToHalf(ir::Dtype from, const std::string& x);
  // A 32-bit register cut to the width of the dtype and extended again.
  std::string Wrapped(ir::Dtype d, const std::string& x);

  PtxText& text_;
};

}  // namespace uopd::render
