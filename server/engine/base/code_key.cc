// SPDX-License-Identifier: MIT
#include "server/engine/base/code_key.h"

#include "core/base/text.h"
#include "core/codegen/codegen.h"
#include "core/render/renderer.h"

namespace uopd::engine {

std::string CodeEnvironment(const Target& target) {
  const auto renderer = render::RendererFor(target.format);
  return Cat("codegen=", codegen::kCodegenVersion, " ",
             renderer.ok() ? (*renderer)->Key() : std::string("no_renderer"), " ", target.Key());
}

std::string ObjectEnvironment(const Target& target) {
  std::string out = Cat("kind=", target.kind, " arch=", target.arch,
                        " toolchain=", target.toolchain, " text=", static_cast<int>(target.format));
  // The names are long, and a toolchain that ends with them tells the same.
  if (!target.toolchain.ends_with(Cat(";features=", target.features)))
    Append(out, " features=", target.features);
  return out;
}

}  // namespace uopd::engine
