// SPDX-License-Identifier: MIT
// The text of a function in LLVM IR while it is written line by line: the names of values,
// operands, constants, types and calls of intrinsics. The parts of the renderer share one LlvmText.
#pragma once
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/ir/context.h"

namespace uopd::render {

// The type of a value; empty: LLVM IR has no such type here.
std::string_view LlvmScalar(ir::Dtype d);
// The type of an element of a buffer: a bool takes a byte.
std::string_view LlvmInMemory(ir::Dtype d);
// lanes 0: a scalar.
std::string LlvmType(std::string_view scalar, int64_t lanes);
// A type as it is written in the name of an intrinsic.
std::string LlvmMangled(ir::Dtype d, int64_t lanes);

// UNIMPLEMENTED with the op and the dtype of u.
absl::Status NoLlvmRendering(ir::UOp u);

// Not thread-safe. The context must outlive it.
class LlvmText {
 public:
  explicit LlvmText(ir::UOpContext& ctx) : ctx_(ctx) {}

  // Adds a line to the body.
  template <class... T>
  void Put(const T&... parts) {
    Append(body, "  ");
    Append(body, parts...);
    body += '\n';
  }
  // Starts a block.
  void Label(std::string_view name);

  // A new name that is nobody's value.
  std::string Temporary() { return Cat("%t", next_temporary_++); }
  // A new name, which becomes that of u.
  const std::string& Fresh(ir::UOp u) { return names[u.id()] = Cat("%v", next_value_++); }

  // lanes 0: a scalar.
  static std::string Constant(ir::UOp u, int64_t lanes);
  // The text of u as a value with `lanes` lanes.
  std::string Operand(ir::UOp u, int64_t lanes);
  // A vector with the scalar in all lanes.
  std::string Splat(std::string_view value, std::string_view scalar, int64_t lanes);
  // Adds a line that chooses `yes` or `no`, both of this type, by a gate: one bool, or one for each
  // of n lanes.
  void PutSelect(std::string_view name, ir::UOp gate, int64_t n, std::string_view type,
                 std::string_view yes, std::string_view no);
  // The type of u, which counts for widest_bytes().
  std::string TypeOf(ir::UOp u);
  // A call, without the name of its result. Arguments are types and values. Declares the function.
  std::string Call(std::string_view name, std::string_view type,
                   std::initializer_list<std::pair<std::string, std::string>> args);

  int64_t widest_bytes() const { return widest_bytes_; }  // of all values so far
  const std::set<std::string>& declared() const { return declared_; }

  std::string body, registers;  // registers: the lines before the body that make arrays
  std::string block = "entry";  // the label of the current block
  absl::flat_hash_map<uint32_t, std::string> names;  // of values, by node id

 private:
  ir::UOpContext& ctx_;
  std::set<std::string> declared_;
  int64_t next_temporary_ = 0, next_value_ = 0, widest_bytes_ = 0;
};

}  // namespace uopd::render
