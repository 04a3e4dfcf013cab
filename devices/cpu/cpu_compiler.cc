// SPDX-License-Identifier: MIT
#include "devices/cpu/cpu_compiler.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/LoopRotation.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "devices/cpu/wide_masks.h"
#include "devices/llvm_ir/module_text.h"

namespace uopd::devices::cpu {
namespace {

void SetAttributes(llvm::Module& module, const CpuTarget& target) {
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    function.addFnAttr("tune-cpu", target.tune);
    // By default LLVM uses 256 bits on every processor that it knows by name. Our kernels are
    // faster with 512.
    function.addFnAttr("prefer-vector-width", std::to_string(8 * target.vector_bytes));
    function.setDoesNotThrow();  // no unwind tables: smaller objects, quicker loads
    function.removeFnAttr(llvm::Attribute::UWTable);
  }
}

// The passes for kernels whose text is in vectors already (core/render/llvm_ir.cc says so). The
// other passes of O2 take two thirds of the time of a compile and improve nothing in such kernels.
llvm::ModulePassManager LeanPasses() {
  llvm::FunctionPassManager passes;
  // First: InstCombine would move the values that a latch uses to the latch, in reverse order.
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::PreserveCFG));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  llvm::LoopPassManager loops;
  loops.addPass(llvm::LoopRotatePass());
  loops.addPass(llvm::LICMPass(llvm::LICMOptions()));
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(loops), /*UseMemorySSA=*/true));
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::InstCombinePass());
  llvm::ModulePassManager out;
  out.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(passes)));
  return out;
}

bool IsInVectors(const llvm::Module& module) {
  return llvm::any_of(module, [](const llvm::Function& function) {
    return function.hasFnAttribute("uopd-in-vectors");
  });
}

// Makes a protected step of the pass configuration callable.
struct CoreSelection : llvm::TargetPassConfig {
  using llvm::TargetPassConfig::addCoreISelPasses;
};

// Adds the passes that select instructions. True if the target has none.
//
// As TargetPassConfig::addISelPasses. For a draft, without the passes that rewrite the IR for the
// target, as when LLVM does not optimise. Reducing the strength of loops and preparing addresses
// take a quarter of the time of the code generator. Most kernels are as fast without them; those
// with many strided loads are up to a third slower.
bool AddSelection(llvm::LLVMTargetMachine& machine, llvm::TargetPassConfig& config, bool draft,
                  llvm::legacy::PassManager& passes) {
  if (!draft) return config.addISelPasses();
  machine.setOptLevel(llvm::CodeGenOptLevel::None);
  passes.add(llvm::createTargetTransformInfoWrapperPass(machine.getTargetIRAnalysis()));
  passes.add(llvm::createPreISelIntrinsicLoweringPass());
  passes.add(llvm::createExpandLargeDivRemPass());
  passes.add(llvm::createExpandLargeFpConvertPass());
  config.addIRPasses();
  config.addCodeGenPrepare();
  machine.setOptLevel(llvm::CodeGenOptLevel::Default);
  config.addPassesToHandleExceptions();
  config.addISelPrepare();
  return (config.*(&CoreSelection::addCoreISelPasses))();
}

// Adds the passes that turn a module into an object. False if the target emits none.
//
// As TargetMachine::addPassesToEmitFile, but without the scheduler of machine instructions: codegen
// emits each load right before its use (core/codegen/linearise/linearise.cc). The scheduler would
// move all loads of a register tile to its front, and the accumulators to the stack.
bool AddCodegen(llvm::LLVMTargetMachine& machine, bool draft, llvm::raw_pwrite_stream& out,
                llvm::legacy::PassManager& passes) {
  auto* modules = new llvm::MachineModuleInfoWrapperPass(&machine);
  llvm::TargetPassConfig* config = machine.createPassConfig(passes);
  config->disablePass(&llvm::MachineSchedulerID);
  passes.add(config);
  passes.add(modules);
  if (AddSelection(machine, *config, draft, passes)) return false;
  config->addMachinePasses();
  config->setInitialized();
  if (machine.addAsmPrinter(passes, out, nullptr, llvm::CodeGenFileType::ObjectFile,
                            modules->getMMI().getContext())) {
    return false;
  }
  passes.add(llvm::createFreeMachineFunctionPass());
  return true;
}

}  // namespace

CpuCompiler::CpuCompiler(CpuTarget target) : target_(std::move(target)) {}
CpuCompiler::~CpuCompiler() = default;

absl::StatusOr<std::unique_ptr<CpuCompiler>> CpuCompiler::Create(CpuTarget target) {
  [[maybe_unused]] static const bool once = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();
    return true;
  }();
  std::unique_ptr<CpuCompiler> compiler(new CpuCompiler(std::move(target)));
  UOPD_ASSIGN(Machine first, compiler->Borrow());
  MutexLock lock(compiler->mu_);
  compiler->free_.push_back(std::move(first));
  return compiler;
}

absl::StatusOr<CpuCompiler::Machine> CpuCompiler::Borrow() const {
  {
    MutexLock lock(mu_);
    if (!free_.empty()) {
      Machine machine = std::move(free_.back());
      free_.pop_back();
      return machine;
    }
  }
  std::string error;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(target_.triple, error);
  if (found == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("LLVM does not know the target ", target_.triple, ": ", error));
  }
  Machine machine(found->createTargetMachine(
      target_.triple, target_.cpu, target_.features, llvm::TargetOptions(), llvm::Reloc::PIC_,
      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
  if (machine == nullptr) {
    return absl::UnavailableError(absl::StrCat("LLVM has no code generator for ", target_.triple));
  }
  return machine;
}

absl::StatusOr<std::string> CpuCompiler::Compile(std::string_view source) const {
  return Compile(source, /*draft=*/false);
}

absl::StatusOr<std::string> CpuCompiler::CompileDraft(std::string_view source) const {
  return Compile(source, /*draft=*/true);
}

absl::StatusOr<std::string> CpuCompiler::Compile(std::string_view source, bool draft) const {
  UOPD_ASSIGN(Machine machine, Borrow());
  std::string errors;
  llvm::SmallVector<char, 0> object;
  {
    llvm::LLVMContext context;
    UOPD_ASSIGN(const std::unique_ptr<llvm::Module> module,
                llvm_ir::Parse(source, *machine, context, errors));
    SetAttributes(*module, target_);
    if (draft || IsInVectors(*module)) {
      llvm_ir::RunPasses(*module, *machine, LeanPasses());
    } else {
      llvm_ir::Optimize(*module, *machine);
    }
    SplitWideMasks(*module, target_);
    llvm::raw_svector_ostream out(object);
    llvm::legacy::PassManager codegen;
    if (!AddCodegen(static_cast<llvm::LLVMTargetMachine&>(*machine), draft, out, codegen)) {
      return llvm_ir::CompileError("the target emits no objects", source);
    }
    codegen.run(*module);
  }
  if (!errors.empty()) return llvm_ir::CompileError(errors, source);
  MutexLock lock(mu_);
  free_.push_back(std::move(machine));
  return std::string(object.data(), object.size());
}

}  // namespace uopd::devices::cpu
