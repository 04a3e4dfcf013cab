// SPDX-License-Identifier: MIT
#include "devices/cpu/disassemble.h"

#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCDisassembler/MCDisassembler.h>
#include <llvm/MC/MCInst.h>
#include <llvm/MC/MCInstPrinter.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/MCTargetOptions.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/TargetParser/Triple.h>

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace uopd::devices::cpu {

absl::StatusOr<std::string> Disassemble(std::span<const uint8_t> code, const CpuTarget& target,
                                        size_t max_bytes) {
  [[maybe_unused]] static const bool once = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetDisassembler();
    return true;
  }();
  std::string error;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(target.triple, error);
  if (found == nullptr) return absl::UnavailableError(error);
  const std::unique_ptr<llvm::MCRegisterInfo> registers(found->createMCRegInfo(target.triple));
  const std::unique_ptr<llvm::MCAsmInfo> info(
      found->createMCAsmInfo(*registers, target.triple, llvm::MCTargetOptions()));
  const std::unique_ptr<llvm::MCInstrInfo> instructions(found->createMCInstrInfo());
  const std::unique_ptr<llvm::MCSubtargetInfo> subtarget(
      found->createMCSubtargetInfo(target.triple, target.cpu, target.features));
  const llvm::Triple triple(target.triple);
  llvm::MCContext context(triple, info.get(), registers.get(), subtarget.get());
  const std::unique_ptr<llvm::MCDisassembler> disassembler(
      found->createMCDisassembler(*subtarget, context));
  const std::unique_ptr<llvm::MCInstPrinter> printer(found->createMCInstPrinter(
      triple, info->getAssemblerDialect(), *info, *instructions, *registers));
  if (disassembler == nullptr || printer == nullptr) {
    return absl::UnavailableError(absl::StrCat("LLVM has no disassembler for ", target.triple));
  }
  printer->setPrintBranchImmAsAddress(true);

  std::string out;
  const llvm::ArrayRef<uint8_t> bytes(code.data(), code.size());
  for (uint64_t at = 0; at < code.size();) {
    if (out.size() >= max_bytes) {
      absl::StrAppend(&out, "... ", code.size() - at, " more bytes of code\n");
      break;
    }
    llvm::MCInst instruction;
    uint64_t size = 0;
    std::string text;
    const auto status =
        disassembler->getInstruction(instruction, size, bytes.slice(at), at, llvm::nulls());
    if (status == llvm::MCDisassembler::Fail) {
      size = 1;
      text = absl::StrFormat(".byte 0x%02x", code[at]);
    } else {
      llvm::raw_string_ostream stream(text);
      // The printer adds the distance of a jump to this address.
      const uint64_t from = triple.isX86() ? at + size : at;
      printer->printInst(&instruction, from, "", *subtarget, stream);
    }
    std::replace(text.begin(), text.end(), '\t', ' ');
    absl::StrAppendFormat(&out, "%6x  %s\n", at, absl::StripAsciiWhitespace(text));
    at += std::max<uint64_t>(size, 1);
  }
  return out;
}

}  // namespace uopd::devices::cpu
