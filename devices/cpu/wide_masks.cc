// SPDX-License-Identifier: MIT
#include "devices/cpu/wide_masks.h"

#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "devices/cpu/cpu_target.h"

namespace uopd::devices::cpu {
namespace {

// A masked load or store.
struct Access {
  llvm::IntrinsicInst* call = nullptr;
  bool store = false;

  llvm::Value* stored() const { return call->getArgOperand(0); }
  llvm::Value* pointer() const { return call->getArgOperand(store ? 1 : 0); }
  llvm::Align align() const {
    return llvm::cast<llvm::ConstantInt>(call->getArgOperand(store ? 2 : 1))->getAlignValue();
  }
  llvm::Value* mask() const { return call->getArgOperand(store ? 3 : 2); }
  llvm::Value* otherwise() const { return call->getArgOperand(3); }
  llvm::FixedVectorType* type() const {
    return llvm::cast<llvm::FixedVectorType>(store ? stored()->getType() : call->getType());
  }
};

// Whether LLVM would split it. Constant masks are split rightly; lanes below 32 bits have no masked
// instructions.
bool IsWide(const Access& access, unsigned register_bits) {
  const unsigned lane = access.type()->getScalarSizeInBits();
  return (lane == 32 || lane == 64) && access.type()->getNumElements() * lane > register_bits &&
         !llvm::isa<llvm::Constant>(access.mask());
}

llvm::Value* Lanes(llvm::IRBuilder<>& ir, llvm::Value* vector, unsigned first, unsigned count) {
  std::vector<int> lanes(count);
  std::iota(lanes.begin(), lanes.end(), static_cast<int>(first));
  return ir.CreateShuffleVector(vector, lanes);
}

// The mask as LLVM cannot see through it.
llvm::Value* Hidden(llvm::IRBuilder<>& ir, llvm::Value* mask, unsigned lane_bits) {
  const unsigned lanes = llvm::cast<llvm::FixedVectorType>(mask->getType())->getNumElements();
  auto* const type = llvm::FixedVectorType::get(ir.getIntNTy(lane_bits), lanes);
  auto* const nothing = llvm::InlineAsm::get(llvm::FunctionType::get(type, {type}, false), "",
                                             "=x,0", /*hasSideEffects=*/false);
  llvm::Value* const wide = ir.CreateCall(nothing, {ir.CreateSExt(mask, type)});
  return ir.CreateICmpSLT(wide, llvm::Constant::getNullValue(type));
}

void Split(const Access& access, unsigned register_bits) {
  llvm::IRBuilder<> ir(access.call);
  llvm::Type* const element = access.type()->getElementType();
  const unsigned lane = access.type()->getScalarSizeInBits(),
                 lanes = access.type()->getNumElements();
  std::vector<llvm::Value*> parts;
  for (unsigned first = 0; first < lanes; first += register_bits / lane) {
    const unsigned count = std::min(register_bits / lane, lanes - first);
    const llvm::Align align = llvm::commonAlignment(access.align(), uint64_t{first} * (lane / 8));
    llvm::Value* const at = ir.CreateConstGEP1_64(element, access.pointer(), first);
    llvm::Value* const mask = Hidden(ir, Lanes(ir, access.mask(), first, count), lane);
    if (access.store) {
      ir.CreateMaskedStore(Lanes(ir, access.stored(), first, count), at, align, mask);
    } else {
      parts.push_back(ir.CreateMaskedLoad(llvm::FixedVectorType::get(element, count), at, align,
                                          mask, Lanes(ir, access.otherwise(), first, count)));
    }
  }
  if (!access.store) access.call->replaceAllUsesWith(llvm::concatenateVectors(ir, parts));
  access.call->eraseFromParent();
}

}  // namespace

void SplitWideMasks(llvm::Module& module, const CpuTarget& target) {
  if (!target.Has("avx") || target.Has("avx512f")) return;
  const auto register_bits = static_cast<unsigned>(8 * target.vector_bytes);
  std::vector<Access> found;
  for (llvm::Function& function : module) {
    for (llvm::Instruction& instruction : llvm::instructions(function)) {
      auto* const call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
      if (call == nullptr) continue;
      const bool store = call->getIntrinsicID() == llvm::Intrinsic::masked_store;
      if (!store && call->getIntrinsicID() != llvm::Intrinsic::masked_load) continue;
      if (const Access access{call, store}; IsWide(access, register_bits)) found.push_back(access);
    }
  }
  for (const Access& access : found) Split(access, register_bits);
}

}  // namespace uopd::devices::cpu
