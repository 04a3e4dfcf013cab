// SPDX-License-Identifier: MIT
// The instructions of a linked kernel as text, for people to read (LLVM's disassembler).
//
// Thread-safe. Addresses are offsets from the first byte of the code, so equal code has equal text.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/base/status.h"
#include "devices/cpu/cpu_target.h"

namespace uopd::devices::cpu {

// One instruction a line: "   1a0  vaddps %zmm0, %zmm1, %zmm2". After about `max_bytes` of text the
// rest is left out, and the last line says how many bytes of code that are. Bytes that are no
// instruction are printed as .byte. UNAVAILABLE: LLVM has no disassembler for the target.
absl::StatusOr<std::string> Disassemble(std::span<const uint8_t> code, const CpuTarget& target,
                                        size_t max_bytes);

}  // namespace uopd::devices::cpu
