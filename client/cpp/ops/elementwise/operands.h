// SPDX-License-Identifier: MIT
// The operands of an elementwise operation: promotion, and the first error. Internal to the
// library.
#pragma once
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "client/cpp/graph/build.h"
#include "core/ir/build.h"
#include "uopd/tensor.h"

namespace uopd::client {

// The dtype of a tensor's dtype and a C++ number.
inline Dtype WithNumber(Dtype tensor, const Operand& number) {
  if (number.is_bool()) return tensor;
  if (number.is_integer()) return tensor == Dtype::Bool ? Dtype::I32 : tensor;
  return ir::IsFloat(tensor) ? tensor : Dtype::F32;
}

// The operands of one elementwise op as values of one dtype and one client, or the first error of
// an operand.
class Operands {
 public:
  Operands(std::string_view what, std::initializer_list<const Operand*> all)
      : what_(what), all_(all) {
    Dtype dtype = Dtype::Void;
    bool sizes = false;
    for (const Operand* o : all_) {
      if (o->tensor() == nullptr) continue;
      if (leader_ == nullptr) {
        leader_ = o->tensor();
        site_ = o->site();
      }
      if (!o->tensor()->status().ok()) {
        failed_ = *o->tensor();
        if (o->tensor()->state() == nullptr)
          failed_ = Poisoned(nullptr, Located(what, o->site(), o->tensor()->status()));
        return;
      }
      if (o->tensor()->state()->graph != leader_->state()->graph) {
        failed_ = Wrong(*leader_, what, o->site(), "operands belong to different clients");
        return;
      }
      if (IsSize(*o->tensor())) {
        sizes = true;
        continue;
      }
      dtype =
          dtype == Dtype::Void ? o->tensor()->dtype() : ir::Promote(dtype, o->tensor()->dtype());
    }
    if (leader_ == nullptr) {
      failed_ =
          Poisoned(nullptr, absl::InvalidArgumentError(Cat(what, ": no operand is a tensor")));
      return;
    }
    if (sizes)
      dtype = dtype == Dtype::Void ? Dtype::I64 : dtype == Dtype::Bool ? Dtype::I32 : dtype;
    for (const Operand* o : all_) {
      if (o->tensor() == nullptr) dtype = WithNumber(dtype, *o);
    }
    dtype_ = dtype;
  }

  bool ok() const { return failed_.state() == nullptr; }
  const Tensor& failed() const { return failed_; }
  const Tensor& leader() const { return *leader_; }
  ir::UOpContext& ctx() const { return Ctx(*leader_); }
  Site site() const { return site_; }
  Dtype dtype() const { return dtype_; }
  void set_dtype(Dtype d) { dtype_ = d; }

  ir::UOp operator[](size_t i) const {
    const Operand& o = *all_[i];
    if (o.tensor() != nullptr) return ir::Cast(ctx(), Value(*o.tensor()), dtype_);
    if (ir::IsFloat(dtype_)) return ctx().Float(dtype_, o.number());
    return o.is_integer() ? ctx().Int(dtype_, o.integer()) : ctx().Const(dtype_, o.number());
  }
  Tensor Make(ir::UOp u) const { return Made(*leader_, u, what_, site_); }

 private:
  std::string_view what_;
  std::vector<const Operand*> all_;
  const Tensor* leader_ = nullptr;
  Tensor failed_;
  Dtype dtype_ = Dtype::Void;
  Site site_ = Site::current();
};

// a / b, if b is 1 + e with e = exp(x): the sigmoid of x if a is e, else a times the sigmoid of -x.
// As quotients they, and their gradients, are infinity / infinity or 0 * infinity for large x.
std::optional<Tensor> MaybeSigmoid(const Operand& a, const Operand& b);

}  // namespace uopd::client
