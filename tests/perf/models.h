// SPDX-License-Identifier: MIT
// The models that whole-graph benchmarks measure.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "uopd/tensor.h"

namespace uopd::perf {

// What the reference compiler (in Python, on the machine that README's figures come from) takes for
// the same model; 0: not known.
struct Peer {
  double schedule_ms = 0;
  double kernels = 0;
};

struct Model {
  std::string name;
  Peer peer;
  // Builds the graph in a new client; the tensors that are realised together.
  std::function<absl::StatusOr<client::Exported>()> build;
};

// `layers` of Llama; 0: as many as it is known with.
std::vector<Model> Models(int64_t layers);

}  // namespace uopd::perf
