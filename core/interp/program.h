// SPDX-License-Identifier: MIT
// Program: a linear kernel (docs/ir_linear.md), prepared for the interpreter (interpreter.h).
//
// Each line is an instruction over registers. A register holds one value for each thread and lane
// of a block, so an instruction is a loop over all threads. Constants are registers that never
// change.
//
// Invariants
//   (1) Sources of an instruction are registers that earlier instructions write, or constants.
//   (2) Every RANGE has one END; `end` of one is the position of the other. So have ROLE and
//       ROLE_END.
// Immutable after Make: any thread may run it.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/target/target.h"
#include "core/ir/context.h"
#include "core/ir/group_mma.h"
#include "core/ir/role.h"
#include "core/ir/tensor_map.h"

namespace uopd::interp {

union Value {
  int64_t i;  // integers and bool; u64 as its bits
  double f;   // floats, rounded to their dtype
};

struct Instruction;
// Computes n results. `src`: the operands, n values each.
using AluFunction = void (*)(const Instruction& in, Value* out, const Value* const* src, size_t n);

struct Operand {
  uint32_t reg = 0;
  uint32_t lanes = 0;  // 0: a scalar
};

enum class Kind : uint8_t {
  kAlu,
  kSpecial,
  kVariable,
  kLoad,
  kStore,
  kRange,
  kEnd,
  kStack,
  kLane,
  kShuffle,
  kBarrier,
  kWmmaBlock,
  kMma,
  kMatrixLoad,
  kAsyncCopy,
  kAsyncCommit,
  kAsyncWait,
  kGroupMma,
  kMmaBegin,
  kMmaCommit,
  kMmaWait,
  kSharedFence,
  kBulkInit,
  kBulkExpect,
  kBulkCopy,
  kBulkWait,
  kBulkArrive,
  kRole,
  kRoleEnd
};

struct Instruction {
  Kind kind = Kind::kAlu;
  ir::Op op = ir::Op::CONST;
  ir::Dtype dtype = ir::Dtype::Void;
  uint32_t line = 0;  // position among the lines of the kernel
  Operand out;
  std::vector<Operand> src;
  std::vector<ir::Dtype> src_dtypes;
  AluFunction alu = nullptr;
  // Of accesses: the array, and whether the last source is a gate. The first source is the index,
  // that of a STORE the second one is the value.
  uint32_t array = 0;
  bool gated = false;
  uint32_t end = 0;    // of RANGE and END, ROLE and ROLE_END: the position of the other
  int64_t number = 0;  // a lane, a mask, the number of a variable, or a tag
  int64_t matrix = 0;  // of MMA and GROUP_MMA: the position among the program's matrix instructions
  std::vector<int64_t>
      numbers;  // of SPECIAL: axis type, dimension; of WMMA_BLOCK, MATRIX_LOAD: its arg
  // Of WMMA_BLOCK and GROUP_MMA: sums, rows, columns. Of MMA_BEGIN and MMA_WAIT: accumulators.
  std::vector<uint32_t> arrays;
  ir::GroupMma group;  // of GROUP_MMA
  TensorMap map;       // of BULK_COPY
  ir::WarpRole role;   // of ROLE
  // Of ASYNC_COPY and BULK_COPY: `src` and `array` are the target's, these the source's. Of
  // BULK_COPY: the index of the barrier and the coordinates, and `arrays` has the array of the
  // barrier.
  std::vector<Operand> from;
  uint32_t from_array = 0;
  bool from_gated = false;
};

struct Array {
  ir::AddrSpace space = ir::AddrSpace::GLOBAL;
  ir::Dtype dtype = ir::Dtype::Void;
  int64_t elements = 0;  // of a PARAM: at most
  int64_t slot = 0;      // of a PARAM
  int64_t offset = 0;    // of a shared array: where it begins, in bytes (ir::SharedLayout)
};

class Program {
 public:
  // UNIMPLEMENTED names a line that the interpreter does not know. REQUIRES: the kernel passed
  // ir::Verify(..., Level::kLinear). `variables`: names, in launch order.
  // `matrix_instructions`: those of the target, which say which lane holds what.
  static absl::StatusOr<Program> Make(ir::UOpContext& ctx, ir::UOp linear,
                                      std::span<const std::string> variables,
                                      std::span<const MatrixInstruction> matrix_instructions = {});

  std::span<const Instruction> instructions() const { return instructions_; }
  std::span<const Array> arrays() const { return arrays_; }
  size_t registers() const { return registers_; }  // of one value per thread; a vector has several
  struct Constant {
    uint32_t reg;
    Value value;
  };
  std::span<const Constant> constants() const { return constants_; }
  // Whether the kernel is for a grid of blocks of threads; else for a row of threads.
  bool has_blocks() const { return has_blocks_; }
  // The threads of a block along dimension d that the kernel is for; 0: any number.
  int64_t block_size(size_t d) const { return block_size_[d]; }
  // The positions of the ROLEs, which are the last lines of the kernel.
  std::span<const uint32_t> roles() const { return roles_; }
  // The threads that the widest instruction of warps takes together; 1: there is none.
  int64_t group_lanes() const { return group_lanes_; }
  bool has_barriers() const { return has_barriers_; }
  bool Stores(uint32_t array) const { return stored_[array]; }
  size_t variables() const { return variables_; }
  const MatrixInstruction& matrix(const Instruction& in) const {
    return matrix_[static_cast<size_t>(in.matrix)];
  }
  // The text of a line, for reports.
  const std::string& LineText(uint32_t line) const { return texts_[line]; }

 private:
  friend class ProgramMaker;
  std::vector<Instruction> instructions_;
  std::vector<Array> arrays_;
  std::vector<Constant> constants_;
  std::vector<MatrixInstruction> matrix_;
  std::vector<bool> stored_;
  std::vector<std::string> texts_;
  size_t registers_ = 0, variables_ = 0;
  std::vector<uint32_t> roles_;
  int64_t group_lanes_ = 1;
  int64_t block_size_[3] = {0, 0, 0};
  bool has_blocks_ = false, has_barriers_ = false;
};

// The function of an elementwise op, or of a WMMA: a fast one, or one that calls ir::EvalAlu.
AluFunction AluOf(const Instruction& in);

}  // namespace uopd::interp
