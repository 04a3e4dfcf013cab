// SPDX-License-Identifier: MIT
// The models that are measured with their weights on a daemon.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "uopd/client.h"

namespace uopd::perf {

// One model of one client. A step of it is run again and again.
class Subject {
 public:
  virtual ~Subject() = default;
  // The tensors of the next step, to be realised together. Nothing is sent. The first one is the
  // result that a client wants to see.
  virtual absl::StatusOr<std::vector<client::Tensor>> Step() = 0;
  // Gives values to all that a step reads. Memory that nothing was written to would be one page of
  // zeros: no weights to read.
  virtual absl::Status Fill() = 0;

  // Bytes of weights that every step reads; 0: not counted.
  virtual int64_t weight_bytes() const { return 0; }

  // A step, from the calls that build its graph to its result on the host.
  absl::StatusOr<std::string> Run();
};

// The networks of networks.h ("resnet50.b1", ...), and
//   "decode"    a token of Llama-3.2-1B's shape, weights in bf16, tied embedding, position 1000
//   "train"     a step of Adam on ResNet-18, 8 images of 224 x 224
//   "mlp-adam"  a step of Adam on a 784-512-10 perceptron, 128 rows
// NOT_FOUND for another name.
absl::StatusOr<std::unique_ptr<Subject>> MakeSubject(const std::string& name,
                                                     client::Client& client);

}  // namespace uopd::perf
