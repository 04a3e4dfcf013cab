// SPDX-License-Identifier: MIT
// TuneGraph: a graph on its way to the daemon, which tunes its kernels.
#pragma once
#include <string>

#include "native/binding.h"
#include "uopd/options.h"

namespace uopd::python {

struct TuneGraph {
  std::string bytes;                 // its wire form
  client::ExecutionOptions options;  // of the requests that run it: kernels are tuned for these
};

}  // namespace uopd::python
