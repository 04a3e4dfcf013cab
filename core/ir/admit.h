// SPDX-License-Identifier: MIT
// What may come in from a client: the allow-list of admit.def, and which texts.
//
// The scheduler and all that follows handle what is on the list, and tests/fuzz/admit_test.cc holds
// them to it. Sizes are known before a run: an index value is made of constants and variables
// alone, never of what a tensor holds.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/status.h"
#include "core/ir/uop.h"

namespace uopd::ir {

// What a node can serve as. Bits: a comparison of sizes is a tensor and a truth.
enum Kind : uint16_t {
  kNone = 0,
  kTensorKind = 1 << 0,     // a value of a stored dtype
  kScalarKind = 1 << 1,     // one index value
  kShapeKind = 1 << 2,      // a STACK of index values
  kTruthKind = 1 << 3,      // a comparison of index values, or a constant of bool
  kVariableKind = 1 << 4,   // DEFINE_VAR
  kConstantKind = 1 << 5,   // CONST
  kStatementKind = 1 << 6,  // STORE
  kWrittenKind = 1 << 7,    // a value that may be in memory: PARAM, MULTI, AFTER, views of them
};
uint16_t KindOf(UOp u);

// A set of dtypes: bit i stands for the i-th.
constexpr uint32_t Bit(Dtype d) { return uint32_t{1} << static_cast<int>(d); }

struct AdmitLine {
  Op op;
  uint32_t dtypes;
  uint16_t sources[3];  // the last one also for those that follow
  std::string_view reason;
};
std::span<const AdmitLine> AdmitLines();

// The ops that have a line.
inline constexpr OpSet kAdmittedOps = [] {
  OpSet out;
#define UOPD_ADMIT(op, ...) out.Add(Op::op);
#include "core/ir/admit.def"
#undef UOPD_ADMIT
  return out;
}();

// INVALID_ARGUMENT if no line admits u, or an arg of it is one that only later stages make. A
// client keeps its memory in BUFFERs, which become PARAMs before they are sent: `buffers` admits
// those. REQUIRES: the sources of u passed.
absl::Status Admit(UOp u, bool buffers);

// Names of devices and variables: up to 256 letters, digits and _ . : / -, so that they can stand
// in any log, page, file and source text as they are.
inline constexpr std::size_t kMaxName = 256;
bool IsName(std::string_view text);

}  // namespace uopd::ir
