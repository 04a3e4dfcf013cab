// SPDX-License-Identifier: MIT
// The enumeration of ops, facts about each op, and sets of ops. All of it comes from ops.def.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace uopd::ir {

enum class Op : uint8_t {
#define UOPD_OP(name, ...) name,
#include "core/ir/ops.def"
#undef UOPD_OP
};

#define UOPD_OP(...) +1
inline constexpr int kOpCount = 0
#include "core/ir/ops.def"
    ;
#undef UOPD_OP
static_assert(kOpCount <= 128, "OpSet holds 128 ops");

enum OpGroup : uint16_t {
  kDefine = 1 << 0,
  kVoid = 1 << 1,  // has no value: dtype is void
  kMovement = 1 << 2,
  kElementwise = 1 << 3,
  kUnary = 1 << 4,
  kBinary = 1 << 5,
  kTernary = 1 << 6,
  kCommutative = 1 << 7,
  kAssociative = 1 << 8,
  kIdempotent = 1 << 9,
  kComparison = 1 << 10,
  kFloatOnly = 1 << 11,
  kIntOnly = 1 << 12,  // integers, index and bool
};

// What the arg of a node is. Data args (everything but None, Const and Int) are integers plus a
// text, interned per context; the comment gives their meaning.
enum class ArgSchema : uint8_t {
  None,
  Const,    // the value, by dtype
  Int,      // one integer (an axis, a lane, a number of lanes)
  Ints,     // integers
  Text,     // text
  Param,    // {slot, addrspace} device
  Var,      // {min, max} name; of floats: name
  Special,  // {axis type, dimension}
  Reduce,   // {wire number of the op, axes...}
  Range,    // {axis id, axis type}
  Kernel,   // {} or {1} name: a kernel with a name
};

inline constexpr int kMany = 1 << 24;  // also the most sources any node may have

struct OpInfo {
  std::string_view name;
  uint16_t wire;
  uint16_t groups;
  int min_src, max_src;
  ArgSchema arg;
  std::string_view doc;
};

inline constexpr OpInfo kOps[] = {
#define UOPD_OP(name, wire, groups, min_src, max_src, arg, doc) \
  {#name, wire, groups, min_src, max_src, ArgSchema::arg, doc},
#include "core/ir/ops.def"
#undef UOPD_OP
};
constexpr const OpInfo& Info(Op op) { return kOps[static_cast<int>(op)]; }
inline std::string_view Name(Op op) { return Info(op).name; }
std::optional<Op> OpByName(std::string_view name);
std::optional<Op> OpByWire(uint64_t wire);

// A set of ops: two words.
struct OpSet {
  uint64_t words[2] = {0, 0};

  constexpr OpSet() = default;
  constexpr OpSet(std::initializer_list<Op> ops) {
    for (Op op : ops) Add(op);
  }
  constexpr void Add(Op op) { words[int(op) >> 6] |= uint64_t{1} << (int(op) & 63); }
  constexpr bool Has(Op op) const { return words[int(op) >> 6] >> (int(op) & 63) & 1; }
  constexpr OpSet operator|(OpSet o) const {
    OpSet r;
    r.words[0] = words[0] | o.words[0];
    r.words[1] = words[1] | o.words[1];
    return r;
  }
  static constexpr OpSet All() {
    OpSet r;
    r.words[0] = r.words[1] = ~uint64_t{0};
    return r;
  }
  static constexpr OpSet Of(uint16_t groups) {  // every op that is in any of these groups
    OpSet r;
    int i = 0;
#define UOPD_OP(name, wire, op_groups, ...)         \
  if (((op_groups) & groups) != 0) r.Add(Op::name); \
  ++i;
#include "core/ir/ops.def"
#undef UOPD_OP
    (void)i;
    return r;
  }
};

inline constexpr OpSet kMovementOps = OpSet::Of(kMovement);
inline constexpr OpSet kElementwiseOps = OpSet::Of(kElementwise);
inline constexpr OpSet kUnaryOps = OpSet::Of(kUnary);
inline constexpr OpSet kBinaryOps = OpSet::Of(kBinary);
inline constexpr OpSet kTernaryOps = OpSet::Of(kTernary);
inline constexpr OpSet kAluOps = OpSet::Of(kUnary | kBinary | kTernary);
inline constexpr OpSet kCommutativeOps = OpSet::Of(kCommutative);
inline constexpr OpSet kAssociativeOps = OpSet::Of(kAssociative);
inline constexpr OpSet kComparisonOps = OpSet::Of(kComparison);
// Ops that close loops: their sources from UOp::n_body() on are the ranges of these loops.
inline constexpr OpSet kClosingOps = OpSet{Op::END, Op::REDUCE, Op::STAGE};
inline constexpr OpSet kVoidOps = OpSet::Of(kVoid);
inline constexpr OpSet kFloatOnlyOps = OpSet::Of(kFloatOnly);
inline constexpr OpSet kIntOnlyOps = OpSet::Of(kIntOnly);
inline constexpr OpSet kArgOps = [] {  // ops with an arg
  OpSet out;
  for (int i = 0; i < kOpCount; ++i) {
    if (kOps[i].arg != ArgSchema::None) out.Add(static_cast<Op>(i));
  }
  return out;
}();

// Where storage lives. The numbers travel in PARAM and BUFFER args.
enum class AddrSpace : uint8_t { GLOBAL = 0, LOCAL = 1, REG = 2 };

// What a RANGE has become. The numbers travel in RANGE args; Order() sorts loops from outermost to
// innermost.
enum class AxisType : uint8_t {
  LOOP = 0,
  THREAD = 1,
  GLOBAL = 2,
  LOCAL = 3,
  REDUCE = 4,
  UPCAST = 5,
  UNROLL = 6,
  VECTOR = 7
};
inline constexpr int kAxisTypeCount = 8;
std::string_view Name(AxisType type);
std::string_view Name(AddrSpace space);
std::optional<AxisType> AxisTypeByName(std::string_view name);
std::optional<AddrSpace> AddrSpaceByName(std::string_view name);

}  // namespace uopd::ir
