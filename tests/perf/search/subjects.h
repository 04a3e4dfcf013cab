// SPDX-License-Identifier: MIT
// The kernels on which the search of opts is measured, as the scheduler makes them for a device.
#pragma once
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/target/target.h"

namespace uopd::perf {

struct SearchSubject {
  std::string name;   // "resnet.3"
  std::string graph;  // schedule::Item::graph
};

// `set`:
//   models  ten kernels of ResNet-50 (batch 1), and ten of a decode step of one Llama-3.2-1B block:
//           those that cost most, each once
//   others  twenty kernels of other kinds: odd shapes, scans, scatters, integers, symbolic sizes
// NOT_FOUND for another name.
absl::StatusOr<std::vector<SearchSubject>> SearchSubjects(const std::string& set,
                                                          const Target& target);

}  // namespace uopd::perf
