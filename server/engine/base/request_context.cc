// SPDX-License-Identifier: MIT
#include "server/engine/base/request_context.h"

namespace uopd::engine {

void RequestContext::EndWith(std::shared_ptr<Cancellation> ends) {
  cancelled = [ends] { return ends->cancelled(); };
  cancellation = std::move(ends);
}

}  // namespace uopd::engine
