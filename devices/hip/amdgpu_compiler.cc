// SPDX-License-Identifier: MIT
#include "devices/hip/amdgpu_compiler.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetOptions.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "devices/gpu/diagnostic.h"
#include "devices/gpu/run_program.h"
#include "devices/llvm_ir/module_text.h"

namespace uopd::devices::hip {
namespace {

constexpr char kTriple[] = "amdgcn-amd-amdhsa";
constexpr std::string_view kArchField = ";arch=";

absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> MachineFor(const std::string& processor) {
  [[maybe_unused]] static const bool once = [] {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
    return true;
  }();
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(kTriple, error);
  if (target == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("This LLVM has no code generator for AMDGPU: ", error));
  }
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(kTriple, processor, "", options, llvm::Reloc::PIC_, std::nullopt,
                                  llvm::CodeGenOptLevel::Default));
  if (machine == nullptr || !machine->getMCSubtargetInfo()->isCPUStringValid(processor)) {
    return absl::UnavailableError(
        absl::StrCat("LLVM ", LLVM_VERSION_STRING, " does not know the processor ", processor));
  }
  return machine;
}

// An object file with references between its sections.
absl::StatusOr<std::string> ObjectOf(std::string_view source, llvm::TargetMachine& machine) {
  std::string errors;
  llvm::SmallVector<char, 0> object;
  {
    llvm::LLVMContext context;
    UOPD_ASSIGN(const std::unique_ptr<llvm::Module> module,
                llvm_ir::Parse(source, machine, context, errors));
    llvm_ir::Optimize(*module, machine);
    llvm::raw_svector_ostream out(object);
    llvm::legacy::PassManager codegen;
    if (machine.addPassesToEmitFile(codegen, out, nullptr, llvm::CodeGenFileType::ObjectFile))
      return llvm_ir::CompileError("the target emits no objects", source);
    codegen.run(*module);
  }
  if (!errors.empty()) return llvm_ir::CompileError(errors, source);
  return std::string(object.data(), object.size());
}

}  // namespace

std::string LldProgram() {
  if (const char* file = std::getenv("UOPD_LLD"); file != nullptr && *file != 0) return file;
  constexpr const char* kPlaces[] = {"/usr/bin/ld.lld-19", "/usr/lib/llvm-19/bin/ld.lld",
                                     "/opt/rocm/llvm/bin/ld.lld", "/usr/bin/ld.lld"};
  for (const char* place : kPlaces) {
    if (access(place, X_OK) == 0) return place;
  }
  return std::end(kPlaces)[-1];
}

absl::StatusOr<std::shared_ptr<const AmdgpuCompiler>> AmdgpuCompiler::Create(
    const std::string& lld, const std::string& processor) {
  UOPD_TRY(MachineFor(processor).status());
  UOPD_ASSIGN(const gpu::ProgramEnd end, gpu::RunProgram(lld, {"--version"}, ""));
  const std::string version(absl::StripAsciiWhitespace(end.output));
  if (end.exit_status != 0 || version.empty() || version.find(';') != std::string::npos) {
    return absl::UnavailableError(absl::StrCat(
        "The linker ", lld, " does not tell its version (exit status ", end.exit_status, ")"));
  }
  std::string toolchain = absl::StrCat(kToolchainPrefix, LLVM_VERSION_STRING, ";", version,
                                       std::string(kArchField), processor, ";O2");
  return std::shared_ptr<const AmdgpuCompiler>(
      new AmdgpuCompiler(lld, processor, std::move(toolchain)));
}

absl::StatusOr<std::shared_ptr<const AmdgpuCompiler>> AmdgpuCompiler::OfToolchain(
    const std::string& lld, const std::string& toolchain) {
  const size_t at = toolchain.find(kArchField), end = toolchain.find(';', at + 1);
  if (at == std::string::npos || end == std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("No compiler for AMDGPU has the toolchain ", toolchain));
  }
  const size_t begin = at + kArchField.size();
  UOPD_ASSIGN(auto compiler, Create(lld, toolchain.substr(begin, end - begin)));
  if (compiler->toolchain() != toolchain) {
    return absl::FailedPreconditionError(absl::StrCat("the toolchain here (", compiler->toolchain(),
                                                      ") is not the one asked for (", toolchain,
                                                      ")"));
  }
  return compiler;
}

absl::StatusOr<std::string> AmdgpuCompiler::Compile(std::string_view source) const {
  UOPD_ASSIGN(const auto machine, MachineFor(processor_));
  UOPD_ASSIGN(const std::string object, ObjectOf(source, *machine));
  UOPD_ASSIGN(
      const gpu::ProgramEnd end,
      gpu::RunProgram(lld_, {"-shared", "--no-undefined", "-o", "-", "/dev/stdin"}, object));
  if (end.exit_status != 0 || end.output.empty()) {
    return gpu::DoesNotCompile(absl::StrCat("LLD (exit status ", end.exit_status, ")"), end.errors,
                               source);
  }
  return end.output;
}

}  // namespace uopd::devices::hip
