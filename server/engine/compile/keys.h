// SPDX-License-Identifier: MIT
// The keys of what the engine caches by graph.
#pragma once
#include <string>
#include <string_view>

#include "cache/base/key.h"
#include "core/base/text.h"
#include "server/engine/compile/pipeline.h"
#include "server/engine/compile/schedule_target.h"

namespace uopd::engine {

// The bytes of a graph, by digest.
inline cache::Key GraphKey(std::string_view digest) {
  return {"graph", std::string(digest), "ir=1"};
}

// The schedule of a graph given by its canonical bytes.
inline cache::Key ScheduleKey(std::string bytes, const Pipeline& pipeline,
                              const ScheduleTarget& target) {
  return {"schedule", std::move(bytes), Cat(pipeline.ScheduleEnvironment(), " ", target.Text())};
}

}  // namespace uopd::engine
