// SPDX-License-Identifier: MIT
// A request that a test can cancel.
#pragma once
#include <memory>

#include "server/engine/base/cancellation.h"
#include "server/engine/base/request_context.h"

namespace uopd::engine {

inline RequestContext Cancellable() {
  RequestContext out;
  out.cancellation = std::make_shared<Cancellation>();
  return out;
}

}  // namespace uopd::engine
