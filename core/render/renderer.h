// SPDX-License-Identifier: MIT
// Renderer: turns a linear kernel into source text of one format. The last step before the
// compiler of a device; chosen by Target::format.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/base/target/target.h"
#include "core/ir/context.h"

namespace uopd::render {

// What to render. Plain data; the referenced objects outlive the call.
struct Request {
  ir::UOpContext& ctx;
  ir::UOp linear;  // REQUIRES: it passed ir::Verify(..., Level::kLinear)
  std::string_view name;
  std::span<const std::string> variables;  // in the order of the launch's values
  const Target& target;
  size_t buffers = 0;  // slots of the kernel, used or not
};

// Stateless: any thread may call `render` with a context of its own.
struct Renderer {
  CodeFormat format;
  std::string_view name;  // "llvm_ir": in keys and error messages
  int version;            // of the text: raise it with every change of the text
  // The text of a function `name` that takes the buffers of the kernel and the values of
  // `variables`, in this order. UNIMPLEMENTED names an op and dtype that have no rendering.
  absl::StatusOr<std::string> (*render)(const Request& request);

  std::string Key() const;  // "llvm_ir=3": part of the environment key of cached kernels
};

// The renderer of a format; it lives until the process exits. UNIMPLEMENTED if the format is not a
// text format or has no renderer.
absl::StatusOr<const Renderer*> RendererFor(CodeFormat format);

}  // namespace uopd::render
