// SPDX-License-Identifier: MIT
#include "devices/llvm_ir/module_text.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace uopd::devices::llvm_ir {
namespace {

constexpr int kShownLines = 12;

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

// Gives `use` a pass builder and the analyses for it.
template <class Use>
void WithPasses(llvm::Module& module, llvm::TargetMachine& machine, Use use) {
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
  use(builder).run(module, modules);
}

}  // namespace

absl::Status CompileError(const std::string& what, std::string_view source) {
  size_t end = 0;
  for (int line = 0; line < kShownLines && end != std::string_view::npos; ++line)
    end = source.find('\n', end + 1);
  return absl::InternalError(absl::StrCat("LLVM refuses a kernel: ", what, "\nThe source begins:\n",
                                          std::string(source.substr(0, end))));
}

absl::StatusOr<std::unique_ptr<llvm::Module>> Parse(std::string_view source,
                                                    const llvm::TargetMachine& machine,
                                                    llvm::LLVMContext& context,
                                                    std::string& errors) {
  context.setDiagnosticHandler(std::make_unique<Diagnostics>(errors));
  llvm::SMDiagnostic diagnostic;
  // A copy, since the parser needs a terminating zero. The constant file name keeps paths out of
  // the object.
  const std::string text(source);
  const std::string layout = machine.createDataLayout().getStringRepresentation();
  std::unique_ptr<llvm::Module> module = llvm::parseAssembly(
      llvm::MemoryBufferRef(text, "kernel"), diagnostic, context, nullptr,
      [&](llvm::StringRef, llvm::StringRef) { return std::optional<std::string>(layout); });
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
  module->setTargetTriple(machine.getTargetTriple().str());
  module->setDataLayout(layout);
  std::string broken;
  llvm::raw_string_ostream broken_out(broken);
  if (llvm::verifyModule(*module, &broken_out)) return CompileError(broken, source);
  return module;
}

void Optimize(llvm::Module& module, llvm::TargetMachine& machine) {
  WithPasses(module, machine, [](llvm::PassBuilder& builder) {
    return builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2);
  });
}

void RunPasses(llvm::Module& module, llvm::TargetMachine& machine, llvm::ModulePassManager passes) {
  WithPasses(module, machine, [&](llvm::PassBuilder&) { return std::move(passes); });
}

}  // namespace uopd::devices::llvm_ir
