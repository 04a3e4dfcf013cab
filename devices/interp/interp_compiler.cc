// SPDX-License-Identifier: MIT
#include "devices/interp/interp_compiler.h"

#include "absl/strings/str_cat.h"
#include "core/ir/io/linear_text.h"
#include "core/ir/verify/spec.h"

namespace uopd::devices::interp {
namespace {

absl::StatusOr<InterpCode> ParseCode(std::string_view source,
                                     std::span<const MatrixInstruction> matrix_instructions) {
  ir::UOpContext ctx;
  UOPD_ASSIGN(const ir::LinearText text, ir::ParseLinear(ctx, source));
  UOPD_TRY(ir::Verify(ctx, text.linear, ir::Level::kLinear));
  UOPD_ASSIGN(uopd::interp::Program program,
              uopd::interp::Program::Make(ctx, text.linear, text.variables, matrix_instructions));
  return InterpCode{text.name, std::move(program)};
}

}  // namespace

absl::StatusOr<InterpCode> InterpCompiler::Parse(std::string_view source) const {
  auto code = ParseCode(source, matrix_instructions_);
  if (code.ok()) return code;
  constexpr size_t kShown = 400;
  return absl::InternalError(
      absl::StrCat("The interpreter does not take the kernel: ", StatusText(code.status()),
                   ". Its text begins: ", std::string(source.substr(0, kShown))));
}

absl::StatusOr<std::string> InterpCompiler::Compile(std::string_view source) const {
  UOPD_TRY(Parse(source).status());
  return std::string(source);
}

}  // namespace uopd::devices::interp
