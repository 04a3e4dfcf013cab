// SPDX-License-Identifier: MIT
// Kernels for blocks of threads in a language of the C family (docs/ir_linear.md, "Blocks"): what
// the languages of GPUs share. A vector is one variable for each lane. An access of several lanes
// is done 16 bytes at a time where its address is known to be aligned, else lane by lane.
//
// In kernels whose threads wait for each other, or exchange values, all threads of a block poll
// together: a thread that returned alone would be missed.
#pragma once
#include <string>

#include "absl/container/flat_hash_map.h"
#include "core/ir/mma.h"
#include "core/ir/shared_array.h"
#include "core/render/block_kernel.h"
#include "core/render/c_like/writer.h"

namespace uopd::render {

class BlockWriter : public CLikeWriter {
 public:
  // A part of what stands before a function, written if the function uses it.
  struct Part {
    std::string_view uses;  // texts whose occurrence is a use, separated by spaces; "": always
    std::string_view text;
  };
  // Of every language; of languages of the C++ family that have no such types.
  static constexpr Part kSaturate{
      "SATURATE(",
      "// Truncates and saturates; NaN is 0.\n"
      "#define SATURATE(type, x, min, max, below, above) "
      "((x) != (x) ? (type)0 : (x) <= (below) ? (min) : (x) >= (above) ? (max) : (type)(x))\n"};
  static constexpr Part kIntegers{
      "",
      "typedef signed char int8_t;\ntypedef unsigned char uint8_t;\ntypedef short int16_t;\n"
      "typedef unsigned short uint16_t;\ntypedef int int32_t;\ntypedef unsigned int uint32_t;\n"
      "typedef long long int64_t;\ntypedef unsigned long long uint64_t;\n"};
  static constexpr Part kWideType{
      "Wide<", "template <class T, int n> struct alignas(sizeof(T) * n) Wide { T v[n]; };\n"};

 protected:
  using CLikeWriter::CLikeWriter;
  static constexpr int64_t kWideBytes = 16;  // of the widest access

  // The language's words.
  virtual std::string FunctionHead() const = 0;                 // before the kernel's name
  virtual std::string_view global_space() const { return ""; }  // before a pointer's type
  virtual std::string_view shared_space() const { return ""; }
  virtual std::string_view restrict_word() const { return "__restrict__"; }
  // Whether a load that a gate forbids is a load of element 0, of which the value is not used.
  virtual bool loads_without_branches() const { return false; }
  virtual std::string BlockNumber(int64_t dimension) const = 0;
  virtual std::string ThreadNumber(int64_t dimension) const = 0;
  virtual std::string_view barrier() const = 0;
  // The declaration of the shared arrays: `shared`, of so many bytes.
  virtual std::string SharedArrays(int64_t bytes) const = 0;
  // A shared int `stop_seen`.
  virtual std::string_view shared_word() const = 0;
  // Everything before the function.
  virtual std::string Prelude(const std::string& body) = 0;
  // A type of so many elements, 16 bytes or fewer, aligned to its size. "" if the language has
  // none.
  virtual std::string WideType(ir::Dtype d, int64_t lanes) = 0;
  virtual std::string WideLane(const std::string& wide, int64_t lane) const = 0;
  // The value of x in the thread whose number differs by the mask.
  virtual absl::StatusOr<std::string> Shuffled(ir::UOp u, const std::string& x, int64_t mask) = 0;
  // Statements that compute an MMA of the target's instruction. The sums are v<number>_<lane>.
  virtual absl::Status Mma(ir::UOp u, const MatrixInstruction& instruction) = 0;
  // Statements of a MATRIX_LOAD. The words are v<number>_<lane>. Not every language has it.
  virtual absl::Status MatrixLoad(ir::UOp u) { return NoRendering(u); }
  // ASYNC_COPY, ASYNC_COMMIT and ASYNC_WAIT. Not every language has them.
  virtual absl::Status Async(ir::UOp u) { return NoRendering(u); }
  // BULK_INIT, BULK_EXPECT, BULK_COPY, BULK_WAIT and BULK_ARRIVE. Not every language has them.
  virtual absl::Status Bulk(ir::UOp u) { return NoRendering(u); }
  // A role takes its number of registers. Not every language can.
  virtual absl::Status SetRegisters(const ir::WarpRole& /*role*/) {
    return absl::UnimplementedError("the language has no numbers of registers");
  }
  virtual std::string_view map_type() const { return ""; }  // of the parameter of a BULK_COPY's map
  // GROUP_MMA and the lines around it. Not every language has them.
  virtual absl::Status Group(ir::UOp u) { return NoRendering(u); }
  // What follows a pointer parameter, or a parameter, in the list: an attribute with its number.
  virtual std::string ParameterSuffix(size_t /*number*/) const { return ""; }
  // An int64_t parameter of that number.
  virtual std::string VariableParameter(size_t number) const {
    return Cat("const int64_t var", number);
  }
  virtual std::string_view extra_parameters() const { return ""; }

  // Polls of all threads together; the usual one goes through a shared word.
  virtual void PollTogether();

  std::string Module(const std::string& body) override;
  void Poll() override;
  void Begin() override;
  absl::Status OwnLine(ir::UOp u) override;

  static std::string UsedParts(std::span<const Part> parts, const std::string& body);

  int64_t threads() const { return kernel_.threads; }  // of a block; 0: not known
  const BlockKernel& kernel() const { return kernel_; }
  bool has_groups() const { return kernel_.has_groups; }
  int64_t shared_alignment() const { return kernel_.shared_alignment; }  // of all shared arrays
  // The element of an INDEX, `lane` further.
  std::string Place(ir::UOp index, int64_t lane) const;
  // The bytes from the begin of shared memory to the element of an INDEX of a shared array.
  std::string SharedPlace(ir::UOp index) const;
  // The type of an element in memory: a bool is a byte.
  std::string_view MemoryType(ir::Dtype d) const {
    return d == ir::Dtype::Bool ? "uint8_t" : Type(d);
  }

 private:
  absl::Status Array(ir::UOp u);
  absl::Status Special(ir::UOp u);
  absl::Status BeginRole(ir::UOp u);
  absl::Status Shuffle(ir::UOp u);
  absl::Status MatrixProduct(ir::UOp u);
  void Load(ir::UOp u);
  void Store(ir::UOp u);
  // The lanes that one access takes: 1, or more where the address is aligned.
  int64_t WideLanes(ir::UOp index);
  std::string_view SpaceOf(ir::UOp index) const;
  std::string WidePlace(ir::UOp index, const std::string& type, int64_t lane) const;

  Alignment alignment_;
  ir::SharedLayout shared_;
  absl::flat_hash_map<int64_t, int64_t> places_;  // of shared arrays, in bytes, by slot
  BlockKernel kernel_;
  bool polls_together_ = false;
};

}  // namespace uopd::render
