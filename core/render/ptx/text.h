// SPDX-License-Identifier: MIT
// The text of a kernel in PTX while it is written: instructions, registers, labels, and the
// operands of each value.
//
// Not thread-safe. The context must outlive the object.
#pragma once
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/text.h"
#include "core/render/lines.h"
#include "core/render/ptx/types.h"

namespace uopd::render {

class PtxText {
 public:
  explicit PtxText(ir::UOpContext& ctx) : ctx_(ctx) {}

  ir::UOpContext& ctx() const { return ctx_; }
  const std::string& body() const { return body_; }

  // An instruction.
  template <class... T>
  void Put(const T&... parts) {
    Append(body_, "  ", parts..., ";\n");
  }
  // The same, done where a predicate is true; always if it is "".
  template <class... T>
  void PutIf(const std::string& predicate, const T&... parts) {
    Append(body_, "  ", predicate.empty() ? "" : "@", predicate, predicate.empty() ? "" : " ",
           parts..., ";\n");
  }
  // An instruction whose first operand is a new register, which it returns. The instruction's name,
  // and the other operands with their commas.
  template <class... T>
  std::string New(PtxRegister kind, std::string_view instruction, const T&... operands) {
    std::string out = Fresh(kind);
    Put(instruction, " ", out, ", ", operands...);
    return out;
  }
  std::string Fresh(PtxRegister kind);
  std::string Fresh(ir::Dtype d) { return Fresh(PtxRegisterOf(d)); }

  std::string FreshLabel() { return Cat("$L", labels_++); }
  void Label(const std::string& label) { Append(body_, label, ":\n"); }

  // A variable of the function.
  template <class... T>
  void Declare(const T&... parts) {
    Append(declarations_, "  ", parts..., ";\n");
  }
  // All declarations, those of registers too.
  std::string Declarations() const;

  // The operands of a value, one for each lane: registers and constants.
  void Set(ir::UOp u, std::vector<std::string> lanes) { values_[u.id()] = std::move(lanes); }
  // Makes each lane of a value.
  void Define(ir::UOp u, const std::function<std::string(int64_t lane)>& make);
  // A lane of a value, or the scalar that stands for all lanes: a register or a constant.
  std::string Operand(ir::UOp u, int64_t lane = 0);
  // The same, always a register.
  std::string Register(ir::UOp u, int64_t lane = 0);

 private:
  ir::UOpContext& ctx_;
  std::string body_, declarations_;
  int64_t registers_[4] = {};  // by PtxRegister
  int64_t labels_ = 0;
  absl::flat_hash_map<uint32_t, std::vector<std::string>> values_;  // by node id
};

}  // namespace uopd::render
