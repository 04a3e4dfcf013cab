// SPDX-License-Identifier: MIT
// Admission: which nodes and names a client's graph may contain. Part of the verifier (spec.h), for
// the stages of client graphs. admit.def is the list of admitted nodes.
//
// Invariants
//   (1) The scheduler and all lower levels handle every admitted graph; tests/fuzz/admit_test.cc
//       checks this.
//   (2) Sizes are known before a run: an index value is computed from constants and variables,
//       never from elements of a tensor.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/status.h"
#include "core/ir/uop.h"

namespace uopd::ir {

// What a node can be used as, as a set of bits: a comparison of sizes is a tensor and a truth
// value.
enum Kind : uint16_t {
  kNone = 0,
  kTensorKind = 1 << 0,     // a value of a dtype that memory can hold
  kScalarKind = 1 << 1,     // one index value
  kShapeKind = 1 << 2,      // a STACK of index values
  kTruthKind = 1 << 3,      // a comparison of index values, or a constant of bool
  kVariableKind = 1 << 4,   // DEFINE_VAR
  kConstantKind = 1 << 5,   // CONST
  kStatementKind = 1 << 6,  // STORE
  kWrittenKind = 1 << 7,    // a value that may be in memory: PARAM, MULTI, AFTER, views of them
};
uint16_t KindsOf(UOp u);

// A dtype as an element of a set of dtypes.
constexpr uint32_t Bit(Dtype d) { return uint32_t{1} << static_cast<int>(d); }

// One line of admit.def.
struct AdmitLine {
  Op op;
  uint32_t dtypes;      // set of Bit
  uint16_t sources[3];  // sets of Kind for source 0, source 1, and sources 2 and later
  std::string_view reason;
};
std::span<const AdmitLine> AdmitLines();

// The ops that have a line.
inline constexpr OpSet kAdmittedOps = [] {
  OpSet out;
#define UOPD_ADMIT(op, ...) out.Add(Op::op);
#include "core/ir/verify/admit.def"
#undef UOPD_ADMIT
  return out;
}();

// INVALID_ARGUMENT if no line admits u, or if its arg is one that only lower levels make.
// `buffers`: BUFFERs are admitted too; a client's own graphs have them, and they become PARAMs
// before the graph is sent. REQUIRES: the sources of u passed.
absl::Status Admit(UOp u, bool buffers);

// True for a valid name of a device or variable: up to kMaxName letters, digits and _ . : / -. Such
// names need no escaping in logs, pages, files and source text.
inline constexpr std::size_t kMaxName = 256;
bool IsName(std::string_view text);

}  // namespace uopd::ir
