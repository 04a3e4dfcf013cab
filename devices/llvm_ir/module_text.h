// SPDX-License-Identifier: MIT
// What the compilers of LLVM IR share: text to a verified module, the passes over it, and messages.
//
// Stateless; each call works on the caller's own context. LLVM aborts the process if it cannot
// select an instruction. So text from outside is never compiled.
#pragma once
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PassManager.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace uopd::devices::llvm_ir {

// INTERNAL, with what is wrong and the first lines of the source.
absl::Status CompileError(const std::string& what, std::string_view source);

// A module for the machine's target. From now on the errors that LLVM reports in the context are
// appended to `errors`, which outlives the context. INTERNAL: the text is wrong, or defines no
// function.
absl::StatusOr<std::unique_ptr<llvm::Module>> Parse(std::string_view source,
                                                    const llvm::TargetMachine& machine,
                                                    llvm::LLVMContext& context,
                                                    std::string& errors);

// The passes of O2.
void Optimize(llvm::Module& module, llvm::TargetMachine& machine);
void RunPasses(llvm::Module& module, llvm::TargetMachine& machine, llvm::ModulePassManager passes);

}  // namespace uopd::devices::llvm_ir
