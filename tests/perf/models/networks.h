// SPDX-License-Identifier: MIT
// Networks for inference whose weights, inputs and results are those of tests/perf/peers/models.py.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "tests/perf/models/weights.h"

namespace uopd::perf {

// A network with its weights. The input of every run is sent by the client.
struct Network {
  Weights weights;
  std::function<client::Tensor()>
      run;  // builds one run: the input, sent by the client, and the result
};

struct NetworkEntry {
  std::string name;
  std::function<Network(client::Client&)> make;
};
// resnet50.b1, resnet50.b8, mobilenetv2.b1, bert.128, gpt2.128.
const std::vector<NetworkEntry>& Networks();

}  // namespace uopd::perf
