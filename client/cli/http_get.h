// SPDX-License-Identifier: MIT
// One GET of the daemon's HTTP server.
#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace uopd::cli {

inline constexpr char kHttpAddress[] = "127.0.0.1:50511";

// The whole body of the answer to GET `path`. UNAVAILABLE: no answer, a part of one, or not 200;
// DEADLINE_EXCEEDED: not all of it within `timeout_s`; RESOURCE_EXHAUSTED: a page without end.
absl::StatusOr<std::string> HttpGet(const std::string& address, const std::string& path,
                                    double timeout_s);

// The page /metrics of the daemon at the address. Also UNAVAILABLE: somebody else answers there.
absl::StatusOr<std::string> GetMetrics(const std::string& address, double timeout_s);

// A line of /metrics.
struct Sample {
  std::string name;
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0;
};
// The samples of a page, and nothing of lines that are none.
std::vector<Sample> ReadSamples(const std::string& page);

}  // namespace uopd::cli
