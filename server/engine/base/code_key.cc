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

}  // namespace uopd::engine
