// SPDX-License-Identifier: MIT
// A renderer: linear program -> text in one format. A value, chosen by Target::format.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/base/target.h"
#include "core/ir/context.h"

namespace uopd::render {

// Stateless: any thread may call `render`, each with a context of its own.
struct Renderer {
  ProgramFormat format;
  std::string_view name;  // "llvm_ir": in keys and error messages
  int version;            // of the text: raise it with every change
  // A function `name` that takes the kernel's buffers and the values of `variables`, in this order.
  // UNIMPLEMENTED names the op and dtype that have no rendering. REQUIRES: ir::Verify(...,
  // Stage::kProgram).
  absl::StatusOr<std::string> (*render)(ir::UOpContext& ctx, ir::UOp program, std::string_view name,
                                        std::span<const std::string> variables);

  std::string Key() const;  // "llvm_ir=3": part of the environment key of cached kernels
};

// The renderer of a format, for as long as the process lives. UNIMPLEMENTED for a format that is no
// text or has none.
absl::StatusOr<const Renderer*> RendererFor(ProgramFormat format);

}  // namespace uopd::render
