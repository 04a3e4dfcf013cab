// SPDX-License-Identifier: MIT
// Whether the daemon serves, and what it lacks.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace uopd::engine {

// Every reason by name: the labels of uopd_ready. The first ones keep a daemon from serving, the
// others do not.
inline constexpr std::string_view kNotReadyReasons[] = {
    "draining", "default_device", "workers", "threads", "graph_threads", "stuck_device"};
inline constexpr std::string_view kDegradedReasons[] = {
    "cache_read_only", "cache_full", "cache_memory", "cache_newer", "device", "cluster"};

struct ReadyReason {
  std::string_view name;  // one of those above
  std::string text;       // for people
};

struct Readiness {
  std::vector<ReadyReason> not_ready;  // empty: requests can be served properly
  std::vector<ReadyReason> degraded;   // what is worse than it should be
};

// The texts, with this between them.
std::string Texts(const std::vector<ReadyReason>& reasons, std::string_view separator);
// Writes uopd_ready.
void Publish(const Readiness& readiness);

}  // namespace uopd::engine
