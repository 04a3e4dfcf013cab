// SPDX-License-Identifier: MIT
// Texts of what codegen.h defines.
#include "core/base/text.h"
#include "core/codegen/codegen.h"

namespace uopd::codegen {

constexpr std::string_view kOptNames[] = {"UPCAST", "UNROLL", "THREAD", "VECTOR"};

std::string Text(const Opt& opt) {
  return Cat(kOptNames[static_cast<int>(opt.kind)], "(", opt.axis, ", ", opt.amount, ")");
}

std::string Target::Key() const {
  return Cat("kind=", kind, " vector_bytes=", vector_bytes, " vector_registers=", vector_registers,
             " threads=", threads, " private_bytes=", private_bytes, " fma=", has_fma ? 1 : 0);
}

}  // namespace uopd::codegen
