// SPDX-License-Identifier: MIT
// Compiler of INTERP: checks the text of a linear kernel (core/ir/io/linear_text.h). The object is the text,
// unchanged. Thread-safe: each call has a context of its own.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/base/target/target.h"
#include "core/interp/program.h"
#include "devices/api/compiler.h"

namespace uopd::devices::interp {

// A kernel that is ready to run.
struct InterpCode {
  std::string name;
  uopd::interp::Program program;
};

class InterpCompiler final : public Compiler {
 public:
  explicit InterpCompiler(std::vector<MatrixInstruction> matrix_instructions)
      : matrix_instructions_(std::move(matrix_instructions)) {}

  absl::StatusOr<std::string> Compile(std::string_view source) const override;
  // Parses and verifies. INTERNAL: what is wrong with the text, as for Compile.
  absl::StatusOr<InterpCode> Parse(std::string_view source) const;

 private:
  const std::vector<MatrixInstruction> matrix_instructions_;
};

}  // namespace uopd::devices::interp
