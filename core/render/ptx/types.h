// SPDX-License-Identifier: MIT
// How values of the IR are held in PTX: registers, types of instructions, constants, versions.
//
// A value of 8 or 16 bits is a 32-bit register that holds it extended: by its sign if the dtype is
// signed, else by zeros. f16 is its bits. A bool is a predicate; in memory it is a byte. Registers
// are untyped (.b32): an instruction of any type of that size takes them.
#pragma once
#include <string>
#include <string_view>

#include "core/base/target/dtype_number.h"
#include "core/ir/uop.h"

namespace uopd::render {

enum PtxRegister : uint8_t { kPtxPredicate, kPtxHalf, kPtxWord, kPtxLong };

PtxRegister PtxRegisterOf(ir::Dtype d);
inline bool IsLongInPtx(ir::Dtype d) { return PtxRegisterOf(d) == kPtxLong; }

// The type of an instruction that moves a register: "pred", "b32", "f32", ...
std::string_view PtxMoveType(ir::Dtype d);
// The type of an instruction that computes: "s32", "u64", "f32", ... REQUIRES: neither bool nor
// f16.
std::string_view PtxAluType(ir::Dtype d);
// The type of a load or store of one element: "s8", "b32", ...
std::string_view PtxMemoryType(ir::Dtype d);
// The type of an operand of an mma, or of its sum: "bf16", "e4m3", ...
std::string_view PtxMatrixType(DtypeNumber d);

// A CONST as an operand of an instruction of its type. REQUIRES: not a bool.
std::string PtxConstant(ir::UOp constant);
std::string PtxFloat(ir::Dtype d, double value);  // of f32 or f64

// The oldest version of PTX that has the architecture ("sm_90a"), and the mma of fp8 if it is used:
// "8.4".
std::string PtxVersion(std::string_view arch, bool fp8);

}  // namespace uopd::render
