// SPDX-License-Identifier: MIT
#include "devices/cpu/cpu_compiler.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/SourceMgr.h>
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

namespace uopd::devices::cpu {
namespace {

constexpr int kShownLines = 12;

absl::Status CompileError(const std::string& what, std::string_view source) {
  size_t end = 0;
  for (int line = 0; line < kShownLines && end != std::string_view::npos; ++line)
    end = source.find('\n', end + 1);
  return absl::InternalError(absl::StrCat("LLVM refuses a kernel: ", what, "\nThe source begins:\n",
                                          std::string(source.substr(0, end))));
}

// Collects the errors that LLVM reports while it works. LLVM's own handler would print them and
// exit.
class Diagnostics final : public llvm::DiagnosticHandler {
 public:
  explicit Diagnostics(std::string& errors) : errors_(errors) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (info.getSeverity() == llvm::DS_Error) {
      llvm::raw_string_ostream out(errors_);
      llvm::DiagnosticPrinterRawOStream printer(out);
      info.print(printer);
      out << "; ";
    }
    return true;
  }

 private:
  std::string& errors_;
};

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

void Optimize(llvm::Module& module, llvm::TargetMachine& machine, bool lean) {
  llvm::PipelineTuningOptions tuning;
  tuning.SLPVectorization = true;
  llvm::PassBuilder builder(&machine, tuning);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  llvm::ModulePassManager passes =
      lean ? LeanPasses() : builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2);
  passes.run(module, modules);
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
// emits each load right before its use (core/codegen/passes/linearise/linearise.cc). The scheduler would move
// all loads of a register tile to its front, and the accumulators to the stack.
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
    return absl::UnavailableError(
        absl::StrCat("LLVM has no code generator for ", target_.triple, "."));
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
    context.setDiagnosticHandler(std::make_unique<Diagnostics>(errors));
    llvm::SMDiagnostic diagnostic;
    // A copy, since the parser needs a terminating zero. The constant file name keeps paths out of
    // the object.
    const std::string text(source);
    std::unique_ptr<llvm::Module> module =
        llvm::parseAssembly(llvm::MemoryBufferRef(text, "kernel"), diagnostic, context);
    if (module == nullptr) {
      return CompileError(
          absl::StrCat("line ", diagnostic.getLineNo(), ", column ", diagnostic.getColumnNo() + 1,
                       ": ", diagnostic.getMessage().str(), "\n  ",
                       diagnostic.getLineContents().str()),
          source);
    }
    if (llvm::all_of(*module,
                     [](const llvm::Function& function) { return function.isDeclaration(); })) {
      return CompileError("it defines no function", source);
    }
    module->setTargetTriple(target_.triple);
    module->setDataLayout(machine->createDataLayout());
    SetAttributes(*module, target_);
    std::string broken;
    llvm::raw_string_ostream broken_out(broken);
    if (llvm::verifyModule(*module, &broken_out)) return CompileError(broken, source);
    Optimize(*module, *machine, draft || IsInVectors(*module));
    llvm::raw_svector_ostream out(object);
    llvm::legacy::PassManager codegen;
    if (!AddCodegen(static_cast<llvm::LLVMTargetMachine&>(*machine), draft, out, codegen)) {
      return CompileError("the target emits no objects", source);
    }
    codegen.run(*module);
  }
  if (!errors.empty()) return CompileError(errors, source);
  MutexLock lock(mu_);
  free_.push_back(std::move(machine));
  return std::string(object.data(), object.size());
}

}  // namespace uopd::devices::cpu
